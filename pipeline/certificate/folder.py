"""The output folder: what its certificate names, new shards into place, old ones out, the quarantine of a
refused run.

Nothing is ever touched that is not named like a shard in a place of shards, or like a pointer to such shards.
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

# Finding what a certificate names, for readers: everything is resolved from the certificate, nothing from
# names in a folder.


PREVIOUS, STAGING, REFUSED = ".previous", ".staging", ".refused"
"""Folders beside the data sets: the shards of the certificate before this one, a run's work, a refused run's
quarantine."""


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
    """Where a shard lies: in its place, or, while a run publishes, set aside for readers of the certificate before.

    Raises ``VerificationError`` when it is in neither; a reader that finds the certificate changed since may read
    that and try again.
    """
    for place in (clean / name, clean / PREVIOUS / name):
        if place.exists():
            return place
    raise _refused(Code.SHARD_MISSING, clean / name, "no such file")


def _refused(code: Code, where: Path, found: str) -> VerificationError:
    fact = failure(code, str(where), found)
    return VerificationError(code.replace("_", " "), where=str(where), found=found, remedy=fact.remedy)


# The quarantine of a refused run, kept in ``.refused/`` beside the last good state until a run is published.


INDEX = f"{REFUSED}/quarantine.json"
"""Lists the shards of each schema in the order of their records; written last."""


def index(shards: dict[str, list[str]]) -> bytes:
    """The content of ``INDEX``: for each schema the names of its quarantine shards, in order."""
    return json.dumps(shards, indent=2).encode() + b"\n"


def refused_parts(clean: Path) -> dict[str, list[Path]] | None:
    """The quarantine shards of each schema, in order; None where no run was refused since the last one published."""
    try:
        value = json.loads((clean / INDEX).read_bytes())
        folder = clean / REFUSED / QUARANTINE
        return {
            str(schema): [folder / Path(schema).name / name for name in names if PART_NAME.fullmatch(name)]
            for schema, names in value.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return None


# Shards of a new generation into place, those of older ones out of it.


def move_into_place(
    clean: Path,
    staging: Path,
    files: Mapping[str, Part],
    is_whole: Callable[[str, Part], bool],
    *,
    fsync: bool,
) -> list[str]:
    """Move staged shards to their place; one that is there already, whole, stays untouched. Gives those moved.

    Raises ``RuntimeError`` where a shard is neither staged nor in place (a fault of this program).
    """
    moved, folders = [], set()
    for name, part in files.items():
        place, staged = clean / name, staging / name
        if not staged.exists():
            if not has_size(place, part):
                raise RuntimeError(f"{name}: neither staged nor in place")
            continue
        if is_whole(name, part):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(place)
        moved.append(name)
        folders.add(place.parent)
    if fsync:
        for folder in sorted({up for f in folders for up in (f, f.parent, clean)}):
            sync_folder(folder)
    return moved


def collect_garbage(
    clean: Path, named: Collection[str], earlier: Collection[str], datasets: Collection[str], *, changed: bool
) -> int:
    """Set the previous certificate's shards aside and remove those of older ones.

    Args:
        clean: the output folder.
        named: shards of the new certificate; they stay.
        earlier: shards of the one before; they move to ``.previous/``, where those of older ones are removed.
        datasets: data sets of the new certificate; pointers of others are removed.
        changed: whether the new certificate is another than the one before.

    Returns how many shards went from their place.
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
    """Keep the quarantine of a refused run beside the folder's last good state."""
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
    write_atomic(clean / INDEX, index(listed), fsync=False)


def has_size(path: Path, part: Part) -> bool:
    """Whether a file is there with the size of a shard."""
    try:
        return path.stat().st_size == part.bytes
    except OSError:
        return False


def shards_below(folder: Path) -> list[str]:
    """Names of shards in ``<dataset>/data`` and ``quarantine/<schema>`` below a folder."""
    places = [*folder.glob("[!.]*/data"), *folder.glob(f"{QUARANTINE}/*")]
    files = [file for place in places if place.is_dir() for file in place.iterdir()]
    return sorted(str(file.relative_to(folder)) for file in files if PART_NAME.fullmatch(file.name))


def remove_tree(path: Path) -> None:
    """Remove a folder with all it holds. A worker of a killed run may still be creating a file in it: this is tried
    again, then left to the next run."""
    for _ in range(3):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return


def _remove_pointers(clean: Path, datasets: Collection[str]) -> None:
    """Pointers of data sets that are no more (a schema was renamed or left out), and the folders they leave empty."""
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
