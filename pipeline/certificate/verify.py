"""Whether an output folder is what its certificate says, whole and to the byte.

Every failure is listed, each with its remedy; nothing stops at the first. A folder that is no output folder at all
is judged as well: it has no certificate, and Arrow files in it that are cut are named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pipeline.certificate import shard
from pipeline.certificate.accounts import disagreements
from pipeline.certificate.bare import broken_files
from pipeline.certificate.cache import HashCache
from pipeline.certificate.failure import Code, Failure, Verdict, failure
from pipeline.certificate.folder import STAGING
from pipeline.certificate.foreign import foreign_files, walk
from pipeline.certificate.sign import ENVELOPE, check, is_stale
from pipeline.certificate.statement import CERTIFICATE, FORM_ERRORS, Statement, datasets_of, parse
from pipeline.shards.hf import pointers
from pipeline.shards.part import Part

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
    found.failures.extend(disagreements(statement))
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
        if lost := shard.present(clean / name, name, part):
            return [lost], 0
        if level is Level.STAT or (level is Level.CACHED and cache.knows(name, part.sha256)):
            return [], 0
        before = cache.stamp(name)
        faults = shard.compare(clean / name, name, part, _fields(name, fields))
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
