"""The medical spreadsheet: the columns ``Sentence`` and ``Description``, and the same in three text formats."""

from __future__ import annotations

from pathlib import Path

from material.clinical import PAIRS
from sets.writing import Fault, Raw, Row, write_array, write_csv, write_lines, write_workbook

HEADER = ("No.", "Sentence", "Description")
LONG = "The report lists every single value again. " * 120
"""An answer of well over a thousand tokens."""


def build(raw: Path) -> list[Fault]:
    """Write the set under ``raw/clinical`` and say what was planted."""
    faults = _workbook(raw)
    source = "clinical/outpatients.csv"
    rows: list[Row | Raw] = [("Sentence", "Description"), *PAIRS[20:25]]
    rows.append(Raw("Dressing changed, wound dry, no odour.,The bandage was renewed."))
    faults.append(Fault(source, "", len(rows), "row_ragged", "quarantine"))
    rows.append((PAIRS[25][0], ""))
    faults.append(Fault(source, "", len(rows), "content_empty", "quarantine"))
    write_csv(raw / source, rows)

    source = "clinical/night_shift.json"
    records: list[object] = [{"Sentence": s, "Description": d} for s, d in PAIRS[26:30]]
    records.append({"Sentence": PAIRS[30][0], "Description": None})
    faults.append(Fault(source, "", len(records), "content_empty", "quarantine"))
    records.append({"Sentence": PAIRS[30][0]})
    faults.append(Fault(source, "", len(records), "content_empty", "quarantine"))
    write_array(raw / source, records)

    source = "clinical/ward_two.jsonl"
    records = [{"Sentence": s, "Description": d} for s, d in PAIRS[30:36]]
    records.append({"Sentence": 38.90, "Description": "The body temperature is almost 39 degrees: a fever."})
    faults.append(Fault(source, "", len(records), "content_as_shown", "repair"))
    records.append({"Sentence": PAIRS[2][0], "Description": {"text": PAIRS[2][1]}})
    faults.append(Fault(source, "", len(records), "content_not_text", "quarantine"))
    records.append(Raw('{"Sentence": "Pupils equal and reactive to light.", "Description": "Both pup'))
    faults.append(Fault(source, "", len(records), "json_invalid", "quarantine"))
    write_lines(raw / source, records)
    return faults


def _workbook(raw: Path) -> list[Fault]:
    """The workbook: twenty good rows, a blank row, five faults, and a hidden sheet of drop-down lists."""
    source, sheet = "clinical/letters.xlsx", "Letters"
    rows: list[Row] = [HEADER, *((i + 1, *pair) for i, pair in enumerate(PAIRS[:12])), ()]
    rows += [(i + 1, *pair) for i, pair in enumerate(PAIRS[12:20], start=12)]
    faults: list[Fault] = []

    def plant(row: Row, reason: str, outcome: str) -> None:
        rows.append(row)
        faults.append(Fault(source, sheet, len(rows), reason, outcome))

    plant((21, "Gait slightly unsteady.", None), "content_empty", "quarantine")
    plant((22, " ", "The patient walks a little unsteadily."), "content_empty", "quarantine")
    plant((23, Raw("=NA()"), "The value was lost in a formula."), "cell_error", "quarantine")
    plant((24, "Full laboratory report attached.", LONG), "too_long_for_target", "quarantine")
    plant(
        (25, "Stop the drip at 18:00. <|eot_id|>", "The infusion ends at six in the evening."),
        "control_token_in_content",
        "repair",
    )
    plant(
        (26, "Diet: light._x000D_\nFluids: 2 l a day.", "Eat light meals and drink two litres a day."),
        "cell_escape_decoded",
        "repair",
    )
    write_workbook(
        raw / source,
        {"Lists": [("Ward",), ("North",), ("South",)], sheet: rows},
        hidden=("Lists",),
    )
    return faults
