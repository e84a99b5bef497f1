"""The failures that verification can report, each with its remedy, and the verdict over all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pipeline.errors import VerificationError

_RERUN = "run again: a run repairs what an interrupted one left"
_REPLACE = "put the original file back, or run again with --force"
_ALTERED = "restore it from where the run put it, or run again with --force; trust nothing that was edited"


class Code(StrEnum):
    """The closed list of what can be wrong with an output folder."""

    FOLDER_MISSING = "folder_missing"
    CERTIFICATE_MISSING = "certificate_missing"
    CERTIFICATE_INVALID = "certificate_invalid"
    CERTIFICATE_ALTERED = "certificate_altered"
    ROOT_MISMATCH = "root_mismatch"
    ACCOUNTS_MISMATCH = "accounts_mismatch"
    SHARD_MISSING = "shard_missing"
    SHARD_SIZE = "shard_size"
    SHARD_ALTERED = "shard_altered"
    SHARD_CORRUPT = "shard_corrupt"
    SHARD_SCHEMA = "shard_schema"
    SHARD_ROWS = "shard_rows"
    SHARD_STATISTICS = "shard_statistics"
    POINTER_TORN = "pointer_torn"
    FOREIGN_SHARD = "foreign_shard"
    FOREIGN_FILE = "foreign_file"
    RUN_UNFINISHED = "run_unfinished"
    RUN_REFUSED = "run_refused"
    CHANGED_MEANWHILE = "changed_meanwhile"
    SIGNATURE_MISSING = "signature_missing"
    SIGNATURE_INVALID = "signature_invalid"
    SIGNATURE_STALE = "signature_stale"


REMEDIES = {
    Code.FOLDER_MISSING: "name the output folder of a run",
    Code.CERTIFICATE_MISSING: "this is not the output of a finished run: train on nothing that has no certificate; "
    "run the pipeline into it",
    Code.CERTIFICATE_INVALID: _ALTERED,
    Code.CERTIFICATE_ALTERED: _ALTERED,
    Code.ROOT_MISMATCH: _ALTERED,
    Code.ACCOUNTS_MISMATCH: _ALTERED,
    Code.SHARD_MISSING: _REPLACE,
    Code.SHARD_SIZE: _REPLACE,
    Code.SHARD_ALTERED: _REPLACE,
    Code.SHARD_CORRUPT: _REPLACE,
    Code.SHARD_SCHEMA: _REPLACE,
    Code.SHARD_ROWS: _REPLACE,
    Code.SHARD_STATISTICS: _REPLACE,
    Code.POINTER_TORN: _RERUN,
    Code.FOREIGN_SHARD: "remove it: a loader that reads the folder would take its rows; the next run removes shards "
    "that an interrupted one left",
    Code.FOREIGN_FILE: "remove it, or keep it elsewhere",
    Code.RUN_UNFINISHED: "wait for the run that is writing, or run again if none is",
    Code.RUN_REFUSED: "look at it with `quarantine show`; the certificate is that of the run before",
    Code.CHANGED_MEANWHILE: "verify again when no run is writing",
    Code.SIGNATURE_MISSING: "sign it with `sign`, or run with --sign",
    Code.SIGNATURE_INVALID: "sign it again with a trusted key, or name the right --trusted-keys",
    Code.SIGNATURE_STALE: "sign it again: the signature is of another certificate",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One fault of an output folder.

    Attributes:
        code: the kind of fault.
        where: file relative to the folder, or part of the certificate; "" for the folder itself.
        found, expected: in words.
        remedy: what to do.
    """

    code: Code
    where: str
    found: str = ""
    expected: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        words = [f"{self.code}: {self.where}" if self.where else str(self.code)]
        words += [
            f"{name} {value}" for name, value in (("found", self.found), ("expected", self.expected)) if value
        ]
        return ", ".join(words)


def failure(code: Code, where: str, found: str = "", expected: str = "") -> Failure:
    """A failure with the remedy of its code."""
    return Failure(code, where, found, expected, REMEDIES[code])


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification.

    Attributes:
        folder, level: the folder, and how closely it was verified.
        root: root digest that the certificate states; "" without a certificate.
        failures: all failures; empty when the folder equals what its certificate states.
        notes: findings that count as failures only under ``strict``.
        shards, rows, bytes: totals of the certificate's file list, quarantine included.
        hashed: bytes that this verification read and hashed; the cache knew the digests of the others.
        signers: ids of the trusted keys with a valid signature.
    """

    folder: str
    level: str
    root: str = ""
    failures: tuple[Failure, ...] = ()
    notes: tuple[Failure, ...] = ()
    shards: int = 0
    rows: int = 0
    bytes: int = 0
    hashed: int = 0
    signers: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the folder may be trained on."""
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {"ok": self.ok, **asdict(self)}

    def require(self) -> None:
        """Raise ``VerificationError`` (exit 5) with the failures, unless there is none."""
        if self.ok:
            return
        shown = [str(item) for item in self.failures[:20]]
        if len(self.failures) > len(shown):
            shown.append(f"and {len(self.failures) - len(shown)} more")
        raise VerificationError(
            f"not what its certificate says ({len(self.failures)} failures)",
            where=self.folder,
            found="\n         ".join(shown),
            remedy="; ".join(dict.fromkeys(item.remedy for item in self.failures)),
        )
