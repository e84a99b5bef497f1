"""Verification: whether an output folder equals what its certificate states, to the byte.

The verdict lists every failure with its remedy, not only the first. A folder without a certificate gets a verdict,
too: the missing certificate is a failure, and so is every Arrow file in the folder that is cut.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pipeline.certificate.cache import HashCache
from pipeline.certificate.failures import Code, Failure, Verdict, failure
from pipeline.certificate.folder import PREVIOUS, REFUSED, STAGING
from pipeline.certificate.receipt import Receipt, statistics_of_parts, total_histogram
from pipeline.certificate.shard_check import broken_files, check_shard, check_size
from pipeline.certificate.sign import ENVELOPE, check, is_stale
from pipeline.certificate.statement import CERTIFICATE, FORM_ERRORS, Statement, datasets_of, parse, totals
from pipeline.shards.files import Part, data_folder
from pipeline.shards.hf import pointers

# The certificate against itself: every sum in it is computed again.


def account_failures(statement: Statement) -> Iterator[Failure]:
    """Counts that do not add up.

    For each partition and in total, records read = certified + quarantined + dropped. The rows and statistics of a data
    set come from its shards, and the counts of the quarantine from the partitions.
    """
    receipts, files = statement.receipts(), statement.files
    for receipt in receipts:
        if words := receipt.imbalance():
            yield failure(Code.ACCOUNTS_MISMATCH, f"partition {receipt.source}", words)
    yield from _equal("totals", statement.predicate["totals"], totals(receipts))
    contracts = {dataset["contract"] for dataset in statement.datasets.values()}
    yield from _equal("quarantine", sorted(statement.predicate["quarantine"]), sorted(contracts))
    for contract, stated in statement.predicate["quarantine"].items():
        own = [receipt for receipt in receipts if receipt.contract == contract]
        parts = [part.name for receipt in own for part in receipt.quarantine]
        yield from _equal(f"quarantine {contract}", stated, totals(own) | {"parts": parts})
    for name, dataset in statement.datasets.items():
        own = [receipt for receipt in receipts if receipt.contract == dataset["contract"]]
        yield from _dataset_failures(name, dataset, own, files)
    named = {file for receipt in receipts for file in receipt.files()}
    named |= {f"{data_folder(name)}/{part}" for name, d in statement.datasets.items() for part in d["parts"]}
    for unnamed in sorted(set(files) ^ named):
        yield failure(Code.ACCOUNTS_MISMATCH, f"file {unnamed}", "of no partition and no data set")


def _dataset_failures(
    name: str, dataset: Mapping[str, Any], receipts: list[Receipt], files: Mapping[str, Part]
) -> Iterator[Failure]:
    parts = [part for receipt in receipts for part in receipt.parts.get(name, ())]
    if not parts:
        parts = [files[f"{data_folder(name)}/{part}"] for part in dataset["parts"]]
    where = f"data set {name}"
    yield from _equal(f"{where}, shards", dataset["parts"], [part.name for part in parts])
    yield from _equal(f"{where}, rows", dataset["rows"], sum(part.rows for part in parts))
    yield from _equal(f"{where}, statistics", dataset["statistics"], statistics_of_parts(parts))
    lengths = total_histogram(receipt.lengths.get(name, {}) for receipt in receipts)
    yield from _equal(f"{where}, lengths", dataset["lengths"], lengths)


def _equal(where: str, stated: object, computed: object) -> Iterator[Failure]:
    if stated != computed:
        yield failure(Code.ACCOUNTS_MISMATCH, where, "stated otherwise than its parts give")


# Files of the folder that the certificate does not name.


IGNORED = (".gitignore", ".dvcignore")
"""Files of version control, which hold no data."""


def foreign_files(clean: Path, named: Container[str]) -> Iterator[tuple[bool, Failure]]:
    """(is a failure, fault) for every file that is not in ``named``.

    A file that a loader could read as data is a failure, any other file a note. The library ``datasets`` reads
    ``cache-*.arrow`` beside shards as the result of an earlier ``.map``.
    """
    for name in files_below(clean):
        top = name.split("/", 1)[0]
        if name in named or name in IGNORED or top in (PREVIOUS, STAGING, REFUSED):
            continue
        is_data = "/" in name or name.endswith((".arrow", ".parquet", ".json", ".jsonl", ".csv"))
        if name.endswith(".arrow"):
            yield True, failure(Code.FOREIGN_SHARD, name, "a shard that the certificate does not name")
        elif is_data:
            yield True, failure(Code.FOREIGN_FILE, name, "a file that the certificate does not name")
        else:
            yield False, failure(Code.FOREIGN_FILE, name, "a file that the certificate does not name")
    if any(files_below(clean / STAGING)):
        yield False, failure(Code.RUN_UNFINISHED, STAGING, "shards of a run that did not finish, or goes on")
    if any(files_below(clean / REFUSED)):
        yield False, failure(Code.RUN_REFUSED, REFUSED, "the quarantine of a run that was refused")


def files_below(folder: Path) -> Iterator[str]:
    """Every file below a folder by its relative name, in order; a link counts as a file and is not followed."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield os.path.relpath(Path(parent) / name, folder)
        yield from (
            os.path.relpath(Path(parent) / name, folder)
            for name in folders
            if (Path(parent) / name).is_symlink()
        )


# The whole verification.


ATTEMPTS = 5
"""How often verification starts again when a run replaces the certificate meanwhile."""


