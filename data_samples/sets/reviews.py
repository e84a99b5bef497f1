"""Product reviews for text classification: a typed table in four formats."""

from __future__ import annotations

from pathlib import Path

from material.reviews import REVIEWS
from sets.writing import Fault, Raw, Row, write_array, write_csv, write_lines, write_workbook

HEADER = ("id", "text", "label", "stars")


def build(raw: Path) -> list[Fault]:
    """Write the set under ``raw/reviews`` and say what was planted."""
    rows = [(f"r-{i + 1:02d}", text, label, stars) for i, (text, label, stars) in enumerate(REVIEWS)]
    faults: list[Fault] = []

    source = "reviews/spring.csv"
    table: list[Row | Raw] = [HEADER, *rows[:10]]

    def plant(row: Row | Raw, reason: str, source: str, target: list[Row | Raw], sheet: str = "") -> None:
        target.append(row)
        faults.append(Fault(source, sheet, len(target), reason, "quarantine"))

    plant(("b-01", "", "positive", 4), "text_blank", source, table)
    plant(("b-02", "Nice enough.", "mixed", 3), "value_not_allowed", source, table)
    plant(("b-03", "Broke on day one.", "negative", "NaN"), "value_type", source, table)
    plant(("b-04", "Six stars!", "positive", 6), "value_out_of_range", source, table)
    plant(("b-05", "Fine.", "neutral", "three"), "value_type", source, table)
    plant(Raw("b-06,Sturdy, light, cheap,positive,5"), "row_ragged", source, table)
    write_csv(raw / source, table)

    source, sheet = "reviews/summer.xlsx", "reviews"
    book: list[Row] = [HEADER, *rows[10:16]]
    plant(("b-07", Raw("=NA()"), "neutral", 3), "cell_error", source, book, sheet)  # type: ignore[arg-type]
    plant(("b-08", "Good lamp.", None, 4), "text_blank", source, book, sheet)  # type: ignore[arg-type]
    write_workbook(raw / source, {sheet: book})

    write_array(raw / "reviews/autumn.json", [dict(zip(HEADER, row, strict=True)) for row in rows[16:20]])

    source = "reviews/winter.jsonl"
    records: list[object] = [dict(zip(HEADER, row, strict=True)) for row in rows[20:]]
    records.append(
        Raw('{"id": "b-09", "text": "Too loud.", "text": "Too quiet.", "label": "negative", "stars": 2}')
    )
    faults.append(Fault(source, "", len(records), "json_duplicate_key", "quarantine"))
    records.append({"id": "b-10", "text": 42, "label": "neutral", "stars": 3})
    faults.append(Fault(source, "", len(records), "value_type", "quarantine"))
    write_lines(raw / source, records)
    return faults
