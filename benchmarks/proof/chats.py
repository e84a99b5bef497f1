"""Chats and tokenized rows: clean ones, and every way to spoil one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from benchmarks.proof.hazard import Hazard, Record, changing, setting

SUBJECTS = ("The patient", "The nurse", "The doctor", "The report", "The ward", "The letter", "The result")
VERBS = ("shows", "asks for", "confirms", "explains", "needs", "describes", "repeats")
OBJECTS = (
    "no known allergy",
    "a second opinion",
    "the blood pressure",
    "a clear plan",
    "the dose",
    "the history",
)
VOCABULARY, EOS = 512, 2


def chat(number: int) -> Record:
    """A clean chat of one to three exchanges."""
    rng = random.Random(number)

    def sentence() -> str:
        return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}."

    messages = [{"role": "system", "content": "You explain clinical sentences in plain words."}]
    for _ in range(rng.randint(1, 3)):
        messages.append({"role": "user", "content": f"What does this mean: {sentence()}"})
        messages.append(
            {"role": "assistant", "content": f"It means: {sentence()} {sentence()} Case {number}."}
        )
    return {"id": f"chat-{number}", "messages": messages}


def tokens(number: int) -> Record:
    """A clean tokenized row with its answer supervised."""
    rng = random.Random(number)
    ids = [0, *(rng.randint(3, VOCABULARY - 1) for _ in range(rng.randint(20, 200))), EOS]
    return {
        "id": f"row-{number}",
        "input_ids": ids,
        "labels": [-100] * (len(ids) // 2) + ids[len(ids) // 2 :],
        "attention_mask": [1] * len(ids),
    }


def chat_hazards() -> list[Hazard]:
    """Every hazard of a conversation."""

    def of(name: str, reason: str, change: Callable[[list[Any]], Any], outcome: str = "quarantine") -> Hazard:
        return Hazard(name, reason, "chats", changing("messages", change), outcome)

    def content(value: Any, turn: int = -1) -> Callable[[list[Any]], Any]:
        def put(messages: list[Any]) -> list[Any]:
            place = turn % len(messages)
            return [{**m, "content": value} if i == place else m for i, m in enumerate(messages)]

        return put

    def role(name: str, turn: int) -> Callable[[list[Any]], Any]:
        def put(messages: list[Any]) -> list[Any]:
            place = turn % len(messages)
            return [{**m, "role": name} if i == place else m for i, m in enumerate(messages)]

        return put

    rendered = "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
    return [
        of("empty answer", "content_empty", content("   ")),
        of("null answer", "content_empty", content(None)),
        of("number as answer", "content_as_shown", content(42), "repair"),
        of("object as answer", "content_not_text", content({"text": "yes"})),
        of(
            "image part in a text set",
            "content_unsupported_part",
            content([{"type": "text", "text": "see"}, {"type": "image", "image": "a.png"}], 1),
        ),
        of("no turns", "conversation_empty", lambda messages: []),
        of("no user turn", "no_user_turn", lambda m: [m[0], m[-1]]),
        of("no assistant turn", "no_assistant_turn", lambda m: m[:2]),
        of("unknown role", "role_unknown", role("narrator", 1)),
        of("two users in a row", "role_order", lambda m: [m[0], m[1], m[1], m[2], *m[3:]]),
        of("last turn is the user's", "last_turn_not_assistant", lambda m: [*m, m[1]]),
        of(
            "tool call without a result",
            "tool_call_invalid",
            lambda m: [
                *m[:-1],
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "id": "1",
                            "type": "function",
                            "function": {"name": "look", "arguments": "{not json"},
                        }
                    ],
                },
            ],
        ),
        of(
            "control token in the text",
            "control_token_in_content",
            content("Stop <|eot_id|> here.", 1),
            "repair",
        ),
        of("chat rendered already", "already_rendered", content(rendered, 1)),
        of("answer over the limit", "too_long_for_target", content("Too long an answer. " * 400)),
        of("lone surrogate", "text_invalid_unicode", content("broken \ud83d half")),
        of("double encoding", "mojibake_suspected", content("FranÃ§ois said cafÃ© and naÃ¯ve."), "flag"),
    ]


def token_hazards() -> list[Hazard]:
    """Every hazard of rows that were tokenized elsewhere."""

    def of(name: str, reason: str, spoil: Callable[[Record], Record]) -> Hazard:
        return Hazard(name, reason, "tokens", spoil)

    def ids(value: int) -> Callable[[Record], Record]:
        return changing("input_ids", lambda x: [x[0], value, *x[2:]])

    def short(record: Record) -> Record:
        return {**record, "input_ids": [5], "labels": [5], "attention_mask": [1]}

    return [
        of("token id = embedding rows", "token_out_of_vocab", ids(VOCABULARY)),
        of("token id -1", "token_out_of_vocab", ids(-1)),
        of(
            "label beyond the vocabulary",
            "token_out_of_vocab",
            changing("labels", lambda x: [*x[:-2], VOCABULARY + 7, x[-1]]),
        ),
        of("one token", "sequence_too_short", short),
        of("no supervised token", "no_supervised_tokens", changing("labels", lambda x: [-100] * len(x))),
        of(
            "only the first token supervised",
            "no_supervised_tokens",
            lambda r: {**r, "labels": [r["input_ids"][0], *[-100] * (len(r["input_ids"]) - 1)]},
        ),
        of("attention mask all 0", "attention_empty", changing("attention_mask", lambda x: [0] * len(x))),
        of("labels shorter than ids", "lengths_mismatch", changing("labels", lambda x: x[:-3])),
        of("ids missing", "value_missing", setting(input_ids=None)),
    ]