class Level(StrEnum):
    """How closely verification checks the shards. It always checks the certificate, the pointers and the names."""

    FULL = "full"  # hash every byte, validate every batch
    CACHED = (
        "cached"  # the same, only for files that changed since this user last hashed them on this machine
    )
    STAT = "stat"  # each shard exists and has its size


@dataclass(frozen=True, slots=True)
class Trust:
    """The signatures that verification requires.

    Attributes:
        keys: folder of trusted public keys (``*.pub``).
        threshold: number of these keys that must have signed.
    """

    keys: Path
    threshold: int = 1


@dataclass(slots=True)
class _Collected:
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
        level: how closely to check the shards.
        strict: whether notes (unknown files, an unfinished or refused run) count as failures.
        trust: the required signatures; None requires none.
        cache: folder of the digest cache; default: the user's cache folder.
        threads: number of files read at the same time; default: one per core, at most eight.

    When a run publishes meanwhile, verification starts again with the new certificate.
    """
    verdict = Verdict(str(clean), level.value)
    for _ in range(ATTEMPTS):
        content = _certificate(clean)
        found = _Collected()
        if content is None:
            found.failures.extend(_no_certificate(clean))
            break
        verdict = _verify_certificate(
            clean, level, content, found, HashCache(clean, cache), threads or _threads()
        )
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


def _verify_certificate(
    clean: Path, level: Level, content: bytes, found: _Collected, cache: HashCache, threads: int
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
        files, expected = _verify_files(clean, level, statement, found, cache, threads)
    except FORM_ERRORS as error:
        # A forged certificate may have consistent bytes and a consistent root, and parts of another form.
        words = f"its parts do not hold together: {type(error).__name__}"
        found.failures.append(failure(Code.CERTIFICATE_INVALID, CERTIFICATE, words))
        return verdict
    if is_stale(clean / ENVELOPE, content):
        found.failures.append(
            failure(Code.SIGNATURE_STALE, ENVELOPE, "another certificate than certificate.json")
        )
    for is_failure, fault in foreign_files(clean, {CERTIFICATE, ENVELOPE, *files, *expected}):
        (found.failures if is_failure else found.notes).append(fault)
    parts = files.values()
    rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
    return replace(verdict, root=statement.root, shards=len(files), rows=rows, bytes=size)


def _verify_files(
    clean: Path, level: Level, statement: Statement, found: _Collected, cache: HashCache, threads: int
) -> tuple[dict[str, Part], dict[str, bytes]]:
    """Verify the root, the counts, the shards and the pointers; returns the shards and the expected pointers."""
    if (root := statement.recomputed_root()) != statement.root:
        found.failures.append(
            failure(Code.ROOT_MISMATCH, CERTIFICATE, f"root {statement.root}", f"root {root}")
        )
    found.failures.extend(account_failures(statement))
    _verify_shards(clean, level, statement, found, cache, threads)
    expected = pointers(datasets_of(statement))
    found.failures.extend(_pointer_failures(clean, expected))
    return statement.files, expected


def _verify_shards(
    clean: Path, level: Level, statement: Statement, found: _Collected, cache: HashCache, threads: int
) -> None:
    """Check the shards in several threads: hashing and validation release Python's lock."""
    fields = {name: dataset["fields"] for name, dataset in statement.datasets.items()}

    def check_one(item: tuple[str, Part]) -> tuple[list[Failure], int]:
        name, part = item
        if wrong_size := check_size(clean / name, name, part):
            return [wrong_size], 0
        if level is Level.STAT or (level is Level.CACHED and cache.knows(name, part.sha256)):
            return [], 0
        before = cache.stamp(name)
        faults = check_shard(clean / name, name, part, fields.get(name.rpartition("/data/")[0]))
        if not faults:
            cache.learn(name, part.sha256, before)
        return faults, part.bytes

    # The largest first, so that no thread works alone on a large shard at the end.
    items = sorted(statement.files.items(), key=lambda item: -item[1].bytes)
    with ThreadPoolExecutor(threads) as pool:
        results = dict(zip((name for name, _ in items), pool.map(check_one, items), strict=True))
    for _, (faults, hashed) in sorted(results.items()):
        found.failures.extend(faults)
        found.hashed += hashed
    if level is not Level.STAT:
        cache.save()


def _pointer_failures(clean: Path, expected: Mapping[str, bytes]) -> Iterator[Failure]:
    for name, content in sorted(expected.items()):
        try:
            actual = (clean / name).read_bytes()
        except OSError:
            yield failure(Code.POINTER_TORN, name, "no such file", "what the certificate gives")
            continue
        if actual != content:
            yield failure(Code.POINTER_TORN, name, "newer or older than the certificate, or edited")


def _no_certificate(clean: Path) -> Iterator[Failure]:
    if not clean.is_dir():
        yield failure(Code.FOLDER_MISSING, str(clean), "no such folder")
        return
    unfinished = " (an unfinished run is in it)" if (clean / STAGING).exists() else ""
    yield failure(Code.CERTIFICATE_MISSING, CERTIFICATE, "no such file" + unfinished)
    yield from broken_files(
        clean, [name for name in files_below(clean) if name.endswith(".arrow") and name[0] != "."]
    )


def _certificate(clean: Path) -> bytes | None:
    try:
        return (clean / CERTIFICATE).read_bytes()
    except OSError:
        return None


def _signers(clean: Path, content: bytes, trust: Trust, found: _Collected) -> tuple[str, ...]:
    signers, faults = check(clean / ENVELOPE, content, trust.keys, trust.threshold)
    found.failures.extend(fault for fault in faults if fault not in found.failures)
    return signers


def _threads() -> int:
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
