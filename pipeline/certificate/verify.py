"""Whether an output folder is what its certificate says, whole and to the byte.

Every failure is listed, each with its remedy; nothing stops at the first. A folder that is no output folder at all
is judged as well: it has no certificate, and Arrow files in it that are cut are named.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pipeline.certificate import receipt as statistics
from pipeline.certificate import shard_check
from pipeline.certificate.cache import HashCache
from pipeline.certificate.failures import Code, Failure, Verdict, failure
from pipeline.certificate.folder import PREVIOUS, REFUSED, STAGING
from pipeline.certificate.receipt import Receipt
from pipeline.certificate.shard_check import broken_files
from pipeline.certificate.sign import ENVELOPE, check, is_stale
from pipeline.certificate.statement import CERTIFICATE, FORM_ERRORS, Statement, datasets_of, parse, totals
from pipeline.shards.files import Part, data_folder
from pipeline.shards.hf import pointers

# Whether a certificate agrees with itself: every sum that can be made again is made again.


def account_failures(statement: Statement) -> Iterator[Failure]:
    """Accounts that do not add up: records read = certified + quarantined + dropped, per partition and in all; rows
    and statistics of a data set from its shards; the quarantine's counts from the partitions'."""
    receipts, files = statement.receipts(), statement.files
    for receipt in receipts:
        if words := receipt.imbalance():
            yield failure(Code.ACCOUNTS_MISMATCH, f"partition {receipt.source}", words)
    yield from _equal("totals", statement.predicate["totals"], totals(receipts))
    contracts = {facts["contract"] for facts in statement.datasets.values()}
    yield from _equal("quarantine", sorted(statement.predicate["quarantine"]), sorted(contracts))
    for contract, stated in statement.predicate["quarantine"].items():
        mine = [receipt for receipt in receipts if receipt.contract == contract]
        parts = [part.name for receipt in mine for part in receipt.quarantine]
        yield from _equal(f"quarantine {contract}", stated, totals(mine) | {"parts": parts})
    for name, facts in statement.datasets.items():
        mine = [receipt for receipt in receipts if receipt.contract == facts["contract"]]
        yield from _dataset(name, facts, mine, files)
    named = {file for receipt in receipts for file in receipt.files()}
    named |= {f"{data_folder(n)}/{p}" for n, facts in statement.datasets.items() for p in facts["parts"]}
    for unnamed in sorted(set(files) ^ named):
        yield failure(Code.ACCOUNTS_MISMATCH, f"file {unnamed}", "of no partition and no data set")


def _dataset(
    name: str, facts: Mapping[str, Any], receipts: list[Receipt], files: Mapping[str, Part]
) -> Iterator[Failure]:
    parts = [part for receipt in receipts for part in receipt.parts.get(name, ())]
    if not parts:
        parts = [files[f"{data_folder(name)}/{part}"] for part in facts["parts"]]
    where = f"data set {name}"
    yield from _equal(f"{where}, shards", facts["parts"], [part.name for part in parts])
    yield from _equal(f"{where}, rows", facts["rows"], sum(part.rows for part in parts))
    yield from _equal(f"{where}, statistics", facts["statistics"], statistics.statistics_of_parts(parts))
    lengths = statistics.total_histogram(receipt.lengths.get(name, {}) for receipt in receipts)
    yield from _equal(f"{where}, lengths", facts["lengths"], lengths)


def _equal(where: str, stated: object, made: object) -> Iterator[Failure]:
    if stated != made:
        yield failure(Code.ACCOUNTS_MISMATCH, where, "stated otherwise than its parts give")


# Files in an output folder that its certificate does not speak of.


OURS = (".gitignore", ".dvcignore")
"""Names that say how the folder is kept and hold no data."""


def foreign_files(clean: Path, named: Container[str]) -> Iterator[tuple[bool, Failure]]:
    """Every file that is not named, each with whether it is a failure: a file that a loader could take for data is,
    any other is a note.

    ``cache-*.arrow`` beside shards is what ``datasets`` trusts as the result of an earlier ``.map``.
    """
    for name in walk(clean):
        top = name.split("/", 1)[0]
        if name in named or top == PREVIOUS or name in OURS:
            continue
        if top in (STAGING, REFUSED):
            continue
        is_data = "/" in name or name.endswith((".arrow", ".parquet", ".json", ".jsonl", ".csv"))
        if name.endswith(".arrow"):
            yield True, failure(Code.FOREIGN_SHARD, name, "a shard that the certificate does not name")
        elif is_data:
            yield True, failure(Code.FOREIGN_FILE, name, "a file that the certificate does not name")
        else:
            yield False, failure(Code.FOREIGN_FILE, name, "a file that the certificate does not name")
    if any(walk(clean / STAGING)):
        yield False, failure(Code.RUN_UNFINISHED, STAGING, "shards of a run that did not finish, or goes on")
    if any(walk(clean / REFUSED)):
        yield False, failure(Code.RUN_REFUSED, REFUSED, "the quarantine of a run that was refused")


def walk(folder: Path) -> Iterator[str]:
    """Every file below a folder by its name relative to it, in order; links to files count as files."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield os.path.relpath(Path(place) / name, folder)
        # A link to a folder is not walked into, but must be seen.
        yield from (
            os.path.relpath(Path(place) / name, folder)
            for name in folders
            if (Path(place) / name).is_symlink()
        )


