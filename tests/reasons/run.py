"""Findings about the run: a template or tokenizer that is not the model's, found before a record is read."""

from __future__ import annotations

from typing import Any

from pipeline.reasons import Reason
from tests.reasons.case import LAYOUTLMV3, LLAMA3, RunCase, lines, table
from tests.reasons.chats import assistant, chat, user
from tests.reasons.templates import OWN, WRITTEN, changed

CHATML = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}{%- generation %}"
    "{{- message.content + '<|im_end|>\\n' }}{%- endgeneration %}{%- endfor %}"
)
BOS = "{{- bos_token }}\n"
TODAY = changed(BOS, BOS + "{{- strftime_now('%d %B %Y') }}\n")
ONE_TALK = lines({"messages": [user(), assistant()]})


def _templates(reason: Reason, bad: str, near: str, name: str = "") -> RunCase:
    """One conversation under each of two templates."""
    files = {"a.jsonl": ONE_TALK, "../bad.jinja": bad, "../near.jinja": near}
    schemas = [chat({"template": {"file": f"{which}.jinja"}}) for which in ("bad", "near")]
    return RunCase(reason, schemas[0], schemas[1], files, name)


def _with(tokenizer: Any, rows: int) -> dict[str, Any]:
    """A tokenized table for a model with so many rows of its embedding."""
    schema = table(table={"text": "text"}, tokenizer={"path": str(tokenizer)})
    return {**schema, "model": {"embedding_rows": rows}}


CASES = (
    RunCase(
        Reason.TEMPLATE_MISSING,
        {**chat(), "tokenizer": {"path": str(LAYOUTLMV3)}},
        chat(),
        {"a.jsonl": ONE_TALK},
    ),
    _templates(Reason.TEMPLATE_MISMATCH, CHATML, OWN),
    RunCase(
        Reason.TEMPLATE_TIME_DEPENDENT,
        chat({"template": {"file": "bad.jinja"}}),
        chat({"template": {"file": "bad.jinja", "date": "2024-07-26"}}),
        {"a.jsonl": ONE_TALK, "../bad.jinja": TODAY},
    ),
    _templates(
        Reason.TEMPLATE_UNPROVEN,
        changed(WRITTEN, "{{- message.content.upper() + '<|eot_id|>' }}"),
        changed(WRITTEN, "{{- message.content.strip() + '<|eot_id|>' }}"),
        "content_changed",
    ),
    _templates(
        Reason.TEMPLATE_UNPROVEN,
        OWN.replace(
            "{{- '<|eot_id|>' }}\n        {%- endgeneration %}", "{%- endgeneration %}{{- '<|eot_id|>' }}"
        ),
        OWN,
        "stop_token_not_marked",
    ),
    # Record-level where the rows are tokenized already; of a template it is an error of the run.
    _templates(Reason.BOS_DOUBLED, changed(BOS, BOS * 2), OWN, "template"),
    _templates(Reason.BOS_MISSING, changed(BOS, ""), OWN, "template"),
    RunCase(
        Reason.TOKENIZER_MODEL_MISMATCH,
        _with(LLAMA3, 1410),
        _with(LLAMA3, 1411),
        {"a.jsonl": lines({"text": "a"})},
    ),
)
