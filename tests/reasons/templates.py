"""Findings that a chat template gives: it drops, refuses or mismarks some conversations."""

from __future__ import annotations

import json

from pipeline.reasons import Reason
from tests.reasons.case import LLAMA3, Case, lines
from tests.reasons.chats import assistant, chat, user

OWN: str = json.loads((LLAMA3 / "tokenizer_config.json").read_text())["chat_template"]
"""The template of the small Llama 3, with generation markers."""
FILE = {"template": {"file": "chat.jinja"}}
WRITTEN = "{{- message.content + '<|eot_id|>' }}"
LOOP = "{%- for message in messages %}\n"

REFUSES = "{%- if '?!' in message.content %}{{- raise_exception('no') }}{%- endif %}\n"
ANSWERS = "{%- if message.role == 'assistant' %}"
UNMARKED = "{%- if message.role == 'assistant' and message.content != 'draft' %}"


def changed(old: str, new: str) -> str:
    """The template with another text in one place."""
    assert OWN.count(old) == 1, old
    return OWN.replace(old, new)


def _case(reason: Reason, template: str, bad: tuple[str, str], near: tuple[str, str]) -> Case:
    """Two conversations under a template beside the schema."""
    talks = [{"messages": [user(asked), assistant(said)]} for asked, said in (bad, near)]
    files = {"a.jsonl": lines(*talks), "../chat.jinja": template}
    return Case(reason, chat(FILE), files, "a.jsonl:1", "a.jsonl:2")


CASES = (
    _case(
        Reason.TEMPLATE_DROPS_CONTENT,
        changed(WRITTEN, "{{- message.content[:40] + '<|eot_id|>' }}"),
        ("a" * 41, "answer"),
        ("a" * 40, "answer"),
    ),
    _case(
        Reason.TEMPLATE_REFUSED,
        changed(LOOP, LOOP + REFUSES),
        ("why?!", "answer"),
        ("why?", "answer"),
    ),
    _case(
        Reason.MASK_MISALIGNED,
        changed(ANSWERS, UNMARKED),
        ("ask", "draft"),
        ("ask", "Draft"),
    ),
)
