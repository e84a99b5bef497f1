"""What a run made of a golden case, in a form that a person can read and check.

A golden case is a folder of ``golden/``: ``raw/``, ``schema.yaml``, and ``expected.json`` with exactly these members:

- ``why``: what the case shows, in a sentence.
- ``exit``: the exit code of ``run``.
- ``certified``: by data set, then by sample id, all columns of the shard but ``content_id``, which is a digest that
  nobody can check by eye. The order of the samples is not compared.
- ``quarantined``: by place (``source#row``, ``source#sheet#row``), the sorted reasons of each record: slug, column
  and path.
- ``dropped``: rows that are no records, counted by kind; kinds without a row are left out.
- ``repeated``: by data set, records whose content stands elsewhere as well and which were certified, counted by slug.
- ``notes``: what the certificate says of files: ``file: slug``.

The outcome must equal the expectation as a whole. A sample is written so that the eye finds a fault:

- tokens of a page are one line a word: ``place text | box | labels``, with the word's place on the page (``-`` for a
  special token) and one label a token (``-`` where nothing is learned);
- tokens of a chat are one text, in which ``⟨eot_id⟩`` is a control token (its spelling inside a content stays
  ``<|eot_id|>``) and ``⟦ ⟧`` enclose what is learned;
- a page image is the colour in the middle of each of its quarters.

``python -m tests.cases.outcome NAME`` prints the outcome of a case, to be read before it is kept.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.ipc
import yaml
from tokenizers import Tokenizer

from pipeline.cli.app import main as command

CASES = Path(__file__).with_name("golden")
MEMBERS = ("why", "exit", "certified", "quarantined", "dropped", "repeated", "notes")
IGNORE = -100
SIDE = 224
MIDDLES = (56, 168)
"""Middle of the first and of the second half of a side of the stored image, in pixels."""

Row = Mapping[str, Any]


def load(folder: Path) -> dict[str, Any]:
    """The expectation of a case, without its ``why``.

    Raises:
        ValueError: the file has other members than those named above.
    """
    content: dict[str, Any] = json.loads((folder / "expected.json").read_text("utf-8"))
    if sorted(content) != sorted(MEMBERS):
        raise ValueError(f"{folder.name}: members {sorted(content)}, expected {sorted(MEMBERS)}")
    if not content.pop("why").strip():
        raise ValueError(f"{folder.name}: `why` is blank")
    return content


def outcome_of(folder: Path, clean: Path) -> dict[str, Any]:
    """Run a case into ``clean``, in this process, and read all of its result."""
    schema = folder / "schema.yaml"
    arguments = ["run", folder / "raw", clean, "--schema", schema, "--workers", "1", "--no-fsync"]
    silence = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    code = 0
    with silence[0], silence[1], mock.patch("sys.argv", ["pipeline", *map(str, arguments)]):
        try:
            command()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return read(clean, yaml.safe_load(schema.read_text("utf-8")), folder, code)


def read(clean: Path, schema: Row, folder: Path, code: int) -> dict[str, Any]:
    """The outcome in ``clean``: through its certificate, or the quarantine of a run that was refused."""
    out: dict[str, Any] = {"exit": int(code), "certified": {}, "quarantined": {}, "dropped": {}}
    out |= {"repeated": {}, "notes": []}
    if not (clean / "certificate.json").is_file():
        for path in sorted((clean / ".refused").glob("quarantine/**/*.arrow")):
            out["quarantined"].update(map(refusal, _rows(path)))
        return out
    predicate = json.loads((clean / "certificate.json").read_bytes())["predicate"]
    show = Reader(schema, folder)
    files = [(file["folder"], clean / file["folder"] / file["name"]) for file in predicate["files"]]
    for name, path in files:
        if ".pages" in name:
            show.images.update((row["page_id"], colours(row["pixels"])) for row in _rows(path))
    for name, path in files:
        if name.startswith("quarantine/"):
            out["quarantined"].update(map(refusal, _rows(path)))
        elif ".pages" not in name:
            samples = out["certified"].setdefault(name.split("/")[0], {})
            samples.update((row["sample_id"], show.sample(row)) for row in _rows(path))
    out["dropped"] = {kind: count for kind, count in predicate["totals"]["dropped"].items() if count}
    out["repeated"] = predicate["repeated"]
    out["notes"] = sorted(f"{note[1]}: {note[0]}" for note in predicate["notes"])
    return out


def refusal(row: Row) -> tuple[str, list[str]]:
    """Place and reasons of a record set aside."""
    place = "#".join(str(part) for part in (row["source"], row["sheet"], row["row"]) if part is not None)
    said = (" ".join((r["reason"], r["column"], r["path"])).split() for r in row["reasons"])
    return place, sorted(" ".join(words) for words in said)


def colours(pixels: Sequence[int]) -> list[str]:
    """Colour in the middle of each quarter, row by row, of an image [3 · 224 · 224], channel first."""
    return [
        "#" + "".join(f"{pixels[c * SIDE * SIDE + y * SIDE + x]:02x}" for c in range(3))
        for y in MIDDLES
        for x in MIDDLES
    ]


class Reader:
    """Writes samples of one data set. ``images`` holds the colours of each page image by its ``page_id``."""

    LEFT_OUT = ("sample_id", "source", "sheet", "row", "content_id")

    def __init__(self, schema: Row, folder: Path) -> None:
        self.images: dict[str, list[str]] = {}
        self._names: list[str] = ((schema.get("layout") or {}).get("labels") or {}).get("names", [])
        path = (schema.get("tokenizer") or {}).get("path")
        self._engine = Tokenizer.from_file(str(folder / path / "tokenizer.json")) if path else None
        special = self._engine.get_added_tokens_decoder().items() if self._engine else ()
        self._special = {token: f"⟨{added.content.strip('<|>')}⟩" for token, added in special}

    def sample(self, row: Row) -> dict[str, Any]:
        """What a sample holds. Its place is its id."""
        left = {name: value for name, value in row.items() if name not in self.LEFT_OUT}
        out = {}
        if self._engine is not None:
            ids, mask = left.pop("input_ids"), left.pop("attention_mask")
            if mask != [1] * len(ids):
                out["attention_mask"] = mask
            if "bbox" in left:
                labels = left.pop("labels") if isinstance(left.get("labels"), list) else [IGNORE] * len(ids)
                out["tokens"] = list(self._words(ids, left.pop("bbox"), left.pop("word_ids"), labels))
            else:
                out["tokens"] = self._text(
                    ids, left.pop("labels") if isinstance(left.get("labels"), list) else []
                )
            if "rejected_input_ids" in left:
                out["rejected"] = self._text(left.pop("rejected_input_ids"), left.pop("rejected_labels"))
        if "page_id" in left:
            out["image"] = self.images.get(left.pop("page_id"))
        if "turns" in left:
            left["turns"] = [f"{turn['role']} {turn['start']}-{turn['end']}" for turn in left["turns"]]
        return out | {name: plain(value) for name, value in left.items()}

    def _words(
        self, ids: Sequence[int], boxes: Sequence[Any], words: Sequence[int], labels: Sequence[int]
    ) -> Iterator[str]:
        """A line for each word and each special token."""
        places = range(len(ids))
        # A special token is a word of its own: it stands under its own place.
        for _, group in groupby(places, lambda i: (words[i], i if words[i] < 0 else -1)):
            held = list(group)
            own = [boxes[i] for i in held]
            box = own[0] if all(one == own[0] for one in own) else own
            said = (self._names[labels[i]] if labels[i] != IGNORE else "-" for i in held)
            box_said = " ".join(map(str, box))
            place = words[held[0]] if words[held[0]] >= 0 else "-"
            yield f"{place} {self._spell([ids[i] for i in held]).strip()} | {box_said} | {' '.join(said)}"

    def _text(self, ids: Sequence[int], labels: Sequence[int]) -> str:
        """The text of all tokens, with marks around what is learned. A label that is not its token is written out."""
        learned = [label != IGNORE for label in labels] or [False] * len(ids)
        parts = [
            f"{i} is to become {la}! " for i, la in zip(ids, labels, strict=False) if la not in (i, IGNORE)
        ]
        for trained, group in groupby(zip(ids, learned, strict=True), lambda pair: pair[1]):
            text = self._spell([token for token, _ in group])
            parts.append(f"⟦{text}⟧" if trained else text)
        return "".join(parts)

    def _spell(self, ids: Sequence[int]) -> str:
        assert self._engine is not None
        parts = []
        for special, group in groupby(ids, self._special.__contains__):
            tokens = list(group)
            parts.append(
                "".join(map(self._special.__getitem__, tokens)) if special else self._engine.decode(tokens)
            )
        return "".join(parts)


def plain(value: Any) -> Any:
    """A value as JSON writes it; dates as ISO text."""
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return value


def differences(expected: Any, found: Any, at: str = "") -> list[str]:
    """Where two outcomes differ, one line a place; empty where they are equal. 1, 1.0 and true differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lines = [f"{at}/{key}: not found" for key in expected.keys() - found.keys()]
        lines += [f"{at}/{key}: found, not expected" for key in found.keys() - expected.keys()]
        for key in (key for key in expected if key in found):
            lines += differences(expected[key], found[key], f"{at}/{key}")
        return sorted(lines)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for i, pair in enumerate(zip(expected, found, strict=True))
            for line in differences(*pair, f"{at}/{i}")
        ]
    same = type(expected) is type(found) and expected == found
    return [] if same else [f"{at}: {found!r}, expected {expected!r}"]


def _rows(path: Path) -> list[dict[str, Any]]:
    with pa.ipc.open_stream(path.read_bytes()) as stream:
        rows: list[dict[str, Any]] = stream.read_all().to_pylist()
    return rows


def main() -> None:
    """Print the outcome of the named cases as JSON."""
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as place:
            print(json.dumps(outcome_of(CASES / name, Path(place) / "clean"), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
