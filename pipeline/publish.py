"""Publish a run: the lock on the output folder, the quarantine budget, and the order of writing.

    with CleanFolder(path) as folder:              # BusyError (exit 75) when another run holds the folder
        receipts = folder.find(memo)               # receipts of an unchanged source; None: it must be processed
        ...                                        # process_partition(...) writes below folder.staging
        outcome = folder.publish(inputs, receipts) # GateError (exit 3): nothing is published

``publish`` checks the budget first. Then it writes in this order: shards, pointers, and the certificate last. At the
end it removes shards that neither the new nor the previous certificate names; those of the previous one move to
``.previous/`` for readers that still use it. When a run is killed at any point, the last certificate still verifies, or
the gate refuses the folder and the next run repairs it. No shard is opened for writing once it has its name, so hard
links to shards keep their content.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

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
    make_statement,
    parse,
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


def check_budget(contracts: Sequence[Contract], receipts: Sequence[Receipt]) -> None:
    """Raise ``GateError`` where a schema is over its quarantine budget, or no record is certified."""
    for contract in contracts:
        counts = totals([receipt for receipt in receipts if receipt.contract == contract.name])
        certified, quarantined = counts["certified"], counts["quarantined"]
        records = certified + quarantined
        if not records:
            continue
        if not certified:
            raise _refusal("no record can be trained on", contract, counts, "at least one certified record")
        if quarantined > Fraction(str(contract.max_rate)) * records:
            limit = f"at most {contract.max_rate:.2%} (`quarantine: max_rate:` or --max-quarantine)"
            raise _refusal("over the quarantine budget", contract, counts, limit)
    if not sum(receipt.certified for receipt in receipts):
        raise GateError(
            "no record was read that can be trained on",
            found="0 certified records",
            expected="at least one",
            remedy="put records into the files, or declare the sheet that has them under `read: sheets:`",
        )


def _refusal(what: str, contract: Contract, counts: Mapping[str, Any], expected: str) -> GateError:
    certified, quarantined = counts["certified"], counts["quarantined"]
    records = certified + quarantined
    share, reasons = quarantined / records, _commonest(counts["reasons"])
    return GateError(
        what,
        where=contract.name,
        found=f"{quarantined} of {records} records quarantined ({share:.2%}): {reasons}",
        expected=expected,
        remedy="`quarantine show` lists the records with their reasons; nothing was published",
    )


def _commonest(reasons: Mapping[str, int]) -> str:
    """The five most frequent reasons with their counts."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{slug} {count}" for slug, count in ordered[:5])


WORTH_A_TICK = 2**27
"""Size of new shards, in bytes, above which waiting one tick of the file system's clock is faster than hashing them
again in the next run. After the wait, their times differ from those of any later edit."""


@dataclass(frozen=True, slots=True)
class PublishOutcome:
    """The result of a publication.

    Attributes:
        statement: the certificate now in the folder.
        unchanged: whether the folder had the same certificate before, to the byte.
        written, reused: number of new shards, and of shards that were published before.
        removed: number of shards that left their folder.
    """

    statement: Statement
    unchanged: bool
    written: int
    reused: int
    removed: int


