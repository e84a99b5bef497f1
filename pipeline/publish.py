"""The output folder: quarantine budget, lock, order of writing, certificate last.

with CleanFolder(path) as folder:              # BusyError (exit 75) when another run holds it
        known = folder.find(memo)                  # receipts of an unchanged source, or None: then
        ...                                        # process_partition(...) writes below folder.staging
        outcome = folder.publish(inputs, receipts) # GateError (exit 3): nothing published

Order of a commit: shards into place, folders synced; the budget gate before any pointer moves; pointers; the
certificate last; then what neither the new nor the previous certificate names is removed. The previous
certificate's own shards move to ``.previous/`` and stay there for one generation, for readers that hold it.
No shard is ever opened for writing once it has its name: hard links into a cache keep their content.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import TracebackType

from pipeline.certificate.cache import TICK_NS, HashCache
from pipeline.certificate.digest import sha256
from pipeline.certificate.folder import (
    REFUSED,
    STAGING,
    collect_garbage,
    has_size,
    keep_refused,
    move_into_place,
    remove_tree,
)
from pipeline.certificate.receipt import Receipt
from pipeline.certificate.sign import ENVELOPE, envelope, is_stale
from pipeline.certificate.statement import (
    CERTIFICATE,
    Contract,
    Inputs,
    Statement,
    datasets_of,
    parse,
    state,
    totals,
)
from pipeline.errors import BusyError, GateError, SchemaError, StorageError
from pipeline.process import uninterrupted
from pipeline.shards.files import (
    QUARANTINE,
    FolderLock,
    Part,
    data_folder,
    file_sha256,
    storage_errors,
    write_atomic,
)
from pipeline.shards.hf import pointers

# The data gate: how much may be set aside before nothing is published.


def check_budget(contracts: Sequence[Contract], receipts: Sequence[Receipt]) -> None:
    """Raise ``GateError`` where a schema is over its quarantine budget, or nothing at all was certified."""
    for contract in contracts:
        accounts = totals([receipt for receipt in receipts if receipt.contract == contract.name])
        certified, quarantined = accounts["certified"], accounts["quarantined"]
        records = certified + quarantined
        if not records:
            continue
        if not certified:
            raise _refusal("no record can be trained on", contract, accounts, "at least one certified record")
        if quarantined > Fraction(str(contract.max_rate)) * records:
            limit = f"at most {contract.max_rate:.2%} (`quarantine: max_rate:` or --max-quarantine)"
            raise _refusal("over the quarantine budget", contract, accounts, limit)
    if not sum(receipt.certified for receipt in receipts):
        raise GateError(
            "no record was read that can be trained on",
            found="0 certified records",
            expected="at least one",
            remedy="put records into the files, or declare the sheet that has them under `read: sheets:`",
        )


def _refusal(what: str, contract: Contract, accounts: dict[str, object], expected: str) -> GateError:
    certified, quarantined = int(str(accounts["certified"])), int(str(accounts["quarantined"]))
    share = quarantined / (certified + quarantined)
    return GateError(
        what,
        where=contract.name,
        found=f"{quarantined} of {certified + quarantined} records quarantined ({share:.2%}): {_worst(accounts)}",
        expected=expected,
        remedy="`quarantine show` lists the records with their reasons; nothing was published",
    )


def _worst(accounts: dict[str, object]) -> str:
    """The most frequent reasons, at most five."""
    reasons = accounts["reasons"]
    assert isinstance(reasons, dict)  # noqa: S101
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{slug} {count}" for slug, count in ordered[:5])


# The output folder and its commit: kill it anywhere, and the last certificate still verifies, or the gate
# refuses and a rerun repairs.


WORTH_A_TICK = 2**27
"""Bytes of new shards that take longer to hash again in the next run than to wait now until their times can be told
from those of a later edit."""


@dataclass(frozen=True, slots=True)
class PublishOutcome:
    """What a commit did.

    Attributes:
        statement: the certificate now in the folder.
        unchanged: whether it was there before, byte for byte.
        written, reused: shards put into place, and shards that were there already.
        removed: shards of older generations that are gone now.
    """

    statement: Statement
    unchanged: bool
    written: int
    reused: int
    removed: int


class CleanFolder:
    """An output folder, locked for one run.

    Args:
        path: the folder; made when it is not there, and removed again when nothing comes of the run.
        fsync: whether everything is on the disk before the next step; switch it off for scratch runs only.
        force: whether nothing of the previous run is reused.

    Attributes:
        staging: an empty folder on the same file system, below which the run's shards are written in the layout of
            the output folder (``<dataset>/data``, ``quarantine/<schema>``).
    """

    def __init__(self, path: Path, *, fsync: bool = True, force: bool = False) -> None:
        self.path, self._fsync, self._force = path, fsync, force
        self.staging = path / STAGING
        self._held = b""
        self._made = False
        self._whole: dict[str, bool] = {}
        self._cache = HashCache(path, force=force)
        self._stack = ExitStack()

    def __enter__(self) -> CleanFolder:
        with ExitStack() as stack:
            with storage_errors(self.path):
                self._made = _make_folder(self.path)
            stack.enter_context(FolderLock(self.path))
            stack.callback(self._leave)
            self._held = _read(self.path / CERTIFICATE)
            with storage_errors(self.path):
                self.staging = self._stage()
            stack.callback(remove_tree, self.path / STAGING)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @cached_property
    def previous(self) -> Statement | None:
        """The certificate found, None where there is none that can be read."""
        return _parse(self._held)

    @cached_property
    def _known(self) -> dict[str, list[Receipt]]:
        known: dict[str, list[Receipt]] = {}
        for receipt in self.previous.receipts() if self.previous is not None and not self._force else ():
            known.setdefault(receipt.memo, []).append(receipt)
        return known

    def find(self, memo: str) -> tuple[Receipt, ...] | None:
        """The receipts of a source whose memo key is known and whose shards are all in place, in order. A shard that
        changed since it was last hashed is hashed again: an edited one is not built on."""
        receipts = self._known.get(memo)
        if receipts is None:
            return None
        if memo not in self._whole:
            self._whole[memo] = all(
                self._is_whole(name, part) for receipt in receipts for name, part in receipt.files().items()
            )
        return tuple(receipts) if self._whole[memo] else None

    def _is_whole(self, name: str, part: Part) -> bool:
        if not has_size(self.path / name, part):
            return False
        if self._cache.knows(name, part.sha256):
            return True
        before = self._cache.stamp(name)
        if file_sha256(self.path / name) != part.sha256:
            return False
        self._cache.learn(name, part.sha256, before)
        return True

    def confirm(self, digest: str, agrees: Callable[[Statement], bool]) -> PublishOutcome | None:
        """Publish once more the certificate found: what a run comes to that finds nothing changed.

        Pointers are mended and what no certificate names is removed, as by ``publish``.

        Args:
            digest: sha256 of the certificate that this program made of the very same inputs.
            agrees: whether the certificate agrees with what the run found.

        Returns None, with nothing done, where the folder holds another certificate or not every shard of it.
        """
        if sha256(self._held) != digest:
            return None
        statement = parse(self._held)
        whole = agrees(statement) and all(self._is_whole(*file) for file in statement.files.items())
        if not whole:
            return None
        self.previous = statement
        with storage_errors(self.path), uninterrupted():
            return self._commit(statement, self._held, ())

    def publish(
        self, inputs: Inputs, receipts: Sequence[Receipt], keys: Sequence[Path] = ()
    ) -> PublishOutcome:
        """Commit a run.

        Args:
            inputs: what holds for the whole run.
            receipts: of every partition, new and found, in any order.
            keys: private keys to sign the certificate with.

        Raises:
            GateError: over the budget, or nothing certified; the quarantine is kept in ``.refused/`` to be looked at.
            BusyError: the certificate changed although the folder is locked (a file system without true locks).
            StorageError: disk full, folder read-only.
            RuntimeError: accounts that do not add up (a fault of this program).
        """
        _check_accounts(inputs, receipts)
        try:
            check_budget(inputs.contracts, receipts)
        except GateError:
            with storage_errors(self.path):
                keep_refused(self.path, self.staging, receipts)
            raise
        with storage_errors(self.path):
            statement = state(inputs, receipts, self._empty_shards(inputs, receipts))
            with uninterrupted():
                return self._commit(statement, statement.to_bytes(), keys)

    def _commit(self, statement: Statement, content: bytes, keys: Sequence[Path]) -> PublishOutcome:
        files = statement.files
        moved = move_into_place(self.path, self.staging, files, self._is_whole, fsync=self._fsync)
        if _read(self.path / CERTIFICATE) != self._held:
            raise BusyError(
                "the certificate changed while this run held the folder",
                where=str(self.path),
                remedy="make sure that one run at a time writes here; run again",
            )
        for name, pointer in pointers(datasets_of(statement)).items():
            self._write(name, pointer)
        if keys:
            held = _read(self.path / ENVELOPE)
            self._write(ENVELOPE, envelope(content, keys, held))
        changed = self._write(CERTIFICATE, content)
        if is_stale(self.path / ENVELOPE, content):
            (self.path / ENVELOPE).unlink()
        earlier = set(self.previous.files) if self.previous else set()
        removed = collect_garbage(self.path, set(files), earlier, set(statement.datasets), changed=changed)
        if sum(files[name].bytes for name in moved) > WORTH_A_TICK:
            time.sleep(2 * TICK_NS / 1e9)  # files that were moved just now are not learned
        for name in moved:
            self._cache.learn_written(name, files[name].sha256, files[name].mtime_ns)
        self._cache.save()
        self._held, before = content, self.previous
        self.previous = statement
        remove_tree(self.path / REFUSED)
        return PublishOutcome(
            statement, before is not None and not changed, len(moved), len(files) - len(moved), removed
        )

    def _write(self, name: str, content: bytes) -> bool:
        return write_atomic(self.path / name, content, fsync=self._fsync, staging=self.staging)

    def _empty_shards(self, inputs: Inputs, receipts: Sequence[Receipt]) -> dict[str, Part]:
        """A zero-row shard for each data set without rows, so that it opens all the same."""
        from pipeline.shards.writer import empty_shard

        filled = {name for receipt in receipts for name, parts in receipt.parts.items() if parts}
        return {
            name: empty_shard(self.staging / data_folder(name), schema, fsync=self._fsync)
            for contract in inputs.contracts
            for name, schema in contract.datasets.items()
            if name not in filled
        }

    def _stage(self) -> Path:
        """A staging folder of this run's own: a worker that outlives a killed run writes into one that is gone."""
        remove_tree(self.path / STAGING)
        (self.path / STAGING).mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="run-", dir=self.path / STAGING))

    def _leave(self) -> None:
        if self._made and not any(self.path.iterdir()):
            self.path.rmdir()


