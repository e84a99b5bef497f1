"""Open a certified data set for training: verify the folder, then map its shards."""

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
    """Verify an output folder and return one of its data sets.

    Args:
        path: the output folder of a run.
        split: name of a data set or of a split; not needed for a folder with one data set.
        level: how closely the shards are checked; by default only files that changed since they were last hashed.

    Raises:
        RefusedError: the folder is not certified, differs from its certificate, or has no such data set (exit 6).
    """
    clean = Path(path).resolve()
    try:
        verify(clean, level).require()
        statement = read_certificate(clean)
    except VerificationError as error:
        raise RefusedError(
            f"not certified: {error.what}",
            where=error.where,
            found=error.found,
            expected=error.expected,
            remedy=error.remedy,
        ) from None
    return certified_set(clean, statement, resolve_split(statement, clean, split))


def load_certified(
    path: str | os.PathLike[str],
    split: str | None = None,
    expect: Any = None,
    *,
    level: Level = Level.CACHED,
    backend: Literal["auto", "datasets", "rows"] = "auto",
) -> Any:
    """Verify and memory-map a certified data set; its ``CertifiedSet`` is the attribute ``certified``.

    Args:
        path: the output folder of a run.
        split: name of a data set or of a split; not needed for a folder with one data set.
        expect: the model to train (folder, config or model), which the data set must fit.
        level: how closely the shards are checked.
        backend: ``datasets`` for an HF ``Dataset``, ``rows`` for ``CertifiedRows``; ``auto`` takes ``datasets`` where
            it is installed.

    Raises:
        RefusedError: the folder is not certified, or the data set does not fit the model; the text lists all faults
            (exit 6).
    """
    certified = open_certified(path, split, level=level)
    if expect is not None:
        from pipeline.train.faults import refuse
        from pipeline.train.model_limits import fit_faults, target_of

        refuse(fit_faults(certified, target_of(expect)), where=str(certified.clean))
    if backend == "rows" or (backend == "auto" and importlib.util.find_spec("datasets") is None):
        return CertifiedRows(certified)
    return _hf_dataset(certified)


def _hf_dataset(certified: CertifiedSet) -> Any:
    """An HF data set over the same memory-mapped files.

    The library writes the order of a shuffle to a file beside the shards, and reads any file with the right name there.
    So its caching is switched off for the process, and such files go to a temporary folder.
    """
    import datasets

    from pipeline.certificate.folder import locate

    datasets.disable_caching()
    shards = [
        datasets.Dataset.from_file(str(locate(certified.clean, name)), split=certified.name)
        for name in certified.paths()
    ]
    dataset = shards[0] if len(shards) == 1 else datasets.concatenate_datasets(shards)
    if len(dataset) != certified.rows:
        raise RefusedError(
            "the shards have other rows than the certificate says",
            where=certified.name,
            found=f"{len(dataset)} rows",
            expected=f"{certified.rows} rows",
        )
    dataset.certified = certified
    return dataset