class CleanFolder:
    """An output folder, locked for one run.

    Args:
        path: the folder; created when it does not exist, and removed again when the run publishes nothing.
        fsync: whether each step is forced to the disk before the next; switch it off for scratch runs only.
        force: whether the run reuses nothing of the previous run.

    Attributes:
        staging: an empty folder on the same file system for the shards of the run, in the layout of the output folder
            (``<dataset>/data``, ``quarantine/<schema>``).
    """

    def __init__(self, path: Path, *, fsync: bool = True, force: bool = False) -> None:
        self.path, self._fsync, self._force = path, fsync, force
        self.staging = path / STAGING
        self._certificate = b""
        self._created = False
        self._intact: dict[str, bool] = {}
        self._cache = HashCache(path)
        self._stack = ExitStack()

    def __enter__(self) -> CleanFolder:
        with ExitStack() as stack:
            with storage_errors(self.path):
                self._created = _create_folder(self.path)
            stack.enter_context(FolderLock(self.path))
            stack.callback(self._leave)
            self._certificate = _read(self.path / CERTIFICATE)
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
        """The certificate in the folder before the run; None where there is none or it is damaged."""
        return _parse(self._certificate)

    @cached_property
    def _known(self) -> dict[str, list[Receipt]]:
        known: dict[str, list[Receipt]] = {}
        for receipt in self.previous.receipts() if self.previous is not None and not self._force else ():
            known.setdefault(receipt.memo, []).append(receipt)
        return known

    def find(self, memo: str) -> tuple[Receipt, ...] | None:
        """The receipts of a source with this memo key, in order; None where there is none or a shard is not intact.

        A shard that changed since it was last hashed is hashed again, so an edited shard is never reused.
        """
        receipts = self._known.get(memo)
        if receipts is None:
            return None
        if memo not in self._intact:
            self._intact[memo] = all(
                self._is_intact(name, part) for receipt in receipts for name, part in receipt.files().items()
            )
        return tuple(receipts) if self._intact[memo] else None

    def _is_intact(self, name: str, part: Part) -> bool:
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
        """Publish the certificate in the folder again, for a run without changes.

        As ``publish``, it repairs the pointers and removes shards that no certificate names.

        Args:
            digest: sha256 of the certificate that this program made of the same inputs.
            agrees: whether a certificate has the inputs that the run found.

        Returns None, and changes nothing, where the folder holds another certificate or a shard is not intact.
        """
        if sha256(self._certificate) != digest:
            return None
        statement = parse(self._certificate)
        if not agrees(statement) or not all(self._is_intact(*file) for file in statement.files.items()):
            return None
        self.previous = statement
        with storage_errors(self.path), uninterrupted():
            return self._write_all(statement, self._certificate, ())

    def publish(
        self, inputs: Inputs, receipts: Sequence[Receipt], keys: Sequence[Path] = ()
    ) -> PublishOutcome:
        """Publish a run.

        Args:
            inputs: the content of the certificate apart from the receipts.
            receipts: of every partition, new and reused, in any order.
            keys: private keys that sign the certificate.

        Raises:
            GateError: a schema is over its budget, or no record is certified; ``.refused/`` keeps the quarantine.
            BusyError: the certificate changed although the folder is locked (a file system without real locks).
            StorageError: the disk is full or the folder read-only.
            RuntimeError: counts do not add up (a fault of this program).
        """
        _check_accounts(inputs, receipts)
        try:
            check_budget(inputs.contracts, receipts)
        except GateError:
            with storage_errors(self.path):
                keep_refused(self.path, self.staging, receipts)
            raise
        with storage_errors(self.path):
            statement = make_statement(inputs, receipts, self._empty_shards(inputs, receipts))
            with uninterrupted():
                return self._write_all(statement, statement.to_bytes(), keys)

    def _write_all(self, statement: Statement, content: bytes, keys: Sequence[Path]) -> PublishOutcome:
        files = statement.files
        moved = move_into_place(self.path, self.staging, files, self._is_intact, fsync=self._fsync)
        if _read(self.path / CERTIFICATE) != self._certificate:
            raise BusyError(
                "the certificate changed while this run held the folder",
                where=str(self.path),
                remedy="make sure that one run at a time writes here; run again",
            )
        for name, pointer in pointers(datasets_of(statement)).items():
            self._write(name, pointer)
        if keys:
            self._write(ENVELOPE, envelope(content, keys, _read(self.path / ENVELOPE)))
        changed = self._write(CERTIFICATE, content)
        if is_stale(self.path / ENVELOPE, content):
            (self.path / ENVELOPE).unlink()
        earlier = set(self.previous.files) if self.previous else set()
        removed = collect_garbage(self.path, set(files), earlier, set(statement.datasets), changed=changed)
        if sum(files[name].bytes for name in moved) > WORTH_A_TICK:
            time.sleep(2 * TICK_NS / 1e9)  # the cache accepts no file that was moved just now
        for name in moved:
            self._cache.learn_written(name, files[name].sha256, files[name].mtime_ns)
        self._cache.save()
        self._certificate, before = content, self.previous
        self.previous = statement
        remove_tree(self.path / REFUSED)
        return PublishOutcome(
            statement, before is not None and not changed, len(moved), len(files) - len(moved), removed
        )

    def _write(self, name: str, content: bytes) -> bool:
        return write_atomic(self.path / name, content, fsync=self._fsync, staging=self.staging)

    def _empty_shards(self, inputs: Inputs, receipts: Sequence[Receipt]) -> dict[str, Part]:
        """A shard without rows for each data set without rows, so that it can be opened."""
        from pipeline.shards.writer import empty_shard

        filled = {name for receipt in receipts for name, parts in receipt.parts.items() if parts}
        return {
            name: empty_shard(self.staging / data_folder(name), schema, fsync=self._fsync)
            for contract in inputs.contracts
            for name, schema in contract.datasets.items()
            if name not in filled
        }

    def _stage(self) -> Path:
        """A new staging folder: a worker that outlives a killed run writes to a folder that no longer exists."""
        remove_tree(self.path / STAGING)
        (self.path / STAGING).mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="run-", dir=self.path / STAGING))

    def _leave(self) -> None:
        if self._created and not any(self.path.iterdir()):
            self.path.rmdir()


def _check_accounts(inputs: Inputs, receipts: Sequence[Receipt]) -> None:
    """Check that each record is in exactly one place and each data set in its contract; raises ``RuntimeError``."""
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


def _create_folder(path: Path) -> bool:
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
    """The certificate, None where it is damaged."""
    try:
        statement = parse(content)
        intact = statement.to_bytes() == content and statement.recomputed_root() == statement.root
        return statement if intact else None
    except ValueError:
        return None
