"""Support chats as messages: JSON Lines, an array, and one JSON cell a chat in a CSV export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from material.support import CHATS, FERRY, POWER
from sets.writing import Fault, Raw, Row, write_array, write_csv, write_lines

Turn = dict[str, Any]


def build(raw: Path) -> list[Fault]:
    """Write the set under ``raw/support`` and say what was planted."""
    chats = [_turns(system, turns) for system, turns in CHATS]
    source = "support/chats.jsonl"
    records: list[object] = [{"id": f"c-{i + 1:02d}", "messages": c} for i, c in enumerate(chats[:8])]
    faults: list[Fault] = []
    for reason, outcome, messages in _faulty():
        records.append({"id": f"x-{len(records) + 1:02d}", "messages": messages})
        faults.append(Fault(source, "", len(records), reason, outcome))
    records.append(
        Raw(
            '{"id": "x-surrogate", "messages": [{"role": "user", "content": "Thanks \\ud83d"},'
            ' {"role": "assistant", "content": "You are welcome."}]}'
        )
    )
    faults.append(Fault(source, "", len(records), "text_invalid_unicode", "quarantine"))
    records.append(Raw('{"id": "x-cut", "messages": [{"role": "user", "content": "Is the lou'))
    faults.append(Fault(source, "", len(records), "json_invalid", "quarantine"))
    write_lines(raw / source, records)

    write_array(
        raw / "support/archive.json",
        [{"id": "a-01", "messages": chats[8]}, {"id": "a-02", "messages": chats[9]}],
    )

    source = "support/export.csv"
    rows: list[Row | Raw] = [("id", "messages")]
    rows += [(f"e-{i + 1:02d}", json.dumps(chat, ensure_ascii=False)) for i, chat in enumerate(chats[10:])]
    rows.append(("e-03", "[{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Hello'}]"))
    faults.append(Fault(source, "", len(rows), "cell_json_invalid", "quarantine"))
    write_csv(raw / source, rows)
    return faults


def _turns(system: str, texts: tuple[str, ...]) -> list[Turn]:
    """User and assistant in turn, after the system turn where there is one."""
    turns = [
        {"role": "assistant" if index % 2 else "user", "content": text} for index, text in enumerate(texts)
    ]
    return [{"role": "system", "content": system}, *turns] if system else turns


def _said(*turns: tuple[str, object]) -> list[Turn]:
    return [{"role": role, "content": content} for role, content in turns]


def _faulty() -> list[tuple[str, str, list[Turn]]]:
    """One chat a fault: its reason, what becomes of it, its turns."""
    opening = ("Good morning! How can I help?", "Where is gate 2?", "Behind the ticket hall, on the left.")
    return [
        (
            "role_order",
            "quarantine",
            _said(("assistant", opening[0]), ("user", opening[1]), ("assistant", opening[2])),
        ),
        (
            "role_order",
            "quarantine",
            _said(("user", "Hello?"), ("user", "Anybody there?"), ("assistant", "Yes, good evening.")),
        ),
        (
            "role_order",
            "quarantine",
            _said(("user", "Any delays?"), ("system", FERRY), ("assistant", "None today.")),
        ),
        (
            "last_turn_not_assistant",
            "quarantine",
            _said(
                ("user", "Can I pay by card?"), ("assistant", "Yes, on every boat."), ("user", "And in cash?")
            ),
        ),
        (
            "role_unknown",
            "quarantine",
            _said(("user", "Is the bistro open?"), ("kiosk", "Until nine.")),
        ),
        (
            "content_empty",
            "quarantine",
            _said(("system", POWER), ("user", "Is my payment in?"), ("assistant", None)),
        ),
        (
            "already_rendered",
            "quarantine",
            _said(
                (
                    "user",
                    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhen do you open?<|eot_id|>"
                    "<|start_header_id|>assistant<|end_header_id|>\n\n",
                ),
                ("assistant", "At six in the morning."),
            ),
        ),
        (
            "control_token_in_content",
            "repair",
            _said(
                ("user", "The receipt shows <|eot_id|> at the end. What is that?"),
                ("assistant", "A printing error of the old terminals. The amount is right."),
            ),
        ),
        (
            "content_parts_joined",
            "repair",
            _said(
                ("user", [{"type": "text", "text": "Two adults, "}, {"type": "text", "text": "one car."}]),
                ("assistant", "That is 84 euros in all."),
            ),
        ),
        (
            "content_unsupported_part",
            "quarantine",
            _said(
                ("user", [{"type": "image_url", "image_url": {"url": "meter.png"}}]),
                ("assistant", "The reading is 48213."),
            ),
        ),
    ]
