"""Open a certified data set for training."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any, Literal

from pipeline.certificate.folder import read_certificate
from pipeline.certificate.verify import Level, verify
from pipeline.errors import RefusedError, VerificationError
from pipeline.train.rows import CertifiedRows, CertifiedSet, certified_set, resolve_split


def open_certified(
    path: str | os.PathLike[str], split: str | None = None, *, level: Level = Level.CACHED
) -> CertifiedSet:
    """Verify an output folder and return the facts of one of its data sets.

    Args:
        path: the output folder of a run.
        split: name of a data set in it, or of its split; may be left out where there is only one.
        level: how closely shards are looked at; by default only what changed since it was last hashed.

    Raises:
        RefusedError: the folder is not certified, not whole to the byte, or has no such data set (exit 6).
    """
    clean = Path(path).resolve()
    try:
        verify(clean, level).require()
        statement = read_certificate(clean)
    except VerificationError as error:
        raise RefusedError(
            f"not certified: {error.what}", where=error.where, found=error.found, expected=error.expected,
            remedy=error.remedy,
        ) from None  # fmt: skip
    return certified_set(clean, statement, resolve_split(statement, clean, split))


def load_certified(
    path: str | os.PathLike[str],
    split: str | None = None,
    expect: Any = None,
    *,
    level: Level = Level.CACHED,
    backend: Literal["auto", "datasets", "rows"] = "auto",
) -> Any:
    """Open a certified data set: memory-mapped, verified, its facts attached as ``.certified``.

    Args:
        path: the output folder of a run.
        split: name of a data set in it, or of its split; may be left out where there is only one.
        expect: the model to be trained (folder, config or model): the data set must fit it.
        level: how closely shards are looked at.
        backend: ``datasets`` for an HF ``Dataset``, ``rows`` for ``CertifiedRows``; ``auto`` takes the first where
            it is installed.

    Raises:
        RefusedError: not certified, or not fit for the model; everything found is in its text (exit 6).
    """
    facts = open_certified(path, split, level=level)
    if expect is not None:
        from pipeline.train.faults import refuse
        from pipeline.train.model_limits import fit_faults, target_of

        refuse(fit_faults(facts, target_of(expect)), where=str(facts.clean))
    if backend == "rows" or (backend == "auto" and importlib.util.find_spec("datasets") is None):
        return CertifiedRows(facts)
    return _hf_dataset(facts)


def _hf_dataset(facts: CertifiedSet) -> Any:
    """An HF data set over the very same mapped files.

    The library would keep the order of a shuffle in a file beside the shards, and take over whatever lies there under
    the right name. Its caching is therefore switched off for the process; such files go to a temporary folder.
    """
    import datasets

    from pipeline.certificate.folder import locate

    datasets.disable_caching()
    shards = [
        datasets.Dataset.from_file(str(locate(facts.clean, name)), split=facts.name) for name in facts.paths()
    ]
    whole = shards[0] if len(shards) == 1 else datasets.concatenate_datasets(shards)
    if len(whole) != facts.rows:
        raise RefusedError(
            "the shards have other rows than the certificate says",
            where=facts.name, found=f"{len(whole)} rows", expected=f"{facts.rows} rows",
        )  # fmt: skip
    whole.certified = facts
    return whole
