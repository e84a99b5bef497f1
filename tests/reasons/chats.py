"""Findings about chats: contents, roles, tools, templates and length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.reasons import Policy, Reason
from tests.reasons.case import LLAMA3, Case, lines

Turn = dict[str, Any]


def user(content: Any = "ask", **more: Any) -> Turn:
    """A user's turn."""
    return {"role": "user", "content": content, **more}


def assistant(content: Any = "answer", **more: Any) -> Turn:
    """An assistant's turn."""
    return {"role": "assistant", "content": content, **more}


def chat(section: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A schema of lists of turns for the small Llama 3."""
    base = {"source": {"format": "messages"}, "max_tokens": 200}
    return {"kind": "chat", "chat": {**base, **(section or {})}, "tokenizer": {"path": str(LLAMA3)}, **more}


def _case(
    reason: Reason, bad: list[Turn], near: list[Turn], section: Mapping[str, Any] | None = None, **more: Any
) -> Case:
    """Two conversations."""
    content = lines({"messages": bad}, {"messages": near})
    return Case(reason, chat(section), {"a.jsonl": content}, "a.jsonl:1", "a.jsonl:2", **more)


def _ask(reason: Reason, bad: Any, near: Any, section: Mapping[str, Any] | None = None, **more: Any) -> Case:
    """Two conversations whose user says this."""
    return _case(reason, [user(bad), assistant()], [user(near), assistant()], section, **more)


def _say(reason: Reason, bad: Any, near: Any, section: Mapping[str, Any] | None = None, **more: Any) -> Case:
    """Two conversations whose assistant says this."""
    return _case(reason, [user(), assistant(bad)], [user(), assistant(near)], section, **more)


def _call(name: str = "find", arguments: str = '{"key": "a"}', id_: str = "c1") -> Turn:
    """A turn that calls a tool."""
    call = {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def rendered(role: str) -> str:
    """A user's turn and one of this role, as Llama 3's template writes them."""
    turn = "<|start_header_id|>{}<|end_header_id|>\n\na<|eot_id|>"
    return turn.format("user") + turn.format(role)


RESULT = {"role": "tool", "content": "found", "tool_call_id": "c1"}
TOOLS = {"grammar": "user (assistant_call tool+)* assistant"}
SHORT = {"role_limits": {"user": {"min_characters": 3, "max_characters": 5}}}
PAIR = {"source": {"format": "preference"}}

CASES = (
    _say(Reason.CONTENT_EMPTY, "\u200b", "\u2022", name="blank"),
    _say(Reason.CONTENT_EMPTY, None, "null", name="null"),
    _say(Reason.CONTENT_NOT_TEXT, True, "true", name="boolean"),
    _say(Reason.CONTENT_NOT_TEXT, {"text": "a"}, '{"text": "a"}', name="object"),
    _say(Reason.CONTENT_NOT_TEXT, "[{'type': 'text', 'text': 'a'}]", "['type', 'text', 'a']", name="repr"),
    _say(Reason.CONTENT_AS_SHOWN, 42, "42"),
    _ask(Reason.CONTENT_PARTS_JOINED, [{"type": "text", "text": "a"}], "a"),
    _ask(
        Reason.CONTENT_UNSUPPORTED_PART,
        [{"type": "image_url", "image_url": "a.png"}],
        [{"type": "text", "text": "a.png"}],
        near_beside=frozenset({"content_parts_joined"}),
    ),
    _case(Reason.CONVERSATION_EMPTY, [], [user(), assistant()]),
    _case(Reason.NO_USER_TURN, [assistant()], [user(), assistant()]),
    _case(Reason.NO_ASSISTANT_TURN, [user()], [user(), assistant()]),
    _case(
        Reason.ROLE_UNKNOWN,
        [{"role": "humam", "content": "a"}, assistant()],
        [{"role": "human", "content": "a"}, assistant()],
    ),
    _case(
        Reason.ROLE_ORDER,
        [user(), user(), assistant()],
        [user(), assistant(), user(), assistant()],
        under={Policy.REPAIR: frozenset({"turns_merged"})},
    ),
    _case(
        Reason.LAST_TURN_NOT_ASSISTANT,
        [user(), assistant(), user()],
        [user(), assistant()],
        under={Policy.REPAIR: frozenset({"turn_dropped"})},
    ),
    _case(
        Reason.TURNS_MERGED,
        [user(), user(), assistant()],
        [user(), assistant()],
        policies={"role_order": "repair"},
    ),
    _case(
        Reason.TURN_DROPPED,
        [user(), assistant(), user()],
        [user(), assistant()],
        policies={"last_turn_not_assistant": "repair"},
    ),
    _case(
        Reason.TOOL_CALL_INVALID,
        [user(), _call(), {**RESULT, "tool_call_id": "c2"}, assistant()],
        [user(), _call(), RESULT, assistant()],
        TOOLS,
        name="ids",
    ),
    _case(
        Reason.TOOL_CALL_INVALID,
        [user(), _call(arguments="{'key': 'a'}"), RESULT, assistant()],
        [user(), _call(), RESULT, assistant()],
        TOOLS,
        name="arguments",
    ),
    _ask(Reason.CONTROL_TOKEN_IN_CONTENT, "a <|eot_id|>", "a <|eot-id|>"),
    _ask(
        Reason.ALREADY_RENDERED,
        rendered("assistant"),
        rendered("tool"),
        near_beside=frozenset({"control_token_in_content"}),
    ),
    _say(Reason.THINK_TAGS_UNBALANCED, "<think>a b", "<think>a</think> b"),
    _ask(Reason.TEXT_TOO_SHORT, "ab", "abc", SHORT, name="turn"),
    _ask(Reason.TEXT_TOO_LONG, "abcdef", "abcde", SHORT, name="turn"),
    _ask(Reason.TEXT_INVALID_UNICODE, "a\ufffdb", "a\ufffcb", name="turn"),
    _ask(Reason.MOJIBAKE_SUSPECTED, "cafÃ©", "café", name="turn"),
    _case(Reason.NO_SUPERVISED_TOKENS, [user(), assistant(train=False)], [user(), assistant(train=True)]),
    Case(
        Reason.PREFERENCE_IDENTICAL,
        chat(PAIR),
        {
            "a.jsonl": lines(
                {"prompt": "a", "chosen": "b", "rejected": "b"},
                {"prompt": "a", "chosen": "b", "rejected": "c"},
            )
        },
        "a.jsonl:1",
        "a.jsonl:2",
    ),
)
