"""Presets lie under the user's own schema."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.schema.load import fragment, load_schema, merged, presets
from pipeline.schema.model import LayoutSchema

OWN = {
    "version": 1,
    "name": "docs",
    "files": ["*"],
    "tokenizer": {"path": "t"},
    "layout": {"labels": {"names": ["A"]}},
}


def written(tmp_path: Path, **keys: object) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({**OWN, **keys}))
    return path


@pytest.mark.parametrize("name", presets())
def test_every_preset_makes_a_valid_schema_with_the_users_few_keys(name: str, tmp_path: Path) -> None:
    needs_labels = "labels" in fragment(name)["layout"]
    own = {} if needs_labels else {"layout": {}}
    schema = load_schema(written(tmp_path, preset=name, **own)).schema
    assert isinstance(schema, LayoutSchema)
    if needs_labels:
        assert schema.layout.labels is not None
        assert schema.layout.labels.names == ("A",)  # the user's list, whole


def test_the_users_keys_win_and_the_rest_stays(tmp_path: Path) -> None:
    path = written(
        tmp_path, preset="docbank", layout={"boxes": {"unit": "pixel"}, "page": {"width": 9, "height": 9}}
    )
    schema = load_schema(path).schema
    assert isinstance(schema, LayoutSchema)
    layout = schema.layout
    assert (layout.boxes.unit, layout.boxes.order, layout.words) == ("pixel", "xyxy", "token")


def test_a_preset_that_is_none_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="funsd"):
        load_schema(written(tmp_path, preset="funsdd"))
    with pytest.raises(SchemaError, match="preset"):
        load_schema(written(tmp_path, preset=["funsd"]))


def test_a_mistake_under_a_preset_is_still_found(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="drop_word"):
        load_schema(written(tmp_path, preset="funsd", layout={"drop_word": ["x"]}))


SCANS = """\
kind: layout
layout:
  words: words
  boxes: {column: boxes, order: xyxy, unit: pixel}
  page: {width: width, height: height}
  labels: {column: labels, names: [X, Y]}
"""


def placed(
    tmp_path: Path, preset: object, text: str = SCANS, name: str = "scans.yaml", **keys: object
) -> Path:
    """A schema in the folder ``schemas`` that names ``preset``, with a preset's file beside it."""
    folder = tmp_path / "schemas"
    folder.mkdir(exist_ok=True)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return written(folder, preset=preset, **keys)


def message(path: Path) -> str:
    with pytest.raises(SchemaError) as caught:
        load_schema(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("./scans.yaml", "scans.yaml"),
        ("scans.yml", "scans.yml"),
        ("own/scans", "own/scans"),
        ("../scans.yaml", "../scans.yaml"),
    ],
)
def test_a_preset_by_path_lies_under_the_schema(tmp_path: Path, preset: str, name: str) -> None:
    loaded = load_schema(placed(tmp_path, preset, name=name, layout={"labels": {"names": ["A"]}}))
    assert loaded.preset is not None
    assert loaded.preset.samefile(tmp_path / "schemas" / name)
    assert isinstance(loaded.schema, LayoutSchema)
    layout = loaded.schema.layout
    assert (layout.words, layout.boxes.order) == ("words", "xyxy")
    assert layout.labels is not None
    assert (layout.labels.column, layout.labels.names) == ("labels", ("A",))  # merged by key, lists whole


def test_a_preset_by_name_has_no_file_to_watch(tmp_path: Path) -> None:
    assert load_schema(written(tmp_path, preset="funsd")).preset is None


def test_a_preset_that_is_not_there_is_named_with_the_line_and_the_remedy(tmp_path: Path) -> None:
    text = message(written(tmp_path, preset="./none.yaml"))
    line = (tmp_path / "s.yaml").read_text().splitlines().index("preset: ./none.yaml") + 1
    assert f"s.yaml:{line}: preset" in text
    assert "found: ./none.yaml" in text
    assert "to do: correct the path" in text
    assert "is not there" in message(written(tmp_path, preset="./"))  # a folder is no file


@pytest.mark.parametrize("preset", ["/etc/scans.yaml", "C:\\presets\\scans.yaml"])
def test_an_absolute_path_is_refused(tmp_path: Path, preset: str) -> None:
    assert "absolute" in message(written(tmp_path, preset=preset))


def test_a_path_leaves_the_schemas_folder_only_where_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "scans.yaml").write_text(SCANS)
    path = placed(tmp_path, "./linked/scans.yaml")
    (tmp_path / "schemas" / "linked").symlink_to(tmp_path / "far")
    assert "out of the schema's folder by a link" in message(path)
    load_schema(placed(tmp_path, "../far/scans.yaml"))


def test_a_mistake_in_a_preset_is_named_with_its_own_file_and_line(tmp_path: Path) -> None:
    path = placed(tmp_path, "./scans.yaml", SCANS.replace("order:", "ordre:"), polices={})
    text = message(path)
    assert "./scans.yaml, line 4: layout.boxes.ordre: unknown key; did you mean `order`?" in text
    line = path.read_text().splitlines().index("polices: {}") + 1
    assert f"\n  line {line}: polices: unknown key" in text


def test_a_pattern_in_a_preset_is_named_with_its_own_file_and_line(tmp_path: Path) -> None:
    text = SCANS + "columns:\n  text: {pattern: '(a'}\n"
    assert "./scans.yaml:8: columns.text.pattern" in message(placed(tmp_path, "./scans.yaml", text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("preset: funsd\n", "scans.yaml:1: preset"),
        ("- a\n", "the preset is no mapping"),
        ("", "the preset is empty"),
        ("a: 1\na: 2\n", "stands twice"),
        ("kind: ]\n", "scans.yaml:1"),
        ("#" * 1_000_001, "the preset file is too large"),
    ],
)
def test_a_file_that_is_no_preset_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in message(placed(tmp_path, "./scans.yaml", text))


def test_words_that_old_yaml_converts_stay_text_in_a_preset(tmp_path: Path) -> None:
    schema = load_schema(
        placed(tmp_path, "./scans.yaml", SCANS.replace("[X, Y]", "[yes, no]"), layout={})
    ).schema
    assert isinstance(schema, LayoutSchema)
    assert schema.layout.labels is not None
    assert schema.layout.labels.names == ("yes", "no")


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
