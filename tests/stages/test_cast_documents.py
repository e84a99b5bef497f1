"""Cast of words, boxes and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.fields import Field, FieldType, Kind
from pipeline.reasons import Reason
from tests.stages.cast_cases import (
    BOXES,
    IDS,
    NAMES,
    WORDS,
    from_csv,
    from_json,
)


@pytest.mark.parametrize(("word", "shown"), [("null", ""), ("5.0", "5.0"), ("true", "true")])
def test_a_word_that_is_no_text_is_found_and_taken_as_shown_on_request(
    tmp_path: Path, word: str, shown: str
) -> None:
    line = f'{{"words":["a",{word}]}}'
    result = from_json(tmp_path, (WORDS,), line)
    assert result.hits[0][:3] == (1, "word_not_text", "$.words[1]")
    repaired = from_json(tmp_path, (WORDS,), line, policies={"word_not_text": "repair"})
    assert repaired.good == [{"@words": ["a", shown]}]
    assert repaired.reasons == [(1, "word_not_text")]


@pytest.mark.parametrize("word", ["[]", '{"t":1}'])
def test_a_word_that_has_no_form_as_text_is_never_taken(tmp_path: Path, word: str) -> None:
    line = f'{{"words":["a",{word}]}}'
    for policies in (None, {"word_not_text": "repair"}):
        result = from_json(tmp_path, (WORDS,), line, policies=policies)
        assert (result.good, result.reasons) == ([], [(1, "word_not_text")])


def test_a_word_whose_text_is_missing_is_a_blank_word_on_request(tmp_path: Path) -> None:
    words = Field("@words", "$.w[].text", FieldType(Kind.WORDS), wrong=Reason.WORD_NOT_TEXT)
    line = '{"w":[{"text":"a"},{},{"text":null}]}'
    assert from_json(tmp_path, (words,), line).good == []
    repaired = from_json(tmp_path, (words,), line, policies={"word_not_text": "repair"})
    assert repaired.good == [{"@words": ["a", "", ""]}]


def test_a_list_that_is_none_is_a_wrong_type(tmp_path: Path) -> None:
    assert from_json(tmp_path, (WORDS,), '{"words":"a b"}').reasons == [(1, "value_type")]
    assert from_json(tmp_path, (NAMES,), '{"labels":{}}').reasons == [(1, "value_type")]


@pytest.mark.parametrize(
    ("boxes", "values"),
    [
        ("[[1,2,3,4],[0.5,-1,1e2,4]]", [[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 100.0, 4.0]]),
        ("[[1,2]]", [[1.0, 2.0]]),
        ("[[]]", [[]]),
        ("[]", []),
        ('[[{},{"x":480},{"x":480,"y":64},{"y":64}]]', [[0.0, 0.0, 480.0, 0.0, 480.0, 64.0, 0.0, 64.0]]),
        ("[[[1,2],[3,4]]]", [[1.0, 2.0, 3.0, 4.0]]),
    ],
)
def test_numbers_of_boxes_are_kept_as_written_and_vertices_flattened(
    tmp_path: Path, boxes: str, values: list[Any]
) -> None:
    assert from_json(tmp_path, (BOXES,), f'{{"boxes":{boxes}}}').good == [{"@boxes": values}]
    quoted = boxes.replace('"', '""')
    assert from_csv(tmp_path, (BOXES,), f'boxes,b\n"{quoted}",1\n').good == [{"@boxes": values}]


@pytest.mark.parametrize(
    ("boxes", "reason", "path"),
    [
        ("[[1,null,3,4]]", "bbox_not_finite", "$.boxes[0][1]"),
        ("[[1,2,true,4]]", "bbox_not_finite", "$.boxes[0][2]"),
        ('[[1,2,"3",4]]', "bbox_not_finite", "$.boxes[0][2]"),
        ("[[1,2,NaN,4]]", "bbox_not_finite", "$.boxes[0][2]"),
        ("[[1,2,1e999,4]]", "bbox_not_finite", "$.boxes[0][2]"),
        ("[[1],null]", "bbox_not_finite", "$.boxes[1]"),
        ('[{"x":1}]', "bbox_unparsed", "$.boxes[0]"),
        ('["1,2,3,4"]', "bbox_unparsed", "$.boxes[0]"),
        ("[1,2,3,4]", "bbox_unparsed", "$.boxes[0]"),
        ('"[[1,2,3,4]]"', "bbox_unparsed", "$.boxes"),
        ('[[{"x":null,"y":1}]]', "bbox_not_finite", "$.boxes[0][0].x"),
    ],
)
def test_what_is_no_box_is_named_with_its_place(tmp_path: Path, boxes: str, reason: str, path: str) -> None:
    result = from_json(tmp_path, (BOXES,), f'{{"boxes":{boxes}}}')
    assert result.good == []
    assert result.hits[0][1:3] == (reason, path)


@pytest.mark.parametrize("cell", ["[[1 2 3 4]]", "(1.0, 2.0)", "[[1, 2, 3", "1 2 3 4x", "[[1,2,3,4],]"])
def test_a_cell_of_boxes_that_does_not_parse(tmp_path: Path, cell: str) -> None:
    assert from_csv(tmp_path, (BOXES,), f'boxes,b\n"{cell}",1\n').reasons == [(2, "bbox_unparsed")]


def test_boxes_from_a_column_a_coordinate(tmp_path: Path) -> None:
    field = Field(
        "@boxes",
        ("x", "y"),
        FieldType(Kind.BOXES),
        missing=Reason.WORDS_BOXES_MISMATCH,
        wrong=Reason.BBOX_UNPARSED,
    )
    result = from_json(
        tmp_path,
        (field,),
        '{"x":[1,2],"y":[3,4]}',
        '{"x":[1],"y":[3,4]}',
        '{"x":[1],"y":"z"}',
        '{"x":[],"y":[]}',
    )
    assert result.good == [{"@boxes": [[1.0, 3.0], [2.0, 4.0]]}, {"@boxes": []}]
    assert result.reasons == [(2, "words_boxes_mismatch"), (3, "value_type")]


@pytest.mark.parametrize(
    ("label", "reason", "value"),
    [
        ("1", None, 1),
        ("1.0", "integer_from_decimal", 1),
        ("1.5", "label_not_integer", None),
        ("true", "label_not_integer", None),
        ('"1"', "label_not_integer", None),
        ("null", "label_not_integer", None),
        ("-100", None, -100),
    ],
)
def test_label_ids_are_integers(tmp_path: Path, label: str, reason: str | None, value: int | None) -> None:
    result = from_json(tmp_path, (IDS,), f'{{"labels":[0,{label}]}}')
    assert [r for _, r in result.reasons] == ([reason] if reason else [])
    assert result.good == ([] if value is None else [{"@labels": [0, value]}])


def test_label_names_are_text(tmp_path: Path) -> None:
    assert from_json(tmp_path, (NAMES,), '{"labels":["O","B-X"]}').good == [{"@labels": ["O", "B-X"]}]
    assert from_json(tmp_path, (NAMES,), '{"labels":["O",1]}').reasons == [(1, "label_unknown")]