def _check_accounts(inputs: Inputs, receipts: Sequence[Receipt]) -> None:
    """Every record in exactly one place, every receipt under a contract: anything else is a fault of this program."""
    contracts = {contract.name: contract for contract in inputs.contracts}
    for name in (name for contract in inputs.contracts for name in contract.datasets):
        if name == QUARANTINE:
            raise SchemaError(
                "this name is taken in the output folder", where=name, remedy="give the schema another `name`"
            )
    for receipt in receipts:
        if fault := receipt.imbalance():
            raise RuntimeError(f"{receipt.source}: {fault}")
        if unknown := set(receipt.parts) - set(contracts[receipt.contract].datasets):
            raise RuntimeError(f"{receipt.source}: data sets {sorted(unknown)} are not in the contract")


def _make_folder(path: Path) -> bool:
    if path.is_dir():
        return False
    if path.exists() or path.is_symlink():
        raise StorageError("not a folder", where=str(path), remedy="name a folder for the output")
    path.mkdir(parents=True)
    return True


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _parse(content: bytes) -> Statement | None:
    """The certificate if it is whole: a damaged one is no memory to build on."""
    try:
        statement = parse(content)
        whole = statement.to_bytes() == content and statement.recomputed_root() == statement.root
        return statement if whole else None
    except ValueError:
        return None
