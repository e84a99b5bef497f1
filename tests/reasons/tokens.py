"""Findings about tokens: their ids and number, what is learned of them, and the tokens that frame a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.reasons import Reason
from tests.reasons.case import LAYOUTLMV3, Case, lines, table
from tests.reasons.chats import assistant, chat, user

ROWS = 10
"""Rows of the embedding in these tests."""


def _case(
    reason: Reason,
    bad: Mapping[str, Any],
    near: Mapping[str, Any],
    section: Mapping[str, Any] | None = None,
    **more: Any,
) -> Case:
    """Two rows that are tokenized already."""
    schema = {"kind": "tokens", "tokens": dict(section or {}), "model": {"embedding_rows": ROWS}}
    records = [{"input_ids": [1, 5, 2], "labels": [-100, 5, 2], **one} for one in (bad, near)]
    schema |= more.pop("schema", {})
    return Case(reason, schema, {"a.jsonl": lines(*records)}, "a.jsonl:1", "a.jsonl:2", **more)


def _length(reason: Reason, bad: tuple[str, str], near: tuple[str, str], **section: Any) -> Case:
    """Two conversations under a limit that the second one just fits."""
    talks = [{"messages": [user(asked), assistant(said)]} for asked, said in (bad, near)]
    return Case(
        reason, chat({"max_tokens": 21, **section}), {"a.jsonl": lines(*talks)}, "a.jsonl:1", "a.jsonl:2"
    )


TYPES = {"token_type_ids": {"type": "list", "items": {"type": "integer"}}}
POSITIONS = {"position_ids": {"type": "list", "items": {"type": "integer"}}}
UNLABELLED = {"labels": None}
EXCHANGE = [user(), assistant()]

CASES = (
    _case(Reason.BOS_DOUBLED, {"input_ids": [1, 1, 2]}, {}, {"bos": 1, **UNLABELLED}),
    _case(Reason.BOS_MISSING, {"input_ids": [5, 5, 2]}, {}, {"bos": 1, **UNLABELLED}),
    _case(Reason.EOS_NOT_SUPERVISED, {"labels": [-100, 5, -100]}, {}, {"end_of_turn": 2}),
    _case(
        Reason.NO_SUPERVISED_TOKENS,
        {"labels": [1, -100, -100]},
        {"labels": [-100, 5, -100]},
        name="first_only",
    ),
    _case(Reason.SEQUENCE_TOO_SHORT, {"input_ids": [5]}, {"input_ids": [5, 2]}, UNLABELLED),
    _case(
        Reason.TOO_LONG_FOR_TARGET,
        {"input_ids": [1, 5, 5, 2]},
        {},
        {"max_tokens": 3, **UNLABELLED},
        name="tokens",
    ),
    _case(
        Reason.TOKEN_OUT_OF_VOCAB,
        {"input_ids": [1, ROWS, 2]},
        {"input_ids": [1, ROWS - 1, 2]},
        UNLABELLED,
        name="above",
    ),
    _case(
        Reason.TOKEN_OUT_OF_VOCAB,
        {"input_ids": [1, -1, 2]},
        {"input_ids": [1, 0, 2]},
        UNLABELLED,
        name="below",
    ),
    _case(Reason.TOKEN_OUT_OF_VOCAB, {"labels": [-100, 5, ROWS]}, {}, name="label"),
    _case(Reason.LENGTHS_MISMATCH, {"labels": [-100, 5]}, {}, name="labels"),
    _case(
        Reason.LENGTHS_MISMATCH,
        {"token_type_ids": [0, 0]},
        {"token_type_ids": [0, 0, 0]},
        UNLABELLED,
        schema={"columns": TYPES},
        name="token_types",
    ),
    _case(
        Reason.TOKEN_TYPE_OUT_OF_RANGE,
        {"token_type_ids": [0, 2, 0]},
        {"token_type_ids": [0, 1, 0]},
        UNLABELLED,
        schema={"columns": TYPES, "model": {"family": "layoutlm", "embedding_rows": ROWS}},
    ),
    _case(
        Reason.LENGTHS_MISMATCH,
        {"position_ids": [0, 1]},
        {"position_ids": [0, 1, 2]},
        UNLABELLED,
        schema={"columns": POSITIONS},
        name="positions",
    ),
    _case(
        Reason.VALUE_OUT_OF_RANGE,
        {"position_ids": [0, 1, 514]},
        {"position_ids": [0, 1, 0]},
        UNLABELLED,
        schema={"columns": POSITIONS},
        name="positions",
        final=True,
    ),
    _case(
        Reason.NO_SUPERVISED_TOKENS,
        {"position_ids": [0, 0, 0]},
        {"position_ids": [0, 0, 1]},
        schema={"columns": POSITIONS},
        name="positions",
        final=True,
    ),
    _case(
        Reason.ATTENTION_EMPTY,
        {"attention_mask": [0, 0, 0]},
        {"attention_mask": [0, 0, 1]},
        {"attention_mask": "attention_mask", **UNLABELLED},
    ),
    _case(
        Reason.VALUE_OUT_OF_RANGE,
        {"attention_mask": [1, 2, 1]},
        {"attention_mask": [1, 0, 1]},
        {"attention_mask": "attention_mask", **UNLABELLED},
        name="attention_mask",
        final=True,
    ),
    Case(
        Reason.LABEL_OUT_OF_RANGE,
        table({"label": {"type": "integer"}}, table={"label": "label"}),
        {"a.jsonl": lines({"label": -1}, {"label": 0})},
        "a.jsonl:1",
        "a.jsonl:2",
        name="table",
    ),
    Case(
        Reason.SEQUENCE_TOO_LONG,
        table(table={"text": "text", "max_tokens": 5}, tokenizer={"path": str(LAYOUTLMV3)}),
        {"a.jsonl": lines({"text": "one one one one"}, {"text": "one one one"})},
        "a.jsonl:1",
        "a.jsonl:2",
        name="table",
    ),
    _length(Reason.TOO_LONG_FOR_TARGET, ("ask a a", "answer"), ("ask a", "answer")),
    _length(Reason.PROMPT_TRUNCATED, ("ask a a", "answer"), ("ask a", "answer"), too_long="truncate_prompt"),
    _length(Reason.ANSWER_TRUNCATED, ("ask", "answer a a"), ("ask", "answer a"), too_long="truncate_answer"),
    Case(
        Reason.TURNS_TRUNCATED,
        chat({"max_tokens": 40}),
        {
            "a.jsonl": lines(
                {"messages": [*EXCHANGE, user("ask a a"), assistant()]}, {"messages": EXCHANGE * 2}
            )
        },
        "a.jsonl:1",
        "a.jsonl:2",
    ),
)
