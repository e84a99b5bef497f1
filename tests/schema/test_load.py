"""Schema files: what is accepted, and how each mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import Exit, InputError, SchemaError
from pipeline.reasons import Policy, Reason
from pipeline.schema.columns import JUDGED, MODEL_INPUTS
from pipeline.schema.load import load_schema, load_schemas

GOOD = """\
version: 1
name: reviews
kind: table
files: ["*.csv"]
columns:
  id: {}
  text: {max_characters: 20}
table: {}
"""


def write(folder: Path, text: str, name: str = "s.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def message(folder: Path, text: str) -> str:
    with pytest.raises(SchemaError) as caught:
        load_schema(write(folder, text))
    assert caught.value.exit is Exit.USAGE
    return str(caught.value)


def test_a_good_schema_loads_with_its_defaults(tmp_path: Path) -> None:
    schema = load_schema(write(tmp_path, GOOD)).schema
    assert schema.read.header == "first"
    assert schema.quarantine.max_rate == 0.5
    assert schema.policy(Reason.BBOX_INVERTED) is Policy.QUARANTINE


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_key(tmp_path: Path) -> None:
    text = message(tmp_path, GOOD.replace("max_characters", "max_charcters"))
    assert "line 7: columns.text.max_charcters: unknown key; did you mean `max_characters`?" in text


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    text = message(tmp_path, GOOD.replace("kind: table", "kind: tabel").replace("name: reviews", "name: a b"))
    assert "2 mistakes" in text
    assert "line 2: name" in text
    assert "line 3: kind" in text


def test_an_unknown_key_inside_a_union_names_the_keys_of_the_chosen_form(tmp_path: Path) -> None:
    text = message(
        tmp_path,
        "version: 1\nname: a\nkind: chat\nfiles: [a]\ntokenizer: {path: t}\nchat:\n  max_tokens: 9\n"
        "  source:\n    format: columns\n    prompt: p\n    anwser: a\n",
    )
    assert "line 11: chat.source.anwser: unknown key; did you mean `answer`?" in text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("policies: {bbox_inverted: flag}", "it can be ['quarantine', 'repair']"),
        ("policies: {bbox_invertd: repair}", "unknown reason 'bbox_invertd'"),
        ("policies: {file_unreadable: flag}", "cannot be 'flag'"),
        ("quarantine: {max_rate: 1.5}", "less than or equal to 1"),
        ("output: {shard_rows: '5'}", "valid integer"),
        ("tokens: {}", "does not belong"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, line: str, said: str) -> None:
    assert said in message(tmp_path, GOOD + line + "\n")


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    assert "stands twice" in message(tmp_path, GOOD + "name: other\n")


def test_provenance_names_are_not_for_columns(tmp_path: Path) -> None:
    assert "taken by provenance" in message(tmp_path, GOOD.replace("  id: {}", "  row: {}"))


def test_yaml_that_does_not_parse_is_named_with_its_line(tmp_path: Path) -> None:
    assert "s.yaml:3" in message(tmp_path, "version: 1\nname: a\nkind: ]\n")


def test_python_tags_are_refused(tmp_path: Path) -> None:
    assert "not valid YAML" in message(tmp_path, "version: !!python/object/apply:os.system ['true']\n")


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "2024-01-31"])
def test_words_that_old_yaml_converts_stay_text(tmp_path: Path, word: str) -> None:
    text = GOOD.replace("text: {max_characters: 20}", f"text: {{allowed: [{word}, b]}}")
    assert load_schema(write(tmp_path, text)).schema.columns["text"].allowed == (word, "b")


def test_a_pattern_that_is_no_regular_expression_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    text = message(tmp_path, GOOD.replace("max_characters: 20", "pattern: '(a'"))
    assert "columns.text.pattern" in text
    assert "s.yaml:7" in text


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_schema(tmp_path / "none.yaml")
    assert caught.value.exit is Exit.INPUT


def test_two_schemas_of_one_name_are_refused(tmp_path: Path) -> None:
    files = [write(tmp_path, GOOD, "a.yaml"), write(tmp_path, GOOD, "b.yaml")]
    with pytest.raises(SchemaError, match="named 'reviews'"):
        load_schemas(files)


def test_a_hub_tokenizer_needs_a_pinned_revision(tmp_path: Path) -> None:
    assert "pinned `revision`" in message(tmp_path, GOOD + "tokenizer: {hub: a/b}\n")


@pytest.mark.parametrize("name", sorted({*MODEL_INPUTS} - {"label", *JUDGED}))
def test_a_carried_column_may_not_have_a_name_that_a_model_or_trainer_reads(
    tmp_path: Path, name: str
) -> None:
    text = message(tmp_path, GOOD.replace("  id: {}", f"  {name}: {{}}"))
    assert repr(name) in text
    assert "give another name under `columns`" in text


def test_a_column_that_the_certificate_judges_must_be_a_list_of_integers(tmp_path: Path) -> None:
    assert "'token_type_ids'" in message(tmp_path, GOOD.replace("  id: {}", "  token_type_ids: {}"))
    good = GOOD.replace("  id: {}", "  token_type_ids: {type: list, items: {type: integer}}")
    load_schema(write(tmp_path, good))


def test_label_is_the_usual_name_in_a_table_and_reserved_elsewhere(tmp_path: Path) -> None:
    load_schema(write(tmp_path, GOOD.replace("  id: {}", "  label: {}")))
    tokens = "version: 1\nname: a\nkind: tokens\nfiles: [a]\ncolumns:\n  label: {}\n"
    assert "'label' is a column that trainers take for labels" in message(tmp_path, tokens)