# Whether an output folder is what its certificate says, whole and to the byte.


ATTEMPTS = 5
"""How often verification begins again when the certificate changes under it."""


class Level(StrEnum):
    """How closely the shards are looked at. The certificate, the pointers and the names always are."""

    FULL = "full"  # every byte hashed, every batch validated
    CACHED = "cached"  # only what changed since it was last hashed by this user on this machine
    STAT = "stat"  # that each shard is there with its size


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose signatures are asked for.

    Attributes:
        keys: folder of trusted public keys (``*.pub``).
        threshold: how many of them must have signed.
    """

    keys: Path
    threshold: int = 1


@dataclass(slots=True)
class _Found:
    failures: list[Failure] = field(default_factory=list)
    notes: list[Failure] = field(default_factory=list)
    hashed: int = 0


def verify(
    clean: Path,
    level: Level = Level.FULL,
    *,
    strict: bool = False,
    trust: Trust | None = None,
    cache: Path | None = None,
    threads: int | None = None,
) -> Verdict:
    """Verify an output folder.

    Args:
        clean: the folder.
        level: how closely.
        strict: whether notes (unknown files, an unfinished or refused run) are failures as well.
        trust: signatures that must be there, if any.
        cache: where digests are remembered; default: the user's cache folder.
        threads: files read at a time; default: one a core, at most eight.

    A run that publishes meanwhile is no failure: the new certificate is then verified.
    """
    verdict = Verdict(str(clean), level.value)
    for _ in range(ATTEMPTS):
        content = _certificate(clean)
        found = _Found()
        if content is None:
            found.failures.extend(_no_certificate(clean))
            break
        verdict = _judge(clean, level, content, found, HashCache(clean, cache), threads or _threads())
        if trust is not None:
            verdict = replace(verdict, signers=_signers(clean, content, trust, found))
        if _certificate(clean) == content:
            break
    else:
        found.failures.append(
            failure(Code.CHANGED_MEANWHILE, CERTIFICATE, "a run publishes faster than this reads")
        )
    if strict:
        found.failures.extend(found.notes)
    return replace(verdict, failures=tuple(found.failures), notes=tuple(found.notes), hashed=found.hashed)


def _judge(
    clean: Path, level: Level, content: bytes, found: _Found, cache: HashCache, threads: int
) -> Verdict:
    verdict = Verdict(str(clean), level.value)
    try:
        statement = parse(content)
    except ValueError as error:
        found.failures.append(failure(Code.CERTIFICATE_INVALID, CERTIFICATE, str(error)))
        return verdict
    if statement.to_bytes() != content:
        found.failures.append(
            failure(Code.CERTIFICATE_ALTERED, CERTIFICATE, "other bytes than the program writes")
        )
    try:
        files, expected = _certified(clean, level, statement, found, cache, threads)
    except FORM_ERRORS as error:
        # A certificate forged into another shape: its bytes and root may hold, its parts do not.
        words = f"its parts do not hold together: {type(error).__name__}"
        found.failures.append(failure(Code.CERTIFICATE_INVALID, CERTIFICATE, words))
        return verdict
    if is_stale(clean / ENVELOPE, content):
        found.failures.append(
            failure(Code.SIGNATURE_STALE, ENVELOPE, "another certificate than certificate.json")
        )
    for is_failure, fact in foreign_files(clean, {CERTIFICATE, ENVELOPE, *files, *expected}):
        (found.failures if is_failure else found.notes).append(fact)
    parts = files.values()
    rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
    return replace(verdict, root=statement.root, shards=len(files), rows=rows, bytes=size)


def _certified(
    clean: Path, level: Level, statement: Statement, found: _Found, cache: HashCache, threads: int
) -> tuple[dict[str, Part], dict[str, bytes]]:
    """Everything that the certificate speaks of: itself, the shards, the pointers. Gives the latter two."""
    if (root := statement.recomputed_root()) != statement.root:
        found.failures.append(
            failure(Code.ROOT_MISMATCH, CERTIFICATE, f"root {statement.root}", f"root {root}")
        )
    found.failures.extend(account_failures(statement))
    _shards(clean, level, statement, found, cache, threads)
    expected = pointers(datasets_of(statement))
    found.failures.extend(_pointers(clean, expected))
    return statement.files, expected


def _shards(
    clean: Path, level: Level, statement: Statement, found: _Found, cache: HashCache, threads: int
) -> None:
    """Look at every shard, several at a time: hashing and validation run outside Python's lock."""
    fields = {name: facts["fields"] for name, facts in statement.datasets.items()}

    def look(item: tuple[str, Part]) -> tuple[list[Failure], int]:
        name, part = item
        if lost := shard_check.present(clean / name, name, part):
            return [lost], 0
        if level is Level.STAT or (level is Level.CACHED and cache.knows(name, part.sha256)):
            return [], 0
        before = cache.stamp(name)
        faults = shard_check.compare(clean / name, name, part, _fields(name, fields))
        if not faults:
            cache.learn(name, part.sha256, before)
        return faults, part.bytes

    # The largest first, so that none is left over for one thread at the end.
    items = sorted(statement.files.items(), key=lambda item: -item[1].bytes)
    with ThreadPoolExecutor(threads) as pool:
        results = dict(zip((name for name, _ in items), pool.map(look, items), strict=True))
    for _, (faults, hashed) in sorted(results.items()):
        found.failures.extend(faults)
        found.hashed += hashed
    if level is not Level.STAT:
        cache.save()


