"""Proof that a data set in hand is made of certified rows and nothing else.

Names are not believed: ``cache_files`` of an HF data set still names the certified shards after rows were added in
memory. Every block of the table is looked at, and where the operating system tells (Linux), every buffer must lie in
a mapping of a certified file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.certificate.folder import read_certificate
from pipeline.errors import RefusedError
from pipeline.train.facts import PAGES, Certified
from pipeline.train.rows import CertifiedRows

HARMLESS = frozenset(
    {"slice", "fast_slice", "filter", "select", "drop", "remove_column", "replace_schema_metadata"}
)
"""What may have been done to a mapped table since it was opened: rows or columns left out, notes attached."""
MAPS = Path("/proc/self/maps")
RELOAD = "train on what `load_certified` returns; select, shuffle or shard it, but change nothing in it"


def assert_certified(dataset: Any) -> Certified:
    """Prove that every row of a data set is certified, and return the facts of that data set.

    Args:
        dataset: what ``load_certified`` returns, an HF ``Dataset`` over a certified folder (``load_from_disk``), a
            selection, shuffle or concatenation of such, or a mapping of them (their first is returned).

    Raises:
        RefusedError: any row could be another; the text says which block and why (exit 6).
    """
    found = list(_facts(dataset))
    if not found:
        raise RefusedError("an empty collection of data sets is nothing to train on", remedy=RELOAD)
    first = found[0]
    for other in found[1:]:
        if (other.root, other.contract["digest"]) != (first.root, first.contract["digest"]):
            raise RefusedError(
                "rows of two certificates or schemas in one job",
                where=str(other.clean), found=other.name, expected=first.name,
                remedy="put both into one raw folder under one schema and run the pipeline on it",
            )  # fmt: skip
    return first


def _facts(dataset: Any) -> Iterator[Certified]:
    """The certified data sets behind whatever a trainer was given."""
    if isinstance(dataset, CertifiedRows):
        yield _of_table(dataset.table, dataset.certified.clean, {*dataset.certified.paths()})
    elif isinstance(dataset, Mapping):
        for part in dataset.values():
            yield from _facts(part)
    elif hasattr(dataset, "_format_type") and hasattr(dataset, "data"):
        yield from _of_hf(dataset)
    elif type(dataset).__module__.startswith("torch.utils.data") and hasattr(dataset, "datasets"):
        for part in dataset.datasets:
            yield from _facts(part)
    elif type(dataset).__module__.startswith("torch.utils.data") and hasattr(dataset, "dataset"):
        yield from _facts(dataset.dataset)
    else:
        raise _uncertified(f"a {type(dataset).__name__}", "a data set of certified shards")


def _of_hf(dataset: Any) -> Iterator[Certified]:
    """An HF data set: the format, then each block of its table."""
    if dataset._format_type == "custom":
        raise _uncertified(
            "a custom transform (`set_transform`, `with_transform`)", "rows as they are certified"
        )
    blocks = getattr(dataset.data, "blocks", [[dataset.data]])
    for index, beside in enumerate(blocks):
        if len(beside) != 1:
            raise _uncertified(
                f"block {index}: columns of {len(beside)} tables side by side", "one certified table"
            )
        (block,) = beside
        if type(block).__name__ != "MemoryMappedTable":
            raise _uncertified(
                f"block {index}: {block.num_rows} rows in memory ({type(block).__name__})",
                "rows mapped from a certified shard",
            )
        if changes := [step[0] for step in block.replays if step[0] not in HARMLESS]:
            raise _uncertified(
                f"block {index}: changed by {', '.join(changes)}", "rows as they are certified"
            )
        path = Path(block.path).resolve()
        clean = _clean_of(path)
        yield _of_table(block.table, clean, {str(path.relative_to(clean))})


def _of_table(table: pa.Table, clean: Path, names: set[str]) -> Certified:
    """A table said to come from some shards of an output folder."""
    from pipeline.train.load import open_certified

    statement = read_certificate(clean)
    for dataset, facts in statement.datasets.items():
        if dataset.endswith(PAGES) or not names <= {f"{dataset}/data/{part}" for part in facts["parts"]}:
            continue
        certified = open_certified(clean, dataset)
        _mapped_only(table, {str(clean / name) for name in names})
        return certified
    raise _uncertified(", ".join(sorted(names))[:200], "shards that the certificate names as training data")


def _clean_of(path: Path) -> Path:
    """The output folder a shard lies in: ``<clean>/<data set>/data/part-….arrow``."""
    if len(path.parents) > 2 and (path.parents[2] / "certificate.json").is_file():
        return path.parents[2]
    raise _uncertified(f"rows of {path.name}, which lies in no certified folder", "rows of a certified shard")


def _mapped_only(table: pa.Table, files: set[str]) -> None:
    """Every buffer of the table lies in a mapping of one of the files."""
    if not MAPS.exists():
        return
    ranges = []
    for line in MAPS.read_text().splitlines():
        span, _, rest = line.partition(" ")
        if rest.split(maxsplit=4)[-1] in files:
            start, _, end = span.partition("-")
            ranges.append((int(start, 16), int(end, 16)))
    for name in table.column_names:
        for chunk in table[name].chunks:
            for buffer in _buffers(chunk):
                if not any(
                    start <= buffer.address and buffer.address + buffer.size <= end for start, end in ranges
                ):
                    raise _uncertified(
                        f"column {name}: values in memory", "values mapped from a certified shard"
                    )


def _buffers(array: pa.Array) -> Iterator[pa.Buffer]:
    return (buffer for buffer in array.buffers() if buffer is not None and buffer.size)


def _uncertified(found: str, expected: str) -> RefusedError:
    return RefusedError("not certified", found=found, expected=expected, remedy=RELOAD)
