"""Every word of a case's ``schema_assumed`` becomes a schema that the language accepts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.schema.model import Schema
from tests.acceptance.case import Case, Untranslated
from tests.acceptance.translate import OWN, translate
from tests.acceptance.translate_table import column


def _case(
    place: Path,
    assumed: dict[str, Any],
    records: list[Any] | str,
    value: Any = None,
    name: str = "input.jsonl",
) -> Case:
    place.mkdir(parents=True, exist_ok=True)
    text = records if isinstance(records, str) else "".join(json.dumps(r) + "\n" for r in records)
    (place / name).write_text(text, encoding="utf-8")
    expected = {"id": "t-1", "expect": "mixed", "value": value, "schema_assumed": assumed, "files": [name]}
    (place / "expected.json").write_text(json.dumps(expected), encoding="utf-8")
    return Case.load(place)


def _schema(case: Case, place: Path) -> dict[str, Any]:
    """The translation, proven to be valid, without what the model adds."""
    schema, unused = translate(case, place / "work")
    assert not unused
    Schema.model_validate_json(json.dumps(schema))
    return schema


PAGE = {"id": "p", "width": 100, "height": 200, "words": ["a"], "bboxes": [[1, 2, 3, 4]], "labels": ["O"]}
BOX = {"modality": "layout", "label_list": ["O", "B-KEY"], "page_size_fields": ["width", "height"]}
CHAT = {
    "modality": "chat", "roles": ["system", "user", "assistant"], "system": "at most one, first",
    "alternation": "user/assistant, user first", "last_role": "assistant", "content": "non-blank str",
}  # fmt: skip


@pytest.mark.parametrize(
    ("order", "name"),
    [
        ("xyxy", "xyxy"),
        ("xywh", "xywh"),
        ("polygon8", "quad"),
        ("xywh+rotation_deg_cw_about_top_left", "rotated_xywh"),
    ],
)
@pytest.mark.parametrize(
    ("unit", "meant"),
    [("px", "pixel"), ("pt", "point"), ("ratio", "ratio"), ("percent", "percent"), ("norm1000", "norm1000")],
)
@pytest.mark.parametrize("origin", ["top-left", "bottom-left"])
def test_every_order_unit_and_origin(
    tmp_path: Path, order: str, name: str, unit: str, meant: str, origin: str
) -> None:
    assumed = {**BOX, "bbox": {"order": order, "unit": unit, "origin": origin, "clip_tolerance_px": 3}}
    layout = _schema(_case(tmp_path / "c", assumed, [PAGE]), tmp_path)["layout"]
    assert layout["boxes"] == {
        "column": "bboxes",
        "order": name,
        "unit": meant,
        "origin": origin.replace("-", "_"),
    }
    assert layout["clip_tolerance"] == {"pixels": 3.0}
    assert layout["page"] == {"width": "width", "height": "height"}


def test_fields_inside_objects_and_a_unit_each_page_says(tmp_path: Path) -> None:
    page = {
        "page": {"width": 8.5, "height": 11, "unit": "inch"},
        "lines": [{"text": "a", "boundingBox": [1] * 8}],
    }
    assumed = {**BOX, "bbox": {"order": "polygon8", "unit": "page.unit"}}
    layout = _schema(_case(tmp_path / "c", assumed, json.dumps([page]), name="input.json"), tmp_path)[
        "layout"
    ]
    assert layout["words"] == "$.lines[].text"
    assert layout["boxes"]["column"] == "$.lines[].boundingBox"
    assert layout["boxes"]["unit"] == {"column": "$.page.unit", "values": {"inch": "inch"}}
    assert layout["page"] == {"width": "$.page.width", "height": "$.page.height"}


def test_vertices_inside_a_polygon_object(tmp_path: Path) -> None:
    page = {"width": 9, "height": 9, "words": [{"text": "a", "boundingPoly": {"vertices": [{}, {"x": 4}]}}]}
    layout = _schema(
        _case(tmp_path / "c", {**BOX, "bbox": {"order": "vertices", "unit": "px"}}, [page]), tmp_path
    )["layout"]
    assert layout["words"] == "$.words[].text"
    assert layout["boxes"]["column"] == "$.words[].boundingPoly.vertices"


def test_boxes_as_numbers_inside_nested_objects_of_a_nested_list(tmp_path: Path) -> None:
    word = {"value": {"x": 1, "y": 2, "width": 3, "height": 4, "rotation": 5, "text": "a"}, "label": "O"}
    document = {"export": {"tasks": [{"original_width": 9, "original_height": 8, "result": [word]}]}}
    assumed = {**BOX, "bbox": {"order": "xywh+rotation_deg_cw_about_top_left", "unit": "percent"}}
    case = _case(tmp_path / "c", assumed, json.dumps(document), name="input.json")
    schema = _schema(case, tmp_path)
    assert schema["read"]["records_at"] == "$.export.tasks"
    assert schema["layout"]["words"] == "$.result[].value.text"
    assert schema["layout"]["labels"]["column"] == "$.result[].label"
    names = ("x", "y", "width", "height", "rotation")
    assert schema["layout"]["boxes"]["columns"] == [f"$.result[].value.{name}" for name in names]


def test_boxes_as_an_object_of_numbers(tmp_path: Path) -> None:
    page = {"words": [{"text": "a", "box": {"Left": 0.1, "Top": 0.2, "Width": 0.3, "Height": 0.4}}]}
    assumed = {**BOX, "bbox": {"order": "xywh", "unit": "ratio"}}
    boxes = _schema(_case(tmp_path / "c", assumed, [page]), tmp_path)["layout"]["boxes"]
    assert boxes["columns"] == [f"$.words[].box.{name}" for name in ("Left", "Top", "Width", "Height")]


def test_a_page_box_by_field(tmp_path: Path) -> None:
    page = {"mediabox": [10, 20, 110, 220], "words": ["a"], "bboxes": [[11, 22, 33, 44]], "labels": ["O"]}
    for named in (["mediabox"], "mediabox [x0,y0,x1,y1]", ["x0", "y0", "x1", "y1"]):
        assumed = {**BOX, "bbox": {"order": "xyxy", "unit": "pt"}, "page_size_fields": named}
        place = tmp_path / str(len(str(named)))
        assert _schema(_case(place / "c", assumed, [page]), place)["layout"]["page"] == {"box": "mediabox"}


def test_a_page_box_in_numbers(tmp_path: Path) -> None:
    assumed = {**BOX, "bbox": {"order": "xyxy", "unit": "pt"}, "page_size_fields": [0, -20, 612, 772]}
    assert _schema(_case(tmp_path / "c", assumed, [PAGE]), tmp_path)["layout"]["page"] == {
        "box": [0.0, -20.0, 612.0, 772.0]
    }


def test_a_word_a_row(tmp_path: Path) -> None:
    text = "doc,pw,page_width,page_height,word,left,top,width,height,label\nd,1,9,9,a,1,2,3,4,O\n"
    assumed = {**BOX, "bbox": {"order": "xywh", "unit": "px"}, "row_per_word": True, "group_by": "doc"}
    del assumed["page_size_fields"]
    schema = _schema(
        _case(
            tmp_path / "c",
            {**assumed, "page_size_fields": ["page_width", "page_height"]},
            text,
            name="input.csv",
        ),
        tmp_path,
    )
    assert schema["layout"]["boxes"]["columns"] == ["left", "top", "width", "height"]
    assert schema["layout"]["page"] == {"width": "page_width", "height": "page_height"}
    assert schema["read"]["group_by"] == {"key": "doc"}


@pytest.mark.parametrize("words", ["int ids, n=2", "int ids, n=2, ignore -100", "int ids, n=3, no ignore"])
def test_labels_as_ids(tmp_path: Path, words: str) -> None:
    page = {**PAGE, "labels": [1]}
    labels = _schema(
        _case(tmp_path / "c", {**BOX, "bbox": {"order": "xyxy", "unit": "px"}, "labels": words}, [page]),
        tmp_path,
    )["layout"]["labels"]
    assert labels["form"] == "ids"
    assert len(labels["names"]) == int(words.split("n=")[1][0])
    assert labels.get("ignore_id", -100) == (None if "no ignore" in words else -100)


@pytest.mark.parametrize(
    ("line", "separator"),
    [("1,2,3,4,5,6,7,8,a, b", ","), ("1\t2\t3\t4\t5\t6\t7\t8\ta b", "\t"), ("1 2 3 4 5 6 7 8 a, b", " ")],
)
def test_lines_of_numbers_and_text(tmp_path: Path, line: str, separator: str) -> None:
    assumed = {"modality": "layout", "format": "8 ints + rest of line is text", "unit": "px"}
    schema = _schema(_case(tmp_path / "c", assumed, line + "\n", name="input.csv"), tmp_path)
    assert schema["read"]["line_format"]["separator"] == separator
    assert schema["read"]["line_format"]["rest"] is True
    assert len(schema["layout"]["boxes"]["columns"]) == 8


def test_drop_words_windows_and_shards(tmp_path: Path) -> None:
    assumed = {
        **BOX,
        "bbox": {"order": "xyxy", "unit": "px"},
        "drop_words": "^#",
        "max_tokens": 64,
        "shard_rows": 2,
    }
    schema = _schema(_case(tmp_path / "c", assumed, [PAGE]), tmp_path)
    assert schema["layout"]["drop_words"] == ["^#"]
    assert schema["layout"]["window"]["max_tokens"] == 64
    assert schema["output"]["shard_rows"] == 2


@pytest.mark.parametrize(
    ("record", "more", "source"),
    [
        ({"messages": [{"role": "user", "content": "x"}]}, {}, {"format": "messages", "column": "messages"}),
        (
            {"conversations": [{"from": "human", "value": "x"}]},
            {"source_column": "conversations"},
            {"format": "sharegpt", "column": "conversations"},
        ),
        (
            {"conversations": [{"from": "human", "value": "x"}]},
            {"source_column": "conversations", "aliases": {"human": "user"}},
            {"format": "messages", "column": "conversations"},
        ),
        (
            {"instruction": "x", "input": "", "output": "y"},
            {"format": "alpaca", "optional": ["input"]},
            {"format": "alpaca", "instruction": "instruction", "input": "input", "output": "output"},
        ),
        (
            {"q": "x", "a": "y", "s": ""},
            {"columns": {"system": "s", "user": "q", "assistant": "a"}},
            {"format": "columns", "prompt": "q", "answer": "a", "system": {"column": "s", "optional": True}},
        ),
        (
            {"messages": [{"role": "tool", "content": "x"}], "tools": []},
            {"tools": True},
            {"format": "openai", "column": "messages", "tools": "tools"},
        ),
        (
            {"prompt": "x", "completion": "y"},
            {},
            {"format": "prompt_completion", "prompt": "prompt", "completion": "completion"},
        ),
    ],
)  # fmt: skip
def test_every_shape_of_chat(
    tmp_path: Path, record: dict[str, Any], more: dict[str, Any], source: dict[str, Any]
) -> None:
    schema = _schema(_case(tmp_path / "c", {**CHAT, **more}, [record]), tmp_path)
    assert schema["chat"]["source"] == source


@pytest.mark.parametrize(
    ("more", "grammar"),
    [
        ({}, "system? (user assistant)+"),
        ({"tools": True}, "system? (user (assistant_call tool+)* assistant)+"),
        ({"system": "none"}, "(user assistant)+"),
        ({"system": "required, first"}, "system (user assistant)+"),
        ({"alternation": "assistant first"}, "system? assistant? (user assistant)+"),
        ({"last_role": "any"}, "system? (user assistant)+ user?"),
    ],
)
def test_the_turn_grammar(tmp_path: Path, more: dict[str, Any], grammar: str) -> None:
    record = {"messages": [{"role": "user", "content": "x"}]}
    assert _schema(_case(tmp_path / "c", {**CHAT, **more}, [record]), tmp_path)["chat"]["grammar"] == grammar


def test_limits_of_a_chat(tmp_path: Path) -> None:
    assumed = {
        **CHAT,
        "max_tokens": 64,
        "truncate": "right",
        "embedding_rows": 2000,
        "tokenizer": "tiny-llama3",
    }
    schema = _schema(_case(tmp_path / "c", assumed, [{"messages": []}]), tmp_path)
    assert (schema["chat"]["max_tokens"], schema["chat"]["too_long"]) == (64, "truncate_answer")
    assert schema["model"]["embedding_rows"] == 2000


@pytest.mark.parametrize(
    ("truncate", "too_long", "drop"),
    [
        ("right", "truncate_answer", True),
        ("left", "truncate_prompt", True),
        ("oldest pairs first", "quarantine", True),
        ("drop oldest turns", "quarantine", True),
        ("never", "quarantine", False),
        (False, "quarantine", False),
    ],
)
def test_how_a_chat_is_cut(tmp_path: Path, truncate: str | bool, too_long: str, drop: bool) -> None:
    chat = _schema(_case(tmp_path / "c", {**CHAT, "truncate": truncate}, [{"messages": []}]), tmp_path)[
        "chat"
    ]
    assert (chat["too_long"], chat["drop_oldest_turns"]) == (too_long, drop)


def test_the_longest_content(tmp_path: Path) -> None:
    assumed = {**CHAT, "content": "non-blank str, at most 2,000 characters"}
    chat = _schema(_case(tmp_path / "c", assumed, [{"messages": []}]), tmp_path)["chat"]
    assert chat["role_limits"]["user"] == {"max_characters": 2000}


@pytest.mark.parametrize("pad", ["eos", "<|eot_id|>", 1409])
def test_another_padding_token(tmp_path: Path, pad: str | int) -> None:
    schema = _schema(
        _case(tmp_path / "c", {**CHAT, "pad": pad, "eot_id": 1409}, [{"messages": []}]), tmp_path
    )
    config = json.loads((Path(schema["tokenizer"]["path"]) / "tokenizer_config.json").read_text())
    assert config["pad_token"] == config["eos_token"] == "<|eot_id|>"  # noqa: S105


def test_a_tokenizer_that_the_case_brings(tmp_path: Path) -> None:
    case = _case(tmp_path / "c", {**CHAT, "tokenizer_dir": "the case folder"}, [{"messages": []}])
    (case.folder / "tokenizer_config.json").write_text('{"bos_token": "<s>"}')
    folder = Path(_schema(case, tmp_path)["tokenizer"]["path"])
    assert json.loads((folder / "tokenizer_config.json").read_text()) == {"bos_token": "<s>"}
    assert (folder / "tokenizer.json").is_file()


@pytest.mark.parametrize("name", ["qwen2_5", "Qwen2.5", "qwen/Qwen2.5-0.5B-Instruct"])
def test_a_tokenizer_beside_the_cases_goes_by_any_spelling(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "tokenizers/qwen2_5"
    shutil.copytree(OWN / "tiny-llama3", folder)
    case = _case(tmp_path / "cases/c", {**CHAT, "tokenizer": name}, [{"messages": []}])
    assert _schema(case, tmp_path)["tokenizer"]["path"] == str(folder)


def test_a_tokenizer_that_is_not_there_is_named_and_no_other_taken(tmp_path: Path) -> None:
    case = _case(tmp_path / "cases/c", {**CHAT, "tokenizer": "acme/none-7b"}, [{"messages": []}])
    with pytest.raises(Untranslated, match=r"acme/none-7b.*tiny-llama3"):
        _schema(case, tmp_path)


def test_tokens(tmp_path: Path) -> None:
    assumed = {
        "modality": "tokens",
        "embedding_rows": 10,
        "ignore_index": -100,
        "eot_id": 2,
        "causal_shift": True,
    }
    schema = _schema(_case(tmp_path / "c", assumed, [{"input_ids": [1], "labels": [1]}]), tmp_path)
    assert schema["tokens"] == {
        "input_ids": "input_ids", "labels": "labels", "ignore_index": -100, "end_of_turn": 2, "causal_shift": True,
    }  # fmt: skip
    assert schema["model"] == {"embedding_rows": 10}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("str", {"type": "text"}),
        ("non-blank str", {"type": "text"}),
        ("str optional", {"type": "text", "required": False, "blank": "allow"}),
        ("str, required", {"type": "text"}),
        ("str in [pos,neg]", {"type": "text", "allowed": ["pos", "neg"]}),
        ("non-blank str, at most 2000 characters", {"type": "text", "max_characters": 2000}),
        ("finite float", {"type": "number"}),
        ("float in [0, 1]", {"type": "number", "min": 0.0, "max": 1.0}),
        ("int >= 0", {"type": "integer", "min": 0.0}),
        ("int 1..5", {"type": "integer", "min": 1.0, "max": 5.0}),
        ("date", {"type": "date"}),
        ("one of [pos, neg]", {"type": "text", "allowed": ["pos", "neg"]}),
        ("non-blank, at most 9 characters", {"type": "text", "max_characters": 9}),
        ("decimal", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("list<str>", {"type": "list", "items": {"type": "text"}}),
        ("list<int> optional", {"type": "list", "items": {"type": "integer"}, "required": False}),
        (
            "list of {url: str, width: int, alt: str optional}",
            {
                "type": "list",
                "items": {
                    "type": "struct",
                    "fields": {
                        "url": {"type": "text"},
                        "width": {"type": "integer"},
                        "alt": {"type": "text", "required": False},
                    },
                },
            },
        ),
    ],
)  # fmt: skip
def test_a_column_in_words(words: str, wanted: dict[str, Any]) -> None:
    assert column(words) == wanted


def test_what_has_no_translation_is_said(tmp_path: Path) -> None:
    with pytest.raises(Untranslated, match="box order"):
        translate(_case(tmp_path / "a", {**BOX, "bbox": {"order": "spiral"}}, [PAGE]), tmp_path)
    with pytest.raises(Untranslated, match="modality"):
        translate(_case(tmp_path / "b", {"modality": "video"}, [PAGE]), tmp_path)
    _, unused = translate(
        _case(tmp_path / "d", {"modality": "table", "columns": {"id": "str"}, "moon": 1}, [PAGE]), tmp_path
    )
    assert unused == ["moon"]
