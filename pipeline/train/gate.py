"""The gate: the proof that a data set holds certified rows only, and a ``Trainer`` callback that refuses other data.

File names prove nothing: ``cache_files`` of an HF data set still names the certified shards after rows were added in
memory. So the gate checks every block of the table, and on Linux also that every buffer lies in the memory map of a
certified file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from transformers.trainer_callback import ExportableState, TrainerCallback

from pipeline.certificate.folder import read_certificate
from pipeline.errors import RefusedError
from pipeline.train.faults import refuse
from pipeline.train.model_limits import fit_faults, schedule_faults, target_of
from pipeline.train.rows import PAGES, CertifiedRows, CertifiedSet

# The proof.


HARMLESS = frozenset(
    {"slice", "fast_slice", "filter", "select", "drop", "remove_column", "replace_schema_metadata"}
)
"""Operations on a mapped table that leave its values unchanged: they omit rows or columns, or change metadata."""
MAPS = Path("/proc/self/maps")
RELOAD = "train on what `load_certified` returns; select, shuffle or shard it, but change nothing in it"


def assert_certified(dataset: Any) -> CertifiedSet:
    """Prove that every row of a data set is certified, and return the certified data set.

    Args:
        dataset: the result of ``load_certified``, an HF ``Dataset`` over a certified folder (``load_from_disk``), a
            selection, shuffle or concatenation of such, or a mapping of them (the first is returned).

    Raises:
        RefusedError: a row may differ from the certified one; the text names the block and the cause (exit 6).
    """
    found = list(_certified_sets(dataset))
    if not found:
        raise RefusedError("an empty collection of data sets is nothing to train on", remedy=RELOAD)
    first = found[0]
    for other in found[1:]:
        if (other.root, other.contract["digest"]) != (first.root, first.contract["digest"]):
            raise RefusedError(
                "rows of two certificates or schemas in one job",
                where=str(other.clean),
                found=other.name,
                expected=first.name,
                remedy="put both into one raw folder under one schema and run the pipeline on it",
            )
    return first


def _certified_sets(dataset: Any) -> Iterator[CertifiedSet]:
    """The certified data sets behind a data set of a trainer."""
    if isinstance(dataset, CertifiedRows):
        yield _of_table(dataset.table, dataset.certified.clean, {*dataset.certified.paths()})
    elif isinstance(dataset, Mapping):
        for part in dataset.values():
            yield from _certified_sets(part)
    elif hasattr(dataset, "_format_type") and hasattr(dataset, "data"):
        yield from _of_hf(dataset)
    elif type(dataset).__module__.startswith("torch.utils.data") and hasattr(dataset, "datasets"):
        for part in dataset.datasets:
            yield from _certified_sets(part)
    elif type(dataset).__module__.startswith("torch.utils.data") and hasattr(dataset, "dataset"):
        yield from _certified_sets(dataset.dataset)
    else:
        raise _uncertified(f"a {type(dataset).__name__}", "a data set of certified shards")


def _of_hf(dataset: Any) -> Iterator[CertifiedSet]:
    """The certified data sets of an HF data set: check its format, then each block of its table."""
    if dataset._format_type == "custom":
        raise _uncertified(
            "a custom transform (`set_transform`, `with_transform`)", "rows as they are certified"
        )
    blocks = getattr(dataset.data, "blocks", [[dataset.data]])
    for index, tables in enumerate(blocks):
        if len(tables) != 1:
            raise _uncertified(
                f"block {index}: columns of {len(tables)} tables side by side", "one certified table"
            )
        (block,) = tables
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


def _of_table(table: pa.Table, clean: Path, names: set[str]) -> CertifiedSet:
    """The certified data set of a table, which must come from these shards of an output folder."""
    from pipeline.train.load import open_certified

    statement = read_certificate(clean)
    for dataset, entry in statement.datasets.items():
        if dataset.endswith(PAGES) or not names <= {f"{dataset}/data/{part}" for part in entry["parts"]}:
            continue
        certified = open_certified(clean, dataset)
        _check_mapped(table, {str(clean / name) for name in names})
        return certified
    raise _uncertified(", ".join(sorted(names))[:200], "shards that the certificate names as training data")


def _clean_of(path: Path) -> Path:
    """The output folder of a shard, ``<clean>/<data set>/data/part-….arrow``."""
    if len(path.parents) > 2 and (path.parents[2] / "certificate.json").is_file():
        return path.parents[2]
    raise _uncertified(f"rows of {path.name}, which lies in no certified folder", "rows of a certified shard")


def _check_mapped(table: pa.Table, files: set[str]) -> None:
    """Raise ``RefusedError`` unless every buffer of the table lies in the memory map of one of the files."""
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


# The callback for a Transformers ``Trainer`` or a TRL ``SFTTrainer``.


LOADERS = ("get_train_dataloader", "get_eval_dataloader", "get_test_dataloader")


class CertifiedGate(TrainerCallback, ExportableState):
    """Allows a trainer to train and evaluate on certified rows only, and only where they fit the model.

    As a callback it checks the training data before the first step and evaluation data at the first prediction. With
    ``attach`` it checks every data loader when the trainer makes it, before the first batch.

    Args:
        root: the required root digest; None takes that of the training data. It is written to ``trainer_state.json``,
            and a checkpoint with another root is refused.
    """

    def __init__(self, root: str | None = None) -> None:
        self.root = root

    def attach(self, trainer: Any) -> CertifiedGate:
        """Guard a trainer: its callbacks, and its train, eval and test loaders."""
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)
        for name in LOADERS:
            setattr(trainer, name, self._guarded(getattr(trainer, name)))
        return self

    def state(self) -> dict[str, Any]:
        """The entry of the gate in ``trainer_state.json``."""
        return {"args": {"root": self.root}, "attributes": {}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Check training data, model and checkpoint."""
        certified = self._judge(_dataset_of(kwargs.get("train_dataloader")))
        self._check_checkpoint(state)
        faults = list(
            schedule_faults(certified, world=args.world_size, per_rank=args.per_device_train_batch_size)
        )
        faults += fit_faults(certified, target_of(kwargs["model"]), fp16=bool(args.fp16))
        refuse(faults, where=str(certified.clean))
        args.logging_nan_inf_filter = False  # the filter hides a NaN behind the last finite loss
        state.stateful_callbacks[type(self).__name__] = self.state()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Check evaluation data, for a gate that is not attached."""
        loader = kwargs.get("eval_dataloader")
        if loader is not None and not getattr(loader, "_cleanroom_judged", False):
            self._judge(_dataset_of(loader))
            loader._cleanroom_judged = True

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Stop at a loss that is NaN."""
        loss = (logs or {}).get("loss")
        if isinstance(loss, float) and loss != loss:
            raise RefusedError(
                "the loss is NaN",
                where=f"step {state.global_step}",
                remedy="`python -m pipeline explain` tells data faults from set-up faults",
            )

    def _guarded(self, make: Any) -> Any:
        @functools.wraps(make)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            loader = make(*args, **kwargs)
            self._judge(_dataset_of(loader))
            return loader

        return guarded

    def _judge(self, dataset: Any) -> CertifiedSet:
        certified = assert_certified(dataset)
        if self.root is None:
            self.root = certified.root
        if certified.root != self.root:
            raise _other_root("the data", certified.root, self.root)
        return certified

    def _check_checkpoint(self, state: Any) -> None:
        """Raise ``RefusedError`` where a resumed checkpoint has another root digest than the data."""
        if not state.global_step:
            return
        kept = state.stateful_callbacks.get(type(self).__name__)
        kept = kept[0] if isinstance(kept, list) and kept else kept
        root = kept["args"]["root"] if isinstance(kept, dict) else None
        if root != self.root:
            raise _other_root("the checkpoint", root or "none", str(self.root))


def _dataset_of(loader: Any) -> Any:
    """The data set of a data loader, also of a wrapped one."""
    for _ in range(8):
        if loader is None or hasattr(loader, "dataset"):
            break
        loader = getattr(loader, "base_dataloader", None)
    if loader is None:
        raise RefusedError("no data loader to judge", remedy="give the trainer a `train_dataset`")
    return loader.dataset


def _other_root(what: str, found: str, expected: str) -> RefusedError:
    return RefusedError(
        f"{what} has another root digest than this job",
        found=found,
        expected=expected,
        remedy="begin a new job for new data, or train on the folder that the checkpoint was made with",
    )
