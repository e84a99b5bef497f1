"""Presets lie under the user's own schema."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.schema.load import fragment, load_schema, merged, presets

OWN = {
    "version": 1, "name": "docs", "files": ["*"], "tokenizer": {"path": "t"}, "layout": {"labels": {"names": ["A"]}},
}  # fmt: skip


def written(tmp_path: Path, **keys: object) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({**OWN, **keys}))
    return path


@pytest.mark.parametrize("name", presets())
def test_every_preset_makes_a_valid_schema_with_the_users_few_keys(name: str, tmp_path: Path) -> None:
    needs_labels = "labels" in fragment(name)["layout"]
    own = {} if needs_labels else {"layout": {}}
    schema = load_schema(written(tmp_path, preset=name, **own)).schema
    assert schema.kind == "layout"
    assert schema.layout is not None
    if needs_labels:
        assert schema.layout.labels is not None
        assert schema.layout.labels.names == ("A",)  # the user's list, whole


def test_the_users_keys_win_and_the_rest_stays(tmp_path: Path) -> None:
    path = written(
        tmp_path, preset="docbank", layout={"boxes": {"unit": "pixel"}, "page": {"width": 9, "height": 9}}
    )
    layout = load_schema(path).schema.layout
    assert layout is not None
    assert (layout.boxes.unit, layout.boxes.order, layout.words) == ("pixel", "xyxy", "token")


def test_a_preset_that_is_none_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="funsd"):
        load_schema(written(tmp_path, preset="funsdd"))
    with pytest.raises(SchemaError, match="preset"):
        load_schema(written(tmp_path, preset=["funsd"]))


def test_a_mistake_under_a_preset_is_still_found(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="drop_word"):
        load_schema(written(tmp_path, preset="funsd", layout={"drop_word": ["x"]}))


_maps = st.recursive(
    st.integers() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_tops = st.dictionaries(st.sampled_from("abc"), _maps, max_size=3)


@given(_tops, _tops)
def test_merging_keeps_every_key_of_both(under: dict[str, object], over: dict[str, object]) -> None:
    before = (repr(under), repr(over))
    whole = merged(under, over)
    assert set(whole) == set(under) | set(over)
    for key, value in over.items():
        if not isinstance(value, dict) or not isinstance(under.get(key), dict):
            assert whole[key] == value
    assert merged(whole, over) == whole
    assert merged({}, over) == over
    assert (repr(under), repr(over)) == before