def _fields(name: str, fields: Mapping[str, Any]) -> Sequence[Sequence[str]] | None:
    return fields.get(name.rpartition("/data/")[0])


def _pointers(clean: Path, expected: Mapping[str, bytes]) -> Iterator[Failure]:
    for name, content in sorted(expected.items()):
        try:
            stands = (clean / name).read_bytes()
        except OSError:
            yield failure(Code.POINTER_TORN, name, "no such file", "what the certificate gives")
            continue
        if stands != content:
            yield failure(Code.POINTER_TORN, name, "newer or older than the certificate, or edited")


def _no_certificate(clean: Path) -> Iterator[Failure]:
    if not clean.is_dir():
        yield failure(Code.FOLDER_MISSING, str(clean), "no such folder")
        return
    unfinished = " (an unfinished run is in it)" if (clean / STAGING).exists() else ""
    yield failure(Code.CERTIFICATE_MISSING, CERTIFICATE, "no such file" + unfinished)
    yield from broken_files(
        clean, [name for name in walk(clean) if name.endswith(".arrow") and name[0] != "."]
    )


def _certificate(clean: Path) -> bytes | None:
    try:
        return (clean / CERTIFICATE).read_bytes()
    except OSError:
        return None


def _signers(clean: Path, content: bytes, trust: Trust, found: _Found) -> tuple[str, ...]:
    signers, faults = check(clean / ENVELOPE, content, trust.keys, trust.threshold)
    found.failures.extend(fault for fault in faults if fault not in found.failures)
    return signers


def _threads() -> int:
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
