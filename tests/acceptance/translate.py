"""A case's ``schema_assumed`` as a schema file, and the tokenizer it is run with."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from tests.acceptance.case import TOKENIZER_FILES, Case, Untranslated
from tests.acceptance.peek import Sample, peek, records_at
from tests.acceptance.translate_chat import translate_chat
from tests.acceptance.translate_layout import files_of, translate_layout
from tests.acceptance.translate_table import translate_table

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "data_samples/tokenizers"
# fmt: off
KNOWN = (
    "modality", "bbox", "page_size_fields", "page_box", "target", "label_list", "labels", "ignore_index",
    "drop_words", "row_per_word", "group_by", "format", "roles", "aliases", "system", "alternation",
    "last_role", "content", "optional", "source_column", "column", "cell_format", "tools", "causal_shift",
    "tokenizer", "tokenizer_dir", "max_tokens", "truncate", "bos_id", "eot_id", "pad", "embedding_rows",
    "columns", "text_column", "text", "shard_rows", "shard_bytes", "gate", "image", "unit", "decimal",
    "encoding", "encodings", "sheet", "header", "header_row", "merged", "delimiter", "clip_tolerance_px",
    "records_at", "policies",
)
# fmt: on


TOKEN_KEYS = {
    "max_tokens": "max_tokens",
    "ignore_index": "ignore_index",
    "causal_shift": "causal_shift",
    "eot_id": "end_of_turn",
    "bos_id": "bos",
}


def translate(case: Case, place: Path) -> tuple[dict[str, Any], list[str]]:
    """The schema of a case, with its tokenizer put under ``place``; and the words it has no use for.

    Raises Untranslated.
    """
    sample = peek(case.folder, case.inputs, case.field_names)
    match case.modality:
        case "layout" | "layout+image":
            schema = translate_layout(case, sample)
        case "chat":
            schema = translate_chat(case, sample)
        case "tokens":
            schema = _tokens(case, sample)
        case _:
            schema = translate_table(case, sample)
    schema = {"version": 1, "name": "case", **schema}
    schema["files"] = ["**/" + Path(name).name for name in files_of(case)] or ["**/*"]
    if ids := id_field(case, sample):
        schema.setdefault("columns", {}).setdefault(
            ids, {"type": "text", "required": False, "blank": "allow", "as_shown": True}
        )
    schema["read"] = _read(case, schema.get("read", {}))
    schema["quarantine"] = {"max_rate": 1.0}
    schema["output"] = _output(case, schema["kind"])
    if "policies" in case.assumed:
        schema["policies"] = dict(case.assumed["policies"])
    model: dict[str, Any] = {}
    if "embedding_rows" in case.assumed:
        model["embedding_rows"] = case.assumed["embedding_rows"]
    if schema["kind"] in ("layout", "chat") or schema.get("table", {}).get("text"):
        folder = tokenizer(case, place)
        schema["tokenizer"] = {"path": str(folder)}
        if schema["kind"] == "layout":
            model["family"] = _family(case, folder)
        if schema["kind"] == "chat":
            _template(schema["chat"], folder)
    if model:
        schema["model"] = model
    return schema, sorted(set(case.assumed) - set(KNOWN))


def id_field(case: Case, sample: Sample) -> str | None:
    """The field with the records' ids: the one whose values are the ids that the case speaks of."""
    if group := case.assumed.get("group_by"):
        return str(group)
    named = {key.split("#")[0] for key in case.named_rows()}
    value = case.value if isinstance(case.value, dict) else {}
    for key in ("ids", "certified_ids", "certified"):
        if isinstance(value.get(key), list):
            named |= {str(item) for item in value[key]}
    names = sample.keys()
    candidates = [key for key in names if key.lower() in ("id", "uid", "uuid", "key", "doc_id", "name", "no")]
    for key in [*candidates, *names]:
        if named & {str(v) for v in sample.values(key) if isinstance(v, (str, int))}:
            return key
    declared = [
        name for name in case.assumed.get("columns") or () if str(name).lower() in ("id", "key", "uid")
    ]
    return next(iter([*candidates, *declared]), None)


def _tokens(case: Case, sample: Sample) -> dict[str, Any]:
    tokens: dict[str, Any] = {"labels": sample.first(("labels", "label_ids", "targets"))}
    if ids := sample.first(("input_ids", "ids", "tokens", "token_ids")):
        tokens["input_ids"] = ids
    if mask := sample.first(("attention_mask", "mask")):
        tokens["attention_mask"] = mask
    for name, key in TOKEN_KEYS.items():
        if name in case.assumed:
            tokens[key] = case.assumed[name]
    return {"kind": "tokens", "tokens": tokens}


