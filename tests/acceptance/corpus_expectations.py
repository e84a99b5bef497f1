"""What is known to be right for a file of a public corpus."""

from __future__ import annotations

import json
from pathlib import Path

from tests.acceptance.corpus_file import Result

SYNTAX = {
    "json_invalid", "json_array_invalid", "json_non_finite", "json_too_deep", "json_duplicate_key",
    "json_integer_overflow", "text_invalid_unicode", "line_too_long", "file_encoding", "file_limit",
}  # fmt: skip
"""Reasons that refuse a JSON text as such."""

DECIDED_AGAINST = {
    "y_object_duplicated_key.json": "a key twice: readers disagree on which value wins",
    "y_object_duplicated_key_and_value.json": "a key twice",
}
"""Texts that the grammar allows and that cannot be trained on."""

RECORDS = {
    "MTS-Dialog-TrainingSet.csv": 1201,
    "MTS-Dialog-ValidationSet.csv": 100,
    "MTS-Dialog-TestSet-1-MEDIQA-Chat-2023.csv": 200,
    "MTS-Dialog-TestSet-2-MEDIQA-Sum-2023.csv": 200,
}

MISPRINTED = {"location_coordinates": "Contact Phone Number"}
"""Columns in which a file of csv-spectrum and its own JSON say different things."""

REF_CELLS, PRIMOCK_WORKBOOKS = 1712, 27


def expected_of(path: Path, result: Result) -> list[str]:
    """What is wrong with a result, as far as the corpus says what is right."""
    name = path.name
    if name in RECORDS and (result.certified, result.quarantined) != (RECORDS[name], 0):
        return [f"{RECORDS[name]} records expected"]
    if path.parent.name == "csvs":
        return _spectrum(path, result)
    if path.parent.name == "test_parsing":
        return _parsing(name, result)
    return []


def whole(results: list[Result]) -> list[str]:
    """What is wrong with a corpus as a whole."""
    books = [r for r in results if "primock57" in r.path and r.path.endswith(".xlsx")]
    if not books:
        return []
    cells = sum(r.errors["#REF!"] for r in books)
    if (len(books), cells) != (PRIMOCK_WORKBOOKS, REF_CELLS):
        return [f"primock57: {len(books)} workbooks with {cells} #REF! cells"]
    return []


def _spectrum(path: Path, result: Result) -> list[str]:
    """csv-spectrum: the cells are those of the JSON file of the same name; "" is a blank cell."""
    oracle = (path.parent.parent / "json" / f"{path.stem}.json").read_text("utf-8", "replace")
    if b"\r" not in path.read_bytes():  # a copy whose line ends were changed
        oracle = oracle.replace("\\r\\n", "\\n")
    records = json.loads(oracle)
    records = records if isinstance(records, list) else [records]
    other = MISPRINTED.get(path.stem)
    expected = [{key: value or None for key, value in record.items() if key != other} for record in records]
    rows = [{key: value for key, value in record.items() if key != other} for record in result.rows]
    return [] if rows == expected else ["differs from its JSON"]


def _parsing(name: str, result: Result) -> list[str]:
    """JSONTestSuite: whether the text itself is refused; that it is no record is another matter."""
    said = sorted({*result.reasons, *result.faults, *result.notes})
    refused = bool(SYNTAX.intersection(said))
    if name.startswith("y_") and refused != (name in DECIDED_AGAINST):
        return [f"should be accepted: {said}"]
    if name.startswith("n_") and (result.certified or not (result.quarantined or said)):
        return [f"should be refused: {result.certified} certified, {said}"]
    return []
