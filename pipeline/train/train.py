"""A training job on one page: gate, preflight, model, steps, checkpoints.

python -m pipeline train clean --recipe layoutlmv3 --model /models/layoutlmv3-base
torchrun --nproc-per-node 8 -m pipeline train clean --recipe llama-lora --model /models/llama
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import RefusedError
from pipeline.train.batch_dump import BatchDump
from pipeline.train.batches import FILLER, Batches, Budget, Step
from pipeline.train.checkpoint import Place, checkpoints, load_weights, prune, resume, save
from pipeline.train.collate import Minibatch, RowCollator, TaskLoss
from pipeline.train.model import build
from pipeline.train.progress import LossWatch, Metrics, Seen
from pipeline.train.ranks import Ranks, joined, replicated
from pipeline.train.recipe import Optimizer, Recipe
from pipeline.train.rows import CertifiedRows, CertifiedSet, Int64s

# AdamW over what is trained, and the learning rate by step.


def adamw(parameters: Iterable[torch.nn.Parameter], told: Optimizer, *, fused: bool) -> torch.optim.AdamW:
    """AdamW; vectors (biases, norms) are not decayed."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": told.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=told.rate, betas=told.betas, eps=told.epsilon, fused=fused,
    )  # fmt: skip


def learning_rate(told: Optimizer, step: int, steps: int) -> float:
    """Learning rate of a step, counted from 0: it rises over the warm-up, then follows the schedule to 0."""
    warm = round(told.warmup * steps)
    if step < warm:
        return told.rate * (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    if told.schedule == "linear":
        return told.rate * (1 - done)
    if told.schedule == "cosine":
        return told.rate * 0.5 * (1 + math.cos(math.pi * done))
    return told.rate


# A training job on one page: gate → preflight → model → steps → checkpoints.


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be trained, judged fit by ``pipeline.train.preflight`` before.

    Attributes:
        facts: the certified data set.
        recipe: how.
        out: folder for checkpoints, metrics and plots.
        device: "cuda"; "cpu" for tests.
        random_weights: whether the model starts from its config alone.
        go_on: whether the last checkpoint in ``out`` is taken up.
        dump: whether the last batches of each rank are kept on the disk.
    """

    facts: CertifiedSet
    recipe: Recipe
    out: Path
    device: str = "cuda"
    random_weights: bool = False
    go_on: bool = False
    dump: bool = False


@dataclass(frozen=True, slots=True)
class Trained:
    """What a job gave: updates done, every loss logged, the last checkpoint and the last line of metrics."""

    steps: int
    losses: tuple[tuple[int, float], ...]
    checkpoint: Path
    metrics: dict[str, Any]


def budget_of(facts: CertifiedSet, recipe: Recipe) -> Budget:
    """Size of micro-batches: the recipe's, within what the model and the data have."""
    limit = facts.limits.get("max_tokens") or facts.number("input_ids", "longest") or 1
    image = facts.limits.get("image") if facts.pages else None
    patches = (
        (int(image["side"]) // 16) ** 2 + 1 if image and facts.limits.get("family") == "layoutlmv3" else 0
    )
    told = recipe.batch
    return Budget(
        tokens=told.tokens, samples=told.samples, micro_batches=told.micro_batches, longest=int(limit),
        multiple=told.multiple, overhead=patches, pad_to_longest=told.pad_to_longest,
    )  # fmt: skip


def train(job: Job) -> Trained:
    """Run a job to its end.

    Raises:
        RefusedError: the ranks disagree, or a checkpoint is of other data.
        DivergedError: a loss or gradient is no finite number; the samples are named.
    """
    with joined(job.device) as ranks:
        ranks.same("root digest", job.facts.root)
        return Loop(job, ranks).run()


class Loop:
    """One rank of a job."""

    def __init__(self, job: Job, ranks: Ranks) -> None:
        recipe, cuda = job.recipe, ranks.device.type == "cuda"
        self.job, self.ranks, self.recipe = job, ranks, recipe
        self.rows = CertifiedRows(job.facts)
        self.collator = RowCollator(self.rows, causal=recipe.task == "causal_lm", pin=cuda)
        self.order = Batches(self.collator.lengths, budget_of(job.facts, recipe), recipe.run.seed)
        self.amp = torch.bfloat16 if recipe.precision == "bf16" else None
        model = build(recipe, job.facts, random_weights=job.random_weights, device=ranks.device)
        self.model = model.train()
        pixels = self.amp if self.amp and recipe.model.weights == "bfloat16" else torch.float32
        self.loss: Any = TaskLoss(model, recipe.task, self.collator.normalization, pixels)
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = adamw(self.trained, recipe.optimizer, fused=cuda)
        self.start = self._resumed()
        if ranks.world > 1:
            self._freeze_unreached()
            self.loss = replicated(self.loss, ranks)
        self.watch = LossWatch(self.names)
        self.steps = self._length()

    def run(self) -> Trained:
        """Step after step; the card computes one while the next is laid out."""
        with ExitStack() as stack:
            metrics = Metrics(self.job.out, self.ranks.device, self._unit()) if self.ranks.first else None
            dump = self._dump() if self.job.dump else None
            for open_file in (metrics, dump):
                if open_file is not None:
                    stack.callback(open_file.close)
            return self._steps(metrics, dump)

    def _steps(self, metrics: Metrics | None, dump: BatchDump | None) -> Trained:
        told, place, saved = self.recipe.run, self.start, self.job.out
        line: dict[str, Any] = {}
        for epoch, index, step in self.order.follow(place.epoch, place.index):
            if place.step >= self.steps:
                break
            if dump is not None:
                dump.write(place.step, step.of_rank(self.ranks.rank, self.ranks.world), step.width)
            self.update(place.step, step)
            place = Place(place.step + 1, epoch, index + 1, place.root, place.dataset, place.order)
            last = place.step == self.steps
            for seen in self.watch.read(keep=0 if last or place.step % told.save_every == 0 else 1):
                line = self._log(metrics, seen) or line
            if last or place.step % told.save_every == 0:
                saved = self._save(place, line)
        return Trained(place.step, tuple(metrics.losses) if metrics else (), saved, line)

    def update(self, number: int, step: Step) -> None:
        """One update of the weights from this rank's micro-batches, averaged over all ranks."""
        mine = step.of_rank(self.ranks.rank, self.ranks.world)
        labels = self.collator.supervised(step.rows.ravel())
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe.optimizer, number, self.steps)
        total = torch.zeros((), device=self.ranks.device)
        for k, rows in enumerate(mine):
            total += self._backward(number, k, rows, step, labels, last=k == len(mine) - 1)
        if self.ranks.world > 1:
            torch.distributed.all_reduce(total)
        norm = torch.nn.utils.clip_grad_norm_(self.trained, self.recipe.optimizer.clip or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.watch.push(number, total / labels, norm, step)

    def _backward(
        self, number: int, k: int, rows: Int64s, step: Step, labels: int, *, last: bool
    ) -> torch.Tensor:
        """Add the gradient of one micro-batch; returns its loss summed."""
        batch = self._batch(rows, step)
        # Dropout depends on the micro-batch alone: the same after a resume, and on any number of ranks.
        micro = self.ranks.rank + k * self.ranks.world
        _seed(self.recipe.run.seed, number, micro, self.ranks.device)
        quiet = self.ranks.world > 1 and not last
        with (
            self.loss.no_sync() if quiet else nullcontext(),
            torch.autocast(self.ranks.device.type, self.amp) if self.amp else nullcontext(),
        ):
            summed = self.loss(batch.tensors)
            (summed * (self.ranks.world / labels)).backward()
        return summed.detach()  # type: ignore[no-any-return]

    def _batch(self, rows: Int64s, step: Step) -> Minibatch:
        return self.collator.batch(rows, step.width, int(step.samples()[0])).to(self.ranks.device)

    def _freeze_unreached(self) -> None:
        """Freeze parameters that no loss reaches (relative position biases, an unused visual part): every rank would
        wait for their gradients. They are not updated either way."""
        first = self.order.epoch(0)[0]
        rows = first.samples()[:1]
        with torch.autocast(self.ranks.device.type, self.amp) if self.amp else nullcontext():
            self.loss(self.collator.batch(rows, first.width).to(self.ranks.device).tensors).backward()
        for parameter in self.trained:
            parameter.requires_grad_(parameter.grad is not None)
            parameter.grad = None

    def _log(self, metrics: Metrics | None, seen: Seen) -> dict[str, Any] | None:
        """Count a step whose loss is known; every few of them are told of."""
        if metrics is None:
            return None
        rows = seen.samples.samples()
        metrics.count(self.collator.tokens(rows), seen.samples.rows.size * seen.samples.width, len(rows))
        number = seen.step + 1
        if number not in (1, self.steps) and number % self.recipe.run.log_every:
            return None
        line = metrics.log(
            number, seen.loss, seen.norm, learning_rate(self.recipe.optimizer, seen.step, self.steps)
        )
        print("  ".join(f"{name} {value:.5g}" for name, value in line.items()), flush=True)  # noqa: T201
        return line

    def _save(self, place: Place, line: dict[str, Any]) -> Path:
        path = self.job.out / f"checkpoint-{place.step}"
        if self.ranks.first:
            save(
                self.job.out,
                place,
                self.model,
                self.optimizer,
                {"recipe": self.recipe.to_json(), "last": line},
            )
            prune(self.job.out, self.recipe.run.keep)
        self.ranks.wait()
        return path

    def _resumed(self) -> Place:
        """The place to begin at: the last checkpoint's, or the beginning."""
        facts = self.job.facts
        found = checkpoints(self.job.out) if self.job.go_on else []
        if not found:
            return Place(0, 0, 0, facts.root, facts.name, self.order.digest)
        place = resume(found[-1], facts.root, facts.name, self.order.digest)
        load_weights(found[-1], self.model, self.optimizer, self.ranks.device)
        return place

    def _length(self) -> int:
        told = self.recipe.run
        if told.steps is not None:
            return told.steps
        return sum(len(self.order.epoch(epoch)) for epoch in range(told.epochs))

    def _dump(self) -> BatchDump:
        facts = self.job.facts
        head = {"clean": str(facts.clean), "dataset": facts.name, "root": facts.root, "rank": self.ranks.rank,
                "recipe": self.recipe.to_json(), "random_weights": self.job.random_weights}  # fmt: skip
        return BatchDump(self.job.out / f"batches-rank{self.ranks.rank}.jsonl", head)

    def _unit(self) -> str:
        return "pages" if self.job.facts.kind == "layout" else "samples"

    def names(self, rows: Int64s) -> list[str]:
        """Sample ids of some rows, at most 64."""
        return [self.rows[int(row)]["sample_id"] for row in rows.ravel()[:64] if row != FILLER]


def _seed(seed: int, step: int, micro: int, device: torch.device) -> None:
    value = (seed * 1_000_003 + step) * 1_009 + micro
    if device.type == "cuda":
        torch.cuda.manual_seed(value)
    else:
        torch.manual_seed(value)


def check_world(recipe: Recipe, world: int) -> None:
    """Raise ``RefusedError`` where the ranks cannot share a step's micro-batches evenly."""
    micro = recipe.batch.micro_batches
    if micro % world:
        raise RefusedError(
            "the ranks cannot share a step evenly", found=f"{world} ranks, {micro} micro-batches a step",
            expected="`batch: micro_batches:` a multiple of the number of ranks",
            remedy=f"give --set batch.micro_batches={world * max(1, round(micro / world))}: a step is then the same on "
            "any number of ranks that divides it",
        )  # fmt: skip
