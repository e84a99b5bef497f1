"""Finding what a certificate names, for readers: everything is resolved from the certificate, nothing from names in
a folder."""

from __future__ import annotations

from pathlib import Path

from pipeline.certificate.failure import Code, failure
from pipeline.certificate.statement import CERTIFICATE, Statement, parse
from pipeline.errors import VerificationError

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
