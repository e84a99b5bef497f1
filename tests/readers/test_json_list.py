"""JSON documents: lists, single records, records at a path, lines in a .json, and documents that break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.findings import FileFault
from pipeline.readers import encoding, json_list
from pipeline.readers.formats import Partition
from pipeline.reasons import Reason
from tests.readers.tables import Result, read_bytes, schema, text_fields

ID = text_fields("id")


def read(tmp_path: Path, data: bytes | str, **reading: object) -> Result:
    raw = data.encode() if isinstance(data, str) else data
    return read_bytes(tmp_path, raw, "x.json", ID, schema(**reading), cast=True)


def ids(result: Result) -> list[str]:
    return [row["id"] for row in result.good]


@pytest.mark.parametrize(
    "text",
    [
        '[{"id":"a"},{"id":"b"}]',
        ' \n[\n {"id": "a"},\n {"id": "b"}\n]\n\n',
        '\ufeff[{"id":"a"},{"id":"b"}]',
        '{"id":"a"}\n{"id":"b"}\n',
        '{"id":"a"}\n\n{"id":"b"}',
    ],
)
def test_lists_and_lines_give_the_same_records(tmp_path: Path, text: str) -> None:
    assert ids(read(tmp_path, text)) == ["a", "b"]


def test_one_object_is_one_record(tmp_path: Path) -> None:
    result = read(tmp_path, '{\n "id": "a",\n "list": [1, 2]\n}\n')
    assert ids(result) == ["a"]
    assert result.rows == [1]


def test_elements_are_counted_from_one(tmp_path: Path) -> None:
    result = read(tmp_path, '[{"id":"a"},\n5,\n{"id":"b"}]')
    assert result.rows == [1, 2, 3]
    assert result.hits == [(2, "json_not_object", "$", "number", "")]


def test_a_broken_element_costs_itself_where_the_brackets_hold(tmp_path: Path) -> None:
    result = read(tmp_path, '[{"id":"a"},{"id":"b",},{"id":NaN},{"id":"c"} {"id":"d"},{"id":"e"}]')
    assert ids(result) == ["a", "e"]
    assert result.reasons == [(2, "json_invalid"), (3, "json_non_finite"), (4, "json_invalid")]


def test_brackets_commas_and_quotes_inside_of_strings_are_text(tmp_path: Path) -> None:
    texts = ['],[{"', "\\", '\\"', "\\\\", "a,b", "}"]
    result = read(tmp_path, json.dumps([{"id": text} for text in texts]))
    assert ids(result) == texts


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[{"id":"a"},\n{"id":"b"}', "line 2, column 11"),
        ('[{"id":"a"},\n{"id":"b', "line 2, column 7"),
        ('[{"id":"a"},\n]', "line 2, column 1"),
        ('[,{"id":"a"}]', "line 1, column 2"),
        ('[{"id":"a"}]\n\n[1]', "line 3, column 1"),
        ('[{"id":"a"}}', "line 1, column 12"),
        ('{"id":"a"', "line 1, column 10"),
        ('{"id":\n"a"}\n x', "line 3, column 2"),
        ("nothing", "line 1, column 1"),
        ("", ""),
    ],
)
def test_a_document_that_breaks_names_the_place(tmp_path: Path, text: str, place: str) -> None:
    if not text:
        assert [n.reason for n in read(tmp_path, text).notes] == [Reason.FILE_EMPTY]
        return
    with pytest.raises(FileFault) as caught:
        read(tmp_path, text)
    assert caught.value.note.reason is Reason.JSON_ARRAY_INVALID
    assert caught.value.note.found.endswith(f"at {place}")


def test_an_empty_list_is_noted(tmp_path: Path) -> None:
    result = read(tmp_path, " [ ] ")
    assert [n.reason for n in result.notes] == [Reason.FILE_EMPTY]


def test_records_at_a_path(tmp_path: Path) -> None:
    text = (
        '{"meta": {"rows": 1}, "data": {"x": [0], "rows": [{"id":"a"}, {"id":"b"}]}, "end": [1, {"rows": 2}]}'
    )
    assert ids(read(tmp_path, text, records_at="$.data.rows")) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"data": 1}', "no key 'rows'"),
        ('{"rows": [1], "rows": [2]}', "the key 'rows' twice"),
        ("[1]", "no object on the way"),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(FileFault) as caught:
        read(tmp_path, text, records_at="$.rows")
    assert caught.value.note.found == found


def test_a_broken_document_around_the_records_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileFault) as caught:
        read(tmp_path, '{"rows": [{"id":"a"}], "x": tru}', records_at="$.rows")
    assert caught.value.note.reason is Reason.JSON_ARRAY_INVALID


def test_lines_with_a_broken_first_line_are_lines(tmp_path: Path) -> None:
    result = read(tmp_path, '{"id":"cut\n{"id":"a"}\n{"id":"b"}\n')
    assert ids(result) == ["a", "b"]
    assert result.reasons == [(1, "json_invalid")]


def test_lines_longer_than_a_block_are_lines(tmp_path: Path) -> None:
    long = "x" * 5_000_000
    assert ids(read(tmp_path, f'{{"id":"{long}"}}\n{{"id":"b"}}\n')) == [long, "b"]


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUE, max_size=6), st.sampled_from([None, 1]), st.integers(1, 7), st.booleans())
def test_ranges_and_blocks_cut_a_list_into_its_elements(
    tmp_path: Path, values: list[object], indent: int | None, size: int, ascii_: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_).encode("utf-8", "surrogatepass")
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "CHUNK_BYTES", size)
        parts = json_list.element_ranges(path, Partition("x.json", 0, "json", form="array"), size=size * 3)
        found = []
        for part in parts:
            whole = b"".join(encoding.partition_text(path, part)).strip().removesuffix(b",")
            found.append((part.first_row, json.loads(b"[" + whole + b"]")))
    assert [value for _, part in found for value in part] == values
    firsts = [first for first, _ in found]
    assert firsts == [1 + sum(len(p) for _, p in found[:i]) for i in range(len(found))]
