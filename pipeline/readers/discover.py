"""Discovery: which schema reads which file of the raw folder, and a note on every other file."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pipeline.findings import FileNote
from pipeline.readers.patterns import (
    IMAGE_SUFFIXES,
    always_litter,
    closest_pattern,
    litter_folder,
    litter_unless_named,
    matches_any,
)
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.schema.model import Schema

# fmt: off
SUFFIXES = {
    ".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".xlsx": "excel", ".xlsm": "excel", ".xls": "excel", ".xlsb": "excel", ".ods": "excel",
    ".xltx": "excel", ".xltm": "excel",
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}
# fmt: on
"""Format by the suffix of the file's name, where the schema says ``format: auto``."""

SAVED_SET_FILES = frozenset(("state.json", "dataset_info.json", "dataset_dict.json"))
"""Files without records in a folder that ``datasets`` saved."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One file that one schema reads.

    Attributes:
        source: path relative to the raw folder, with forward slashes.
        path: where it is.
        format: csv, tsv, lines, excel, json, jsonl, parquet or arrow.
        bytes: its size.
    """

    schema_index: int
    source: str
    path: Path
    format: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Discovery:
    """Claims sorted by (source, schema), and notes on files sorted by source.

    ``listing`` is the digest of the folder's listing that they follow from (``listing_digest``).
    """

    claims: tuple[Claim, ...]
    notes: tuple[FileNote, ...]
    listing: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file, or a folder that cannot be opened; ``fault`` says why it cannot be read."""

    source: str
    path: Path
    bytes: int = 0
    fault: FileNote | None = None
    litter: str = ""
    saved: bool = False  # in a folder that ``datasets`` saved


def discover(raw: Path, schemas: Sequence[Schema]) -> Discovery:
    """Match every file under ``raw`` against the ``files`` patterns of every schema.

    Two schemas may read the same file. No file is opened. Links that leave the raw folder are refused. Each litter file
    gets a note, and so does each unclaimed file, with the most similar pattern; all page images share one note.
    """
    patterns = [pattern for schema in schemas for pattern in schema.files]
    claims: list[Claim] = []
    notes: list[FileNote] = []
    images: list[str] = []
    entries = list(_scan_folder(raw.resolve()))
    for entry in entries:
        name = PurePosixPath(entry.source).name
        litter = entry.litter or always_litter(name) or litter_unless_named(name, patterns)
        if entry.saved and name.startswith(("cache-", "tmp")):
            litter = "cache of a saved data set"
        if litter:
            notes.append(FileNote(Reason.FILE_LITTER, entry.source, litter))
            continue
        readers = [index for index, schema in enumerate(schemas) if _is_claimed(schema, entry)]
        if entry.fault is not None and (readers or entry.path.is_dir()):
            notes.append(entry.fault)
        elif entry.saved and name in SAVED_SET_FILES:
            notes.append(FileNote(Reason.FILE_LITTER, entry.source, "bookkeeping of a saved data set"))
        elif readers:
            for index in readers:
                _add_claim(index, schemas[index], entry, claims, notes)
        elif any(matches_any(entry.source, schema.ignore) for schema in schemas):
            continue
        elif PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES:
            images.append(entry.source)
        else:
            expected = closest_pattern(entry.source, patterns)
            notes.append(FileNote(Reason.FILE_UNCLAIMED, entry.source, expected=expected))
    notes += _image_note(images)
    claims.sort(key=lambda claim: (claim.source, claim.schema_index))
    notes.sort(key=lambda note: (note.source, note.reason.slug))
    return Discovery(tuple(claims), tuple(notes), _digest_of(entries))


def listing_digest(raw: Path) -> str:
    """Digest of what ``discover`` sees in a raw folder: equal digests and schemas give equal claims and notes.

    It leaves out the content, sizes and times of files.
    """
    return _digest_of(_scan_folder(raw.resolve()))


def _digest_of(entries: Iterable[_Entry]) -> str:
    facts = [
        (entry.source, entry.litter, entry.saved, entry.fault and (str(entry.fault), entry.path.is_dir()))
        for entry in entries
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _is_claimed(schema: Schema, entry: _Entry) -> bool:
    """Whether the schema reads this file, by its own name or by that of the saved folder it lies in."""
    if matches_any(entry.source, schema.ignore):
        return False
    if matches_any(entry.source, schema.files):
        return True
    path = PurePosixPath(entry.source)
    return (
        entry.saved
        and path.suffix == ".arrow"
        and any(matches_any(str(p), schema.files) for p in path.parents)
    )


def _add_claim(index: int, schema: Schema, entry: _Entry, claims: list[Claim], notes: list[FileNote]) -> None:
    format_ = _claimed_format(schema, entry.source)
    if format_:
        claims.append(Claim(index, entry.source, entry.path, format_, entry.bytes))
        return
    suffix = PurePosixPath(entry.source).suffix or "no suffix"
    note = FileNote(
        Reason.FILE_UNREADABLE, entry.source, suffix, "a known suffix, or declare `read: format:`"
    )
    if note not in notes:
        notes.append(note)


def _claimed_format(schema: Schema, source: str) -> str:
    read = schema.read
    if read.format != "auto":
        return read.format
    if read.line_format is not None:
        return "lines"
    return SUFFIXES.get(PurePosixPath(source).suffix.lower(), "")


def _image_note(sources: Sequence[str]) -> Iterator[FileNote]:
    """One note for all page images: the number of each suffix, and the folder they share."""
    if not sources:
        return
    counts = Counter(PurePosixPath(source).suffix.lower() for source in sources)
    folder = os.path.commonpath([PurePosixPath(source).parent for source in sources]) or "."
    found = ", ".join(f"{count} {suffix}" for suffix, count in sorted(counts.items()))
    yield FileNote(Reason.FILE_IMAGES, folder.replace(os.sep, "/"), found)


def _scan_folder(root: Path, folder: Path | None = None) -> Iterator[_Entry]:
    """Every file under ``root`` in the order of names; links to folders are not followed."""
    current = folder or root
    try:
        with os.scandir(current) as handle:
            entries = sorted(handle, key=lambda entry: entry.name)
    except OSError as error:
        fault = FileNote(
            Reason.FILE_UNREADABLE, _source(root, current), error.strerror or "an error", "a folder"
        )
        yield _Entry(fault.source, current, fault=fault)
        return
    saved = bool({"state.json", "dataset_info.json"} <= {entry.name for entry in entries}) or any(
        entry.name == "dataset_dict.json" for entry in entries
    )
    for entry in entries:
        path = Path(entry.path)
        source = _source(root, path)
        if _is_not_utf8(entry.name):
            note = FileNote(Reason.FILE_UNREADABLE, source, "a name that is not UTF-8", "a name in UTF-8")
            yield _Entry(source, path, fault=note)
        elif entry.is_symlink():
            yield _resolve_link(root, path, source)
        elif entry.is_dir(follow_symlinks=False):
            if litter := litter_folder(entry.name):
                yield _Entry(source, path, litter=litter)
            else:
                yield from _scan_folder(root, path)
        elif entry.is_file(follow_symlinks=False):
            yield _Entry(source, path, entry.stat(follow_symlinks=False).st_size, saved=saved)
        else:
            note = FileNote(Reason.FILE_UNREADABLE, source, "a pipe, socket or device", "a regular file")
            yield _Entry(source, path, fault=note)


def _resolve_link(root: Path, path: Path, source: str) -> _Entry:
    """The entry of a symbolic link. A link to a file inside the raw folder is read like the file."""
    try:
        target = path.resolve(strict=True)
        if not target.is_relative_to(root):
            # The note does not name the target: a path outside the raw folder is private.
            return _Entry(source, path, fault=FileNote(Reason.FILE_PATH_ESCAPE, source, "a symbolic link"))
        if target.is_dir():
            return _Entry(source, path, litter="link to a folder that is read in its own place")
        if target.is_file():
            return _Entry(source, path, target.stat().st_size)
        found = "a link to a pipe, socket or device"
    except (OSError, RuntimeError):
        found = "a link that leads nowhere"
    return _Entry(source, path, fault=FileNote(Reason.FILE_UNREADABLE, source, found, "a regular file"))


def _source(root: Path, path: Path) -> str:
    """Path relative to the raw folder, with forward slashes; bytes that are not UTF-8 are escaped."""
    relative = path.relative_to(root).as_posix()
    return relative.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _is_not_utf8(name: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in name)