def _read(case: Case, read: dict[str, Any]) -> dict[str, Any]:
    """What the case says of its files."""
    assumed = case.assumed
    read = dict(read)
    encodings = assumed.get("encodings", assumed.get("encoding"))
    if encodings:
        read["encodings"] = [encodings] if isinstance(encodings, str) else list(encodings)
    if "sheet" in assumed:
        read["sheets"] = [assumed["sheet"]] if isinstance(assumed["sheet"], (str, int)) else assumed["sheet"]
    header = assumed.get("header_row", assumed.get("header"))
    if header is not None:
        read["header"] = header
    for name in ("merged", "delimiter"):
        if name in assumed:
            read[name] = assumed[name]
    if path := assumed.get("records_at") or records_at(case.folder, case.inputs):
        read["records_at"] = path
    return read


def _output(case: Case, kind: str) -> dict[str, Any]:
    output: dict[str, Any] = {}
    if kind in ("layout", "chat"):
        output["keep_record"] = True
    for name in ("shard_rows", "shard_bytes"):
        if name in case.assumed:
            output[name] = case.assumed[name]
    return output


def tokenizer(case: Case, place: Path) -> Path:
    """The tokenizer folder of a case: named beside the cases, brought along, or one of the samples' own."""
    folder = OWN / ("tiny-llama3" if case.modality in ("chat", "tokens") else "tiny-layoutlmv3")
    if name := case.assumed.get("tokenizer"):
        folder = _named(case, str(name))
    if "tokenizer_dir" in case.assumed:
        folder = _brought(case, place / "tokenizer", folder)
    if (pad := case.assumed.get("pad")) is not None:
        folder = _padded(folder, pad, place / "padded", case)
    return folder


def _named(case: Case, name: str) -> Path:
    """The tokenizer of this name, beside the cases or among the samples; a longer name of the same model will do.

    Raises ``Untranslated`` where there is none: with another one, the case would say nothing.
    """
    beside = case.folder.resolve().parent.parent / "tokenizers"
    found = [file.parent for place in (beside, OWN) for file in sorted(place.glob("*/tokenizer.json"))]
    wanted = _letters(name.rsplit("/", 1)[-1])
    for folder in found:
        if _letters(folder.name) == wanted:
            return folder
    alike = [folder for folder in found if wanted.startswith(_letters(folder.name))]
    if len({folder.name for folder in alike}) != 1:
        raise Untranslated(f"tokenizer {name!r}, there are {sorted({folder.name for folder in found})}")
    return alike[0]


def _letters(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _brought(case: Case, place: Path, default: Path) -> Path:
    """The files the case brings, completed by ``tokenizer.json`` where it has none."""
    place.mkdir(parents=True)
    said = str(case.assumed["tokenizer_dir"])
    inner = case.folder / said
    source = inner if len(said) < 200 and inner.is_dir() else case.folder
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, place / name)
    if not (place / "tokenizer.json").exists():
        shutil.copyfile(default / "tokenizer.json", place / "tokenizer.json")
    return place


def _padded(folder: Path, pad: Any, place: Path, case: Case) -> Path:
    """The tokenizer with another padding token: ``eos``, a token, or an id."""
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokens = {entry["id"]: entry["content"] for entry in content["added_tokens"]}
    word = str(pad).lower()
    if isinstance(pad, int):
        token = tokens.get(pad)
    elif pad in tokens.values():
        token = pad
    elif "eos" in word or "eot" in word:
        token = tokens.get(case.assumed.get("eot_id"), config.get("eos_token"))
    elif "bos" in word:
        token = config.get("bos_token")
    else:
        return folder
    if token is None:
        raise Untranslated(f"pad {pad!r}")
    shutil.copytree(folder, place)
    config["pad_token"] = token
    (place / "tokenizer_config.json").chmod(0o644)
    (place / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return place


def _template(chat: dict[str, Any], folder: Path) -> None:
    """Where tool turns are in scope and the tokenizer's own template knows none: the samples' template, whose marks
    are those of Llama 3."""
    if chat["source"]["format"] != "openai" or "template" in chat:
        return
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    marks = (folder / "tokenizer.json").read_text(encoding="utf-8")
    if "tool" not in str(config.get("chat_template", "tool")) and "<|start_header_id|>" in marks:
        chat["template"] = {"file": str(ROOT / "data_samples/material/chat_template.jinja")}


def _family(case: Case, folder: Path) -> str:
    """The model family: named, or the one that goes with the tokenizer; floats only for BROS."""
    text = json.dumps([case.assumed.get(key) for key in ("family", "model", "target", "tokenizer")]).lower()
    for family in ("layoutlmv3", "layoutlmv2", "layoutxlm", "lilt", "bros", "layoutlm"):
        if family in text:
            return family
    kind = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["type"]
    return "layoutlm" if kind == "WordPiece" else "layoutlmv3"
