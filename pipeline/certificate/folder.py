"""The files of an output folder: reading its certificate, publishing new shards, removing old ones, and keeping the
quarantine of a refused run.

Readers find every shard through the certificate, never by listing a folder. This module moves or removes only files
that are named like a shard in a folder of shards, or like a pointer to such shards.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from pipeline.certificate.failures import Code, failure
from pipeline.certificate.receipt import Receipt
from pipeline.certificate.statement import CERTIFICATE, Statement, parse
from pipeline.errors import VerificationError
from pipeline.shards.files import PART_NAME, QUARANTINE, Part, sync_folder, write_atomic
from pipeline.shards.hf import INFO, STATE

PREVIOUS, STAGING, REFUSED = ".previous", ".staging", ".refused"
"""Folders beside the data sets: the shards of the previous certificate, the work of a run, the quarantine of a refused
run."""


def read_certificate(clean: Path) -> Statement:
    """The certificate of an output folder, its form and root checked; raises ``VerificationError``."""
    path = clean / CERTIFICATE
    try:
        content = path.read_bytes()
        statement = parse(content)
    except FileNotFoundError:
        raise _refused(Code.CERTIFICATE_MISSING, clean, "") from None
    except ValueError as error:
        raise _refused(Code.CERTIFICATE_INVALID, path, str(error)) from None
    if statement.to_bytes() != content:
        raise _refused(Code.CERTIFICATE_ALTERED, path, "other bytes than the program writes")
    if statement.recomputed_root() != statement.root:
        raise _refused(Code.ROOT_MISMATCH, path, "a root that its content does not give")
    return statement


def locate(clean: Path, name: str) -> Path:
    """The path of a shard: its own folder, or ``.previous/``, where a run keeps it for readers of the previous
    certificate.

    Raises ``VerificationError`` when the shard is in neither. A reader whose certificate changed meanwhile may read
    the new one and try again.
    """
    for path in (clean / name, clean / PREVIOUS / name):
        if path.exists():
            return path
    raise _refused(Code.SHARD_MISSING, clean / name, "no such file")


def _refused(code: Code, where: Path, found: str) -> VerificationError:
    remedy = failure(code, str(where), found).remedy
    return VerificationError(code.replace("_", " "), where=str(where), found=found, remedy=remedy)


INDEX = f"{REFUSED}/quarantine.json"
"""The quarantine shards of a refused run, by schema, in the order of their records; written last."""


def refused_parts(clean: Path) -> dict[str, list[Path]] | None:
    """The quarantine shards of the last refused run, by schema and in order; None where no run was refused since the
    last published one."""
    try:
        value = json.loads((clean / INDEX).read_bytes())
        folder = clean / REFUSED / QUARANTINE
        return {
            str(schema): [folder / Path(schema).name / name for name in names if PART_NAME.fullmatch(name)]
            for schema, names in value.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def move_into_place(
    clean: Path,
    staging: Path,
    files: Mapping[str, Part],
    is_published: Callable[[str, Part], bool],
    *,
    fsync: bool,
) -> list[str]:
    """Move staged shards to their folders and return the names of those moved.

    A shard for which ``is_published`` is true stays as it is. Raises ``RuntimeError`` where a shard is neither staged
    nor published (a fault of this program).
    """
    moved, folders = [], set()
    for name, part in files.items():
        target, staged = clean / name, staging / name
        if not staged.exists():
            if not has_size(target, part):
                raise RuntimeError(f"{name}: neither staged nor in place")
            continue
        if is_published(name, part):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(target)
        moved.append(name)
        folders.add(target.parent)
    if fsync:
        for folder in sorted({ancestor for f in folders for ancestor in (f, f.parent, clean)}):
            sync_folder(folder)
    return moved


def collect_garbage(
    clean: Path, named: Collection[str], earlier: Collection[str], datasets: Collection[str], *, changed: bool
) -> int:
    """Move the shards of the previous certificate aside and remove the shards of older ones.

    Args:
        clean: the output folder.
        named: shards of the new certificate; they stay.
        earlier: shards of the previous certificate; they move to ``.previous/``, where older shards are removed.
        datasets: data sets of the new certificate; the pointers of all others are removed.
        changed: whether the new certificate differs from the previous one.

    Returns the number of shards that left their folder.
    """
    removed = 0
    for name in shards_below(clean / PREVIOUS) if changed else ():
        if name not in earlier:
            (clean / PREVIOUS / name).unlink()
    for name in shards_below(clean):
        if name in named:
            continue
        if name in earlier:
            aside = clean / PREVIOUS / name
            aside.parent.mkdir(parents=True, exist_ok=True)
            (clean / name).replace(aside)
        else:
            (clean / name).unlink()
        removed += 1
    _remove_pointers(clean, datasets)
    _remove_empty_folders(clean / PREVIOUS)
    return removed


def keep_refused(clean: Path, staging: Path, receipts: Iterable[Receipt]) -> None:
    """Copy the quarantine of a refused run to ``.refused/``, beside the last published state."""
    refused = clean / REFUSED
    remove_tree(refused)
    listed: dict[str, list[str]] = {}
    for receipt in sorted(receipts, key=lambda one: (one.contract, one.order)):
        for name in receipt.files():
            source = staging / name if (staging / name).exists() else clean / name
            if name.startswith(f"{QUARANTINE}/") and source.exists():
                (refused / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, refused / name)
                listed.setdefault(receipt.contract, []).append(source.name)
    refused.mkdir(parents=True, exist_ok=True)
    write_atomic(clean / INDEX, json.dumps(listed, indent=2).encode() + b"\n", fsync=False)


def has_size(path: Path, part: Part) -> bool:
    """Whether a file exists and has the size of a shard."""
    try:
        return path.stat().st_size == part.bytes
    except OSError:
        return False


def shards_below(folder: Path) -> list[str]:
    """Names of shards in ``<dataset>/data`` and ``quarantine/<schema>`` below a folder."""
    folders = [*folder.glob("[!.]*/data"), *folder.glob(f"{QUARANTINE}/*")]
    files = [file for one in folders if one.is_dir() for file in one.iterdir()]
    return sorted(str(file.relative_to(folder)) for file in files if PART_NAME.fullmatch(file.name))


def remove_tree(path: Path) -> None:
    """Remove a folder and its content. A worker of a killed run may still create a file in it: after three attempts
    the rest is left to the next run."""
    for _ in range(3):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return


def _remove_pointers(clean: Path, datasets: Collection[str]) -> None:
    """Remove the pointers of data sets that no longer exist (a schema was renamed or left out), and empty folders."""
    for state in sorted(clean.glob(f"[!.]*/{STATE}")):
        folder = state.parent
        if folder.name not in datasets and _points_to_shards(state):
            state.unlink()
            (folder / INFO).unlink(missing_ok=True)
            _remove_empty_folders(folder)
    _remove_empty_folders(clean / QUARANTINE)


def _points_to_shards(state: Path) -> bool:
    try:
        value = json.loads(state.read_bytes())
        files = [Path(file["filename"]) for file in value["_data_files"]]
        ours = all(file.parent == Path("data") and PART_NAME.fullmatch(file.name) for file in files)
        return bool(ours and value["_split"] == state.parent.name)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _remove_empty_folders(path: Path) -> None:
    for folder, _, _ in os.walk(path, topdown=False):
        if not any(Path(folder).iterdir()):
            Path(folder).rmdir()
