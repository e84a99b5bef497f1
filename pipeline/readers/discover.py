"""Discovery: which file of the raw folder is read by which schema, and what is said of all the others."""

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
from pipeline.readers.patterns import IMAGES, always_litter, closest, folder_litter, matches, usual_litter
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.schema.model import Schema

SUFFIXES = {
    ".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".xlsx": "excel", ".xlsm": "excel", ".xls": "excel", ".xlsb": "excel", ".ods": "excel",
    ".xltx": "excel", ".xltm": "excel",
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
"""Format by the suffix of the file's name, where the schema says ``format: auto``."""

BOOKKEEPING = frozenset(("state.json", "dataset_info.json", "dataset_dict.json"))
"""Files of a folder saved by ``datasets`` that hold no records."""


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
    """Claims sorted by (source, schema), and what is said of files, sorted by source; ``listing`` is the digest of the
    listing they were made from (``listing``)."""

    claims: tuple[Claim, ...]
    notes: tuple[FileNote, ...]
    listing: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A file, or a folder that cannot be entered; ``fault`` says why it cannot be read."""

    source: str
    path: Path
    bytes: int = 0
    fault: FileNote | None = None
    litter: str = ""
    saved: bool = False  # lies in a folder saved by ``datasets``


def discover(raw: Path, schemas: Sequence[Schema]) -> Discovery:
    """Match every file under ``raw`` against the ``files`` patterns of every schema.

    A file matched by two schemas is read by both. Nothing is opened. Links that leave the raw folder are refused;
    litter is named; a file that nobody claims is noted with the pattern most like it, page images in one note.
    """
    patterns = [pattern for schema in schemas for pattern in schema.files]
    claims: list[Claim] = []
    notes: list[FileNote] = []
    images: list[str] = []
    walked = list(_walk(raw.resolve()))
    for found in walked:
        name = PurePosixPath(found.source).name
        litter = found.litter or always_litter(name) or usual_litter(name, patterns)
        if found.saved and name.startswith(("cache-", "tmp")):
            litter = "cache of a saved data set"
        if litter:
            notes.append(FileNote(Reason.FILE_LITTER, found.source, litter))
            continue
        takers = [index for index, schema in enumerate(schemas) if _claims(schema, found)]
        if found.fault is not None and (takers or found.path.is_dir()):
            notes.append(found.fault)
        elif found.saved and name in BOOKKEEPING:
            notes.append(FileNote(Reason.FILE_LITTER, found.source, "bookkeeping of a saved data set"))
        elif takers:
            for index in takers:
                _claim(index, schemas[index], found, claims, notes)
        elif any(matches(found.source, schema.ignore) for schema in schemas):
            continue
        elif PurePosixPath(name).suffix.lower() in IMAGES:
            images.append(found.source)
        else:
            expected = closest(found.source, patterns)
            notes.append(FileNote(Reason.FILE_UNCLAIMED, found.source, expected=expected))
    notes += _images(images)
    claims.sort(key=lambda claim: (claim.source, claim.schema_index))
    notes.sort(key=lambda note: (note.source, note.reason.slug))
    return Discovery(tuple(claims), tuple(notes), _digest(walked))


def listing(raw: Path) -> str:
    """Digest of all that ``discover`` sees of a raw folder: the same listing and schemas give the same claims and
    notes. Content, sizes and times of files are no part of it."""
    return _digest(_walk(raw.resolve()))


def _digest(walked: Iterable[_Found]) -> str:
    facts = [
        (one.source, one.litter, one.saved, one.fault and (str(one.fault), one.path.is_dir()))
        for one in walked
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _claims(schema: Schema, found: _Found) -> bool:
    """Whether the schema reads this file, by its own name or by the folder it was saved in."""
    if matches(found.source, schema.ignore):
        return False
    if matches(found.source, schema.files):
        return True
    path = PurePosixPath(found.source)
    return (
        found.saved and path.suffix == ".arrow" and any(matches(str(p), schema.files) for p in path.parents)
    )


def _claim(index: int, schema: Schema, found: _Found, claims: list[Claim], notes: list[FileNote]) -> None:
    format_ = _format(schema, found.source)
    if format_:
        claims.append(Claim(index, found.source, found.path, format_, found.bytes))
        return
    suffix = PurePosixPath(found.source).suffix or "no suffix"
    note = FileNote(
        Reason.FILE_UNREADABLE, found.source, suffix, "a known suffix, or declare `read: format:`"
    )
    if note not in notes:
        notes.append(note)


def _format(schema: Schema, source: str) -> str:
    read = schema.read
    if read.format != "auto":
        return read.format
    if read.line_format is not None:
        return "lines"
    return SUFFIXES.get(PurePosixPath(source).suffix.lower(), "")


def _images(sources: Sequence[str]) -> Iterator[FileNote]:
    """One note for all page images: how many of each suffix, in the folder they share."""
    if not sources:
        return
    counts = Counter(PurePosixPath(source).suffix.lower() for source in sources)
    folder = os.path.commonpath([PurePosixPath(source).parent for source in sources]) or "."
    found = ", ".join(f"{count} {suffix}" for suffix, count in sorted(counts.items()))
    yield FileNote(Reason.FILE_IMAGES, folder.replace(os.sep, "/"), found)


def _walk(root: Path, folder: Path | None = None) -> Iterator[_Found]:
    """Every file under ``root`` in the order of its name, links to folders not entered."""
    here = folder or root
    try:
        with os.scandir(here) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        fault = FileNote(
            Reason.FILE_UNREADABLE, _source(root, here), error.strerror or "an error", "a folder"
        )
        yield _Found(fault.source, here, fault=fault)
        return
    saved = bool({"state.json", "dataset_info.json"} <= {entry.name for entry in entries}) or any(
        entry.name == "dataset_dict.json" for entry in entries
    )
    for entry in entries:
        path = Path(entry.path)
        source = _source(root, path)
        if _escapes_utf8(entry.name):
            note = FileNote(Reason.FILE_UNREADABLE, source, "a name that is not UTF-8", "a name in UTF-8")
            yield _Found(source, path, fault=note)
        elif entry.is_symlink():
            yield _link(root, path, source)
        elif entry.is_dir(follow_symlinks=False):
            if litter := folder_litter(entry.name):
                yield _Found(source, path, litter=litter)
            else:
                yield from _walk(root, path)
        elif entry.is_file(follow_symlinks=False):
            yield _Found(source, path, entry.stat(follow_symlinks=False).st_size, saved=saved)
        else:
            note = FileNote(Reason.FILE_UNREADABLE, source, "a pipe, socket or device", "a regular file")
            yield _Found(source, path, fault=note)


def _link(root: Path, path: Path, source: str) -> _Found:
    """What a symbolic link leads to. Links to files inside the raw folder are read like files."""
    try:
        target = path.resolve(strict=True)
        if not target.is_relative_to(root):
            # Only that it leaves is said: where it leads is nobody's business.
            return _Found(source, path, fault=FileNote(Reason.FILE_PATH_ESCAPE, source, "a symbolic link"))
        if target.is_dir():
            return _Found(source, path, litter="link to a folder that is read in its own place")
        if target.is_file():
            return _Found(source, path, target.stat().st_size)
        found = "a link to a pipe, socket or device"
    except (OSError, RuntimeError):
        found = "a link that leads nowhere"
    return _Found(source, path, fault=FileNote(Reason.FILE_UNREADABLE, source, found, "a regular file"))


def _source(root: Path, path: Path) -> str:
    """Path relative to the raw folder with forward slashes; bytes that are not UTF-8 escaped."""
    relative = path.relative_to(root).as_posix()
    return relative.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _escapes_utf8(name: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in name)
