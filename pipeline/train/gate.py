"""The gate: proof that a data set is made of certified rows, and the callback that refuses anything else in a
``Trainer``.

Names are not believed: ``cache_files`` of an HF data set still names the certified shards after rows were added in
memory. Every block of the table is looked at, and where the operating system tells (Linux), every buffer must lie in
a mapping of a certified file.
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

# Proof that a data set in hand is made of certified rows and nothing else.


HARMLESS = frozenset(
    {"slice", "fast_slice", "filter", "select", "drop", "remove_column", "replace_schema_metadata"}
)
"""What may have been done to a mapped table since it was opened: rows or columns left out, notes attached."""
MAPS = Path("/proc/self/maps")
RELOAD = "train on what `load_certified` returns; select, shuffle or shard it, but change nothing in it"


def assert_certified(dataset: Any) -> CertifiedSet:
    """Prove that every row of a data set is certified, and return the facts of that data set.

    Args:
        dataset: what ``load_certified`` returns, an HF ``Dataset`` over a certified folder (``load_from_disk``), a
            selection, shuffle or concatenation of such, or a mapping of them (their first is returned).

    Raises:
        RefusedError: any row could be another; the text says which block and why (exit 6).
    """
    found = list(_certified_sets(dataset))
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


def _certified_sets(dataset: Any) -> Iterator[CertifiedSet]:
    """The certified data sets behind whatever a trainer was given."""
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


def _of_table(table: pa.Table, clean: Path, names: set[str]) -> CertifiedSet:
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


# The gate in a Transformers ``Trainer`` (or TRL ``SFTTrainer``): nothing uncertified reaches a step.


LOADERS = ("get_train_dataloader", "get_eval_dataloader", "get_test_dataloader")


class CertifiedGate(TrainerCallback, ExportableState):
    """Refuses to train or evaluate on anything but certified rows that fit the model.

    As a callback alone it judges the training data before the first step, and evaluation data at its first
    prediction. ``attach`` judges every loader when it is made, before a batch is read.

    Args:
        root: root digest the data must have; None takes that of the training data. It is written to
            ``trainer_state.json``, and a checkpoint of another root is refused.
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
        """What goes to ``trainer_state.json``."""
        return {"args": {"root": self.root}, "attributes": {}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Judge training data, model and checkpoint."""
        facts = self._judge(_dataset_of(kwargs.get("train_dataloader")))
        self._same_root(state)
        faults = list(
            schedule_faults(facts, world=args.world_size, per_rank=args.per_device_train_batch_size)
        )
        faults += fit_faults(facts, target_of(kwargs["model"]), fp16=bool(args.fp16))
        refuse(faults, where=str(facts.clean))
        args.logging_nan_inf_filter = False  # it would show the last finite loss in place of a NaN
        state.stateful_callbacks[type(self).__name__] = self.state()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Judge evaluation data where the gate is not attached."""
        loader = kwargs.get("eval_dataloader")
        if loader is not None and not getattr(loader, "_cleanroom_judged", False):
            self._judge(_dataset_of(loader))
            loader._cleanroom_judged = True

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Stop at a loss that is no number."""
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
        facts = assert_certified(dataset)
        if self.root is None:
            self.root = facts.root
        if facts.root != self.root:
            raise _other_root("the data", facts.root, self.root)
        return facts

    def _same_root(self, state: Any) -> None:
        """A checkpoint must carry the root of the data it goes on with."""
        if not state.global_step:
            return
        kept = state.stateful_callbacks.get(type(self).__name__)
        kept = kept[0] if isinstance(kept, list) and kept else kept
        root = kept["args"]["root"] if isinstance(kept, dict) else None
        if root != self.root:
            raise _other_root("the checkpoint", root or "none", str(self.root))


def _dataset_of(loader: Any) -> Any:
    """The data set under a loader, however it was wrapped."""
    for _ in range(8):
        if loader is None or hasattr(loader, "dataset"):
            break
        loader = getattr(loader, "base_dataloader", None)
    if loader is None:
        raise RefusedError("no data loader to judge", remedy="give the trainer a `train_dataset`")
    return loader.dataset


def _other_root(what: str, found: str, expected: str) -> RefusedError:
    return RefusedError(
        f"{what} has another root digest than this job", found=found, expected=expected,
        remedy="begin a new job for new data, or train on the folder that the checkpoint was made with",
    )  # fmt: skip
