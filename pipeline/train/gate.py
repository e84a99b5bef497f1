"""The gate in a Transformers ``Trainer`` (or TRL ``SFTTrainer``): nothing uncertified reaches a step."""

from __future__ import annotations

import functools
from typing import Any

from transformers.trainer_callback import ExportableState, TrainerCallback

from pipeline.errors import RefusedError
from pipeline.train.facts import Certified
from pipeline.train.fault import refuse
from pipeline.train.fit import fit, schedule
from pipeline.train.proof import assert_certified
from pipeline.train.target import target_of

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
        faults = list(schedule(facts, world=args.world_size, per_rank=args.per_device_train_batch_size))
        faults += fit(facts, target_of(kwargs["model"]), fp16=bool(args.fp16))
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

    def _judge(self, dataset: Any) -> Certified:
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
