"""Names of columns and keys that JSON must escape: line breaks, quotes, backslashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.fields import Field
from tests.readers.tables import TEXT, read_bytes, schema


@pytest.mark.parametrize("name", ["a\nb", 'a"b', "a\\b", "a\tb"])
def test_a_key_that_json_escapes_is_read_like_any_other(tmp_path: Path, name: str) -> None:
    escaped = name.encode("unicode_escape").replace(b'"', b'\\"')
    lines = [b'{"%s":"x","c":"y"}', b'{"c":"z"}', b'{"%s":"q"}', b'{"%s":"q","%s":"r"}', b'{"%s":7}']
    data = b"\n".join(line.replace(b"%s", escaped) for line in lines)
    columns = (Field("a", name, TEXT), Field("c", "c", TEXT, required=False))
    result = read_bytes(tmp_path, data, "x.jsonl", columns, schema(), cast=True)
    assert result.good == [{"a": "x", "c": "y"}, {"a": "q", "c": None}]
    assert [(row, slug) for row, slug, *_ in result.hits] == [
        (2, "value_missing"),
        (4, "json_duplicate_key"),
        (5, "value_type"),
    ]


def test_keys_that_are_not_read_may_need_escapes_too(tmp_path: Path) -> None:
    data = b'{"a":"x","\\u0000":1,"\\n":2}\n{"a":"y","\\u0000":1,"\\n":2}\n{"a":"z","\\n":1,"\\n":2}\n'
    result = read_bytes(tmp_path, data, "x.jsonl", (Field("a", "a", TEXT),), schema(), cast=True)
    assert result.good == [{"a": "x"}, {"a": "y"}]
    assert [(row, slug) for row, slug, *_ in result.hits] == [(3, "json_duplicate_key")]
