"""The runs that ``benchmarks.same_bytes`` records: samples, cases, real sets, made tables, vendors' pages.

A job says which files lie where in a folder of its own, and with which arguments ``run`` is called there. Every path
in it is relative, so that no name of this machine reaches a digest.
"""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

Schema = dict[str, Any]

WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
LIMITS = {"workbook_seconds": 120, "workbook_memory_mb": 2048}
CALLS = "system? (user (assistant_call tool+)* assistant)+"
SLOW = ("geometry.xlsx", "issue_174.xlsx", "issue_594_dos.ods", "65536-rows-xls.xls", "too_small.xls")
"""Workbooks near a limit of time or memory: what becomes of them depends on the machine."""
MOST = 200
"""Columns of one schema made from headers."""
_HEADERS = """
import json, resource, sys
import fastexcel
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for path in sys.argv[1:]:
    try:
        sheet = fastexcel.read_excel(path).load_sheet(0, header_row=None, n_rows=1, dtypes="string")
        names = [str(value) for value in sheet.to_arrow().to_pylist()[0].values() if value is not None]
    except BaseException:
        names = []
    print(json.dumps(names))
"""


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        name: ``group/…``.
        copies: file or folder, and where it is copied to in the job's folder.
        contents: files written there.
        arguments: of ``python -m pipeline run``, relative to the job's folder.
    """

    name: str
    copies: tuple[tuple[Path, str], ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    arguments: tuple[str, ...] = ("raw", "clean", "--schemas", "schemas")


def all_jobs(checkout: Path, shared: Path) -> Iterator[Job]:
    """Every job; those whose input this machine lacks are left out.

    Args:
        checkout: whose ``data_samples`` and ``schemas`` are run.
        shared: folder with ``cases``, ``data`` and ``tokenizers``.
    """
    yield from _samples(checkout)
    yield from _cases(shared / "cases")
    for make in (_documents, _vendors, _chats, _tables, _json, _workbooks, _made):
        yield from make(shared / "data")


def _job(
    name: str, files: Sequence[tuple[Path, str]], contents: Mapping[str, bytes], *schemas: Schema
) -> Job:
    """A job of files below ``raw/`` and schemas, written as JSON, which is YAML as well."""
    written = {f"raw/{place}": content for place, content in contents.items()}
    for schema in schemas:
        whole = {"version": 1, "quarantine": {"max_rate": 1.0}, **schema}
        written[f"schemas/{schema['name']}.yaml"] = json.dumps(whole, indent=1).encode()
    return Job(name, tuple((path, f"raw/{place}") for path, place in files), written)


def _flat(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    return [(path, path.name) for path in sorted(paths)]


# ---- samples and cases


def _samples(checkout: Path) -> Iterator[Job]:
    copies = (
        (checkout / "data_samples/raw", "raw"),
        (checkout / "data_samples/tokenizers", "data_samples/tokenizers"),
        (checkout / "schemas", "schemas"),
    )
    yield Job("samples/one worker", copies)
    yield Job(
        "samples/two workers", copies, arguments=("raw", "clean", "--schemas", "schemas", "--workers", "2")
    )


def _cases(cases: Path) -> Iterator[Job]:
    for folder in sorted(path.parent for path in cases.glob("*/expected.json")):
        copies = [(folder, f"cases/{folder.name}")]
        if (folder / "clean").is_dir():
            copies.append((folder / "clean", "clean"))
        for schema in (
            "schema.yaml",
            *sorted(f"schemas/{path.name}" for path in folder.glob("schemas/*.yaml")),
        ):
            raw, file = f"cases/{folder.name}/raw", f"cases/{folder.name}/{schema}"
            name = f"cases/{folder.name}" + ("" if schema == "schema.yaml" else f"/{Path(schema).stem}")
            yield Job(name, tuple(copies), arguments=(raw, "clean", "--schema", file))


# ---- pages


def _page(preset: str, files: Sequence[str], ignore: Sequence[str] = (), **more: Any) -> Schema:
    family = {"tokenizer": {"path": "../tokenizers/layoutlmv3-base"}, "model": {"family": "layoutlmv3"}}
    output = {"keep_record": True}
    return {
        "name": preset,
        "preset": preset,
        "files": files,
        "ignore": ignore,
        "output": output,
        **family,
        **more,
    }


def _documents(data: Path) -> Iterator[Job]:
    small: Schema = {"tokenizer": {"path": "../tokenizers/tiny-layoutlmv3"}}
    bert: Schema = {"tokenizer": {"path": "../tokenizers/bert-base-uncased"}, "model": {"family": "layoutlm"}}
    texts = _flat([*data.glob("docbank/*.txt")])
    if texts:
        pictures = ["*.jpg"]
        images = _flat([*data.glob("docbank/*.jpg")])
        yield _job("documents/docbank", texts + images, {}, _page("docbank", ["*.txt"], pictures))
        part = texts[::5]
        yield _job("documents/docbank layoutlm", part, {}, _page("docbank", ["*.txt"], **bert))
        split: Schema = {"split": {"shares": {"train": 0.8, "test": 0.2}, "key": "content"}}
        yield _job("documents/docbank small", part, {}, _page("docbank", ["*.txt"], **small))
        yield _job("documents/docbank split", part, {}, _page("docbank", ["*.txt"], **small, **split))
    receipts = data / "wildreceipt/data.txt"
    if receipts.is_file():
        images = [
            (p, f"tests/data/kie_toy_dataset/wildreceipt/{p.name}") for p in data.glob("wildreceipt/*.jpeg")
        ]
        wild = _page("wildreceipt", ["data.txt"], ["**/*.jpeg"])
        yield _job("documents/wildreceipt", [(receipts, "data.txt"), *images], {}, wild)
    for preset, pattern in (
        ("textract", "ocr-textract/*.json"),
        ("document_ai", "ocr-documentai/*.json"),
        ("doctr", "docile-sample/ocr/*.json"),
    ):
        for kind, more in ((" layoutlmv3", Schema()), (" layoutlm", bert)):
            if files := _flat([*data.glob(pattern)]):
                yield _job(f"documents/{preset}{kind}", files, {}, _page(preset, ["*.json"], **more))
    publaynet = data / "publaynet/samples.json"
    if publaynet.is_file():
        names = [kind["name"] for kind in json.loads(publaynet.read_bytes())["categories"]]
        layout = {"words": "$.annotations[].category.name", "labels": {"names": names}}
        coco = _page("coco", ["samples.json"], layout=layout)
        yield _job("documents/publaynet", _flat([publaynet]), {}, coco)


def _vendors(_: Path) -> Iterator[Job]:
    """FUNSD, XFUND, SROIE, CORD and Azure: one small page of each shape, drawn here, with one fault each."""
    drawn = io.BytesIO()
    Image.new("RGB", (400, 200), "white").save(drawn, "PNG")
    png = drawn.getvalue()
    words = [{"text": "Total", "box": [40, 20, 120, 40]}, {"text": "", "box": [1, 1, 2, 2]}]
    form = [
        {"label": "question", "text": "Total", "box": [0, 0, 9, 9], "id": 0, "linking": [], "words": words},
        {"label": "other", "id": 1, "linking": [], "words": [{"text": "42", "box": [200, 20, 240, 40]}]},
    ]
    inverted = [{"label": "answer", "words": [{"text": "42", "box": [240, 20, 200, 40]}]}]
    funsd = {
        f"annotations/{n}.json": json.dumps({"form": f}).encode() for n, f in (("a", form), ("b", inverted))
    }
    funsd |= {"images/a.png": png, "images/b.png": png}
    yield _job("vendors/funsd", (), funsd, _page("funsd", ["annotations/*.json"], ["images/*"]))
    size = {"width": 400, "height": 200}
    pages = [
        {"id": str(n), "document": f, "img": {"fname": "a.png", **size}}
        for n, f in enumerate((form, inverted))
    ]
    xfund = {"de.json": json.dumps({"lang": "de", "documents": pages}).encode(), "a.png": png}
    image = {"image": {"column": "$.img.fname"}}
    yield _job("vendors/xfund", (), xfund, _page("xfund", ["*.json"], ["*.png"], layout=image))
    line = '40,20,120,20,120,40,40,40,Total, net\r\n200,20,240,20,240,40,200,40,"42\r\n'
    sroie = {"a.txt": line.encode(), "a.jpg": png, "b.txt": line.replace("200", "x").encode(), "b.jpg": png}
    yield _job("vendors/sroie", (), sroie, _page("sroie", ["*.txt"], ["*.jpg"]))
    quads = [
        dict(zip(("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4"), c, strict=True))
        for c in ((40, 20, 120, 20, 120, 40, 40, 40), (200, 20, 240, 20, 240, 40, 200, 40))
    ]
    read = [{"quad": quad, "text": text} for quad, text in zip(quads, ("Total", "42"), strict=True)]
    lines = [{"category": "total.total_price", "words": read}]
    receipt = {"valid_line": lines, "meta": {"image_size": size}}
    cord = {
        "json/a.json": json.dumps(receipt).encode(),
        "image/a.png": png,
        "json/b.json": b'{"valid_line": [',
    }
    yield _job("vendors/cord", (), cord, _page("cord", ["json/*.json"], ["image/*"]))
    numbers = [[40, 20, 120, 20, 120, 40, 40, 40], [200, 20, 240, 20, 240, 40, 200, 40]]
    spans = list(zip(("Total", "42"), numbers, strict=True))
    old = {
        "page": 1,
        **size,
        "unit": "pixel",
        "lines": [{"words": [{"text": t, "boundingBox": b} for t, b in spans]}],
    }
    new = {
        "pageNumber": 1,
        **size,
        "unit": "pixel",
        "words": [{"content": t, "polygon": b} for t, b in spans],
    }
    azure_read = {
        "a.json": json.dumps({"status": "succeeded", "analyzeResult": {"readResults": [old]}}).encode()
    }
    yield _job("vendors/azure_read", (), azure_read, _page("azure_read", ["*.json"]))
    document = {"a.json": json.dumps({"analyzeResult": {"pages": [new]}}).encode()}
    yield _job("vendors/azure_document", (), document, _page("azure_document", ["*.json"]))


# ---- chats


def _chat(name: str, files: Sequence[str], tokenizer: str, source: Schema, **more: Any) -> Schema:
    chat = {"source": source, "max_tokens": 1024, **more}
    return {
        "name": name,
        "kind": "chat",
        "files": files,
        "chat": chat,
        "output": {"keep_record": True},
        "tokenizer": {"path": f"../tokenizers/{tokenizer}"},
    }


def _chats(data: Path) -> Iterator[Job]:
    demo, tools = data / "llamafactory-demo", {"grammar": CALLS, "max_tokens": 2048}
    shapes: tuple[tuple[str, str, Schema, Schema], ...] = (
        ("alpaca", "identity.json", {"format": "alpaca"}, {}),
        (
            "sharegpt",
            "glaive_toolcall_en_demo.json",
            {"format": "sharegpt", "column": "conversations", "tools": "tools"},
            tools,
        ),
        ("messages", "kto_en_demo.json", {"format": "messages"}, {"train_on": "last_assistant"}),
        ("openai", "reason_tool_use_demo_50.jsonl", {"format": "openai", "tools": "tools"}, tools),
        (
            "preference",
            "v1_dpo_demo.jsonl",
            {
                "format": "preference",
                "prompt": None,
                "chosen": "chosen_messages",
                "rejected": "rejected_messages",
            },
            {},
        ),
    )
    for name, file, source, more in shapes:
        if not (demo / file).is_file():
            continue
        calls = "tools" in source
        for tokenizer in (
            ("qwen2_5",) if calls else ("llama3", "mistral_v3" if name == "alpaca" else "qwen2_5")
        ):
            schema = _chat(name, [file], tokenizer, source, **more)
            yield _job(f"chats/{name} {tokenizer}", [(demo / file, file)], {}, schema)
        cut = {**more, "max_tokens": 512 if calls else 96, "too_long": "truncate_prompt"}
        short = _chat(name, [file], "qwen2_5" if calls else "llama3", source, **cut)
        yield _job(f"chats/{name} cut", [(demo / file, file)], {}, short)
    if (kto := demo / "kto_en_demo.json").is_file():
        packed = _chat("packed", ["*.json"], "llama3", {"format": "messages"}, packing={"capacity": 1024})
        yield _job("chats/kto packed", [(kto, "kto.json")], {}, packed)
    sets = [p for p in data.glob("mts-dialog/*.csv") if "Set" in p.name and "Summaries" not in p.name]
    if sets:
        source = {"format": "columns", "prompt": "dialogue", "answer": "section_text"}
        for tokenizer, limit in (("llama3", 512), ("tiny-llama3", 2048)):
            schema = _chat("notes", ["*.csv"], tokenizer, source, max_tokens=limit)
            yield _job(f"chats/mts-dialog {tokenizer}", _flat(sets), {}, schema)
    if notes := _flat([*data.glob("primock57/notes/*.json")]):
        source = {"format": "columns", "prompt": "presenting_complaint", "answer": "note"}
        yield _job("chats/primock57", notes, {}, _chat("notes", ["*.json"], "llama3", source))


# ---- tables


def _column(name: str, kind: str = "text") -> Schema:
    return {"column": name, "type": kind, "required": False, **({"blank": "allow"} if kind == "text" else {})}


def _table(
    name: str, files: Sequence[str], columns: Mapping[str, Schema], read: Schema, **more: Any
) -> Schema:
    return {
        "name": name,
        "kind": "table",
        "files": files,
        "columns": columns,
        "read": read,
        "table": {"text": None},
        **more,
    }


def _texts(headers: Sequence[Sequence[str]]) -> dict[str, Schema]:
    """Optional text columns for the names of all headers, at most ``MOST`` of them."""
    names = dict.fromkeys(name for header in headers for name in header if name.strip() and name[0] != "$")
    return {f"c{i}": _column(name) for i, name in enumerate(list(names)[:MOST])}


def _csv_header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        first = lines.readline()
    delimiter = max(",;\t|", key=first.count)
    return next(csv.reader([first], delimiter=delimiter), [])


def _tables(data: Path) -> Iterator[Job]:
    """CSV files by their own header as text, and by place as numbers."""
    for folder in ("csv-spectrum/csvs", "docling-tables", "mts-dialog", "primock57/human_eval_data"):
        files = sorted((data / folder).glob("*.csv"))
        if not files:
            continue
        named = _table("rows", ["*.csv"], _texts([_csv_header(path) for path in files]), {})
        yield _job(f"tables/{folder} by header", _flat(files), {}, named)
        numbers = {f"c{i}": _column(str(i), "number") for i in range(1, 9)}
        placed = _table("numbers", ["*.csv"], numbers, {"header": "none", "delimiter": ",", "decimal": "."})
        yield _job(f"tables/{folder} as numbers", _flat(files), {}, placed)
    sets = [p for p in sorted(data.glob("mts-dialog/*.csv")) if "Set" in p.name and "Summaries" not in p.name]
    if sets:
        columns: dict[str, Schema] = {
            "id": {"type": "integer", "column": "ID"},
            "dialogue": {"max_characters": 4000},
            "section": {
                "column": "section_header",
                "allowed": ["CC", "GENHX", "ROS", "PASTMEDICALHX", "FAM/SOCHX"],
            },
        }
        typed = _table(
            "sections", ["*.csv"], columns, {}, tokenizer={"path": "../tokenizers/bert-base-uncased"}
        )
        typed["table"] = {"text": "dialogue", "label": "section", "max_tokens": 256}
        yield _job("tables/mts-dialog sections", _flat(sets), {}, typed)


def _json(data: Path) -> Iterator[Job]:
    tests = _flat(
        [*data.glob("jsontestsuite/test_parsing/*.json"), *data.glob("jsontestsuite/test_transform/*.json")]
    )
    if not tests:
        return
    column = {"a": _column("a"), "b": _column("b", "json")}
    yield _job(
        "json/jsontestsuite documents", tests, {}, _table("parsed", ["*.json"], column, {"format": "json"})
    )
    lines = {"limits": {"depth": 32}, "format": "jsonl"}
    yield _job("json/jsontestsuite lines", tests, {}, _table("parsed", ["*.json"], column, lines))
    if notes := _flat([*data.glob("primock57/notes/*.json")]):
        typed: dict[str, Schema] = {
            "day": {"type": "integer", "max": 3},
            "consultation": {"type": "integer"},
            "note": {"max_characters": 900},
            "highlights": {"type": "list", "items": {"type": "text"}},
        }
        yield _job("json/primock57", notes, {}, _table("notes", ["*.json"], typed, {}))


# ---- workbooks


def _workbooks(data: Path) -> Iterator[Job]:
    """Every workbook by place as text and as numbers; where its first row can be told, by header as text."""
    for folder in ("calamine", "readxl", "docling-tables", "primock57/consultation_checklists"):
        files = sorted(p for p in (data / folder).rglob("*") if p.suffix in WORKBOOKS and p.name not in SLOW)
        if not files:
            continue
        placed = [
            (p, f"{i:03}{p.suffix}" if folder.startswith("primock") else p.name) for i, p in enumerate(files)
        ]
        every = [f"*{suffix}" for suffix in WORKBOOKS]
        read = {"header": "none", "sheets": "visible", "limits": LIMITS}
        text = {f"c{i}": _column(str(i)) for i in range(1, 51)}
        yield _job(f"workbooks/{folder} as text", placed, {}, _table("cells", every, text, read))
        kinds = ("number", "integer", "date", "datetime", "boolean", "text")
        typed = {f"c{i}": _column(str(i), kinds[i % 6]) for i in range(1, 13)}
        merged = {**read, "merged": "fill"}
        yield _job(f"workbooks/{folder} typed", placed, {}, _table("cells", every, typed, merged))
        numbers = {f"c{i}": _column(str(i), "number") for i in range(1, 13)}
        yield _job(f"workbooks/{folder} as numbers", placed, {}, _table("cells", every, numbers, read))
        named = _table("cells", every, _texts(_workbook_headers(files)), {"limits": LIMITS})
        yield _job(f"workbooks/{folder} by header", placed, {}, named)


def _workbook_headers(files: Sequence[Path]) -> list[list[str]]:
    """Values of the first row; none where the library that reads it fails."""
    command = [sys.executable, "-c", _HEADERS, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- made tables


def _made(_: Path) -> Iterator[Job]:
    """Typed rows from a seed, with faults: CSV in several spellings, JSON Lines, a JSON list, lines with quotes."""
    rows = made_rows(20_000)
    columns: dict[str, Schema] = {
        "id": {"type": "integer"},
        "price": {"type": "number", "min": -1000.0, "max": 9000.0},
        "day": {"type": "date", "required": False},
        "at": {"type": "datetime", "required": False},
        "open": {"type": "boolean"},
        "text": {"max_characters": 60},
        "kind": {"allowed": ["red", "green", "blue"]},
    }
    name = "rows"
    for spelling, delimiter, ends in (("comma", ",", "\n"), ("semicolon", ";", "\r\n"), ("tab", "\t", "\n")):
        content = _delimited(rows, delimiter, ends)
        for workers in (1, 2):
            files = {"a.csv": content, "b/a.csv": content[: len(content) // 3]}
            schema = _table(name, ["**/*.csv"], columns, {"delimiter": delimiter})
            job = _job(f"made/csv {spelling} {workers}", (), files, schema)
            yield Job(job.name, job.copies, job.contents, (*job.arguments, "--workers", str(workers)))
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    yield _job("made/jsonl", (), {"a.jsonl": lines.encode()}, _table(name, ["*.jsonl"], columns, {}))
    document = json.dumps({"data": rows[:8000]}, indent=1).encode()
    yield _job(
        "made/json list",
        (),
        {"a.json": document},
        _table(name, ["*.json"], columns, {"records_at": "$.data"}),
    )
    tokenizer = {"path": "../tokenizers/bert-base-uncased"}
    labelled = _table(name, ["*.csv"], columns, {}, tokenizer=tokenizer)
    labelled["table"] = {"text": "text", "label": "kind", "max_tokens": 16}
    labelled["output"] = {"shard_rows": 3000, "batch_rows": 500}
    yield _job("made/csv with text", (), {"a.csv": _delimited(rows[:9000], ",", "\n")}, labelled)
    large = _delimited(made_rows(500_000), ",", "\n")
    yield _job("made/large csv", (), {"a.csv": large}, _table(name, ["*.csv"], columns, {}))


def made_rows(count: int) -> list[dict[str, Any]]:
    """Rows of seven columns from a fixed seed; about one in twenty has a fault, one in fifty has all values of another.

    Args:
        count: number of rows.
    """
    chance = random.Random(11)
    words = [
        "alpha",
        "beta,",
        'ga"mma',
        "dél ta",
        " eps",
        "ζeta",
        "eta\nline",
        "",
        "0012",
        "NaN",
        "=1+2",
        "\u00a0x",
    ]
    rows: list[dict[str, Any]] = []
    for number in range(count):
        if rows and chance.random() < 0.02:
            rows.append(dict(rows[chance.randrange(len(rows))]))
            continue
        row: dict[str, Any] = {
            "id": number,
            "price": round(chance.uniform(-500, 5000), chance.randrange(5)),
            "day": f"20{chance.randrange(10, 30)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}",
            "at": f"2024-0{chance.randrange(1, 10)}-11T{chance.randrange(10, 24)}:{chance.randrange(10, 60)}:00",
            "open": chance.random() < 0.5,
            "text": " ".join(chance.choices(words, k=chance.randrange(1, 9))),
            "kind": chance.choice(["red", "green", "blue"]),
        }
        if chance.random() < 0.05:
            fault = chance.choice(
                ["1e999", "#REF!", "n/a", "", "12,5", "2024-02-31", "true ", "\ufffd", "violet", "-"]
            )
            row[chance.choice(list(row))] = fault
        rows.append(row)
    return rows


def _delimited(rows: Sequence[Mapping[str, Any]], delimiter: str, ends: str) -> bytes:
    """CSV text, with a ragged row, a blank line and an open quote near the end."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=ends)
    writer.writerow(rows[0])
    for number, row in enumerate(rows):
        cells = [str(value).lower() if isinstance(value, bool) else value for value in row.values()]
        writer.writerow([*cells, "more"] if number % 997 == 5 else cells)
        if number % 1999 == 7:
            text.write(ends)
    return text.getvalue().encode()
