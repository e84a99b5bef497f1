"""A training job: model, optimizer, steps and checkpoints over certified rows.

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
from pipeline.train.checkpoint import Position, checkpoints, load_weights, prune, resume, save
from pipeline.train.collate import Minibatch, RowCollator, TaskLoss
from pipeline.train.model import build
from pipeline.train.progress import LossWatch, Metrics, StepResult
from pipeline.train.ranks import Ranks, joined, replicated
from pipeline.train.recipe import Optimizer, Recipe
from pipeline.train.rows import CertifiedRows, CertifiedSet, Int64s


def adamw(parameters: Iterable[torch.nn.Parameter], options: Optimizer, *, fused: bool) -> torch.optim.AdamW:
    """AdamW over the trained parameters, without weight decay for vectors (biases, norms)."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=options.rate,
        betas=options.betas,
        eps=options.epsilon,
        fused=fused,
    )


def learning_rate(options: Optimizer, step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0: it rises during the warm-up, then follows the schedule to 0."""
    warmup = round(options.warmup * steps)
    if step < warmup:
        return options.rate * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    if options.schedule == "linear":
        return options.rate * (1 - done)
    if options.schedule == "cosine":
        return options.rate * 0.5 * (1 + math.cos(math.pi * done))
    return options.rate


@dataclass(frozen=True, slots=True)
class Job:
    """A training job; ``pipeline.train.preflight`` checks it before.

    Attributes:
        certified: the certified data set.
        recipe: the recipe.
        out: folder for checkpoints, metrics and plots.
        device: "cuda"; "cpu" for tests.
        random_weights: whether the model starts from its config with random weights.
        go_on: whether the job resumes from the last checkpoint in ``out``.
        dump: whether each rank writes its last batches to the disk.
    """

    certified: CertifiedSet
    recipe: Recipe
    out: Path
    device: str = "cuda"
    random_weights: bool = False
    go_on: bool = False
    dump: bool = False


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a job: number of updates, logged losses by step, last checkpoint, last line of metrics."""

    steps: int
    losses: tuple[tuple[int, float], ...]
    checkpoint: Path
    metrics: dict[str, Any]


def budget_of(certified: CertifiedSet, recipe: Recipe) -> Budget:
    """The size of micro-batches: that of the recipe, with the longest sample that model and data allow."""
    limit = certified.limits.get("max_tokens") or certified.number("input_ids", "longest") or 1
    image = certified.limits.get("image") if certified.pages else None
    patches = (
        (int(image["side"]) // 16) ** 2 + 1 if image and certified.limits.get("family") == "layoutlmv3" else 0
    )
    options = recipe.batch
    return Budget(
        tokens=options.tokens,
        samples=options.samples,
        micro_batches=options.micro_batches,
        longest=int(limit),
        multiple=options.multiple,
        overhead=patches,
        pad_to_longest=options.pad_to_longest,
    )


def train(job: Job) -> Trained:
    """Run a job to its end.

    Raises:
        RefusedError: the ranks have different data, or a checkpoint belongs to other data.
        DivergedError: a loss or gradient is not finite; the error names the samples.
    """
    with joined(job.device) as ranks:
        ranks.same("root digest", job.certified.root)
        return Loop(job, ranks).run()


class Loop:
    """One rank of a job."""

    def __init__(self, job: Job, ranks: Ranks) -> None:
        recipe, cuda = job.recipe, ranks.device.type == "cuda"
        self.job, self.ranks, self.recipe = job, ranks, recipe
        self.rows = CertifiedRows(job.certified)
        self.collator = RowCollator(self.rows, causal=recipe.task == "causal_lm", pin=cuda)
        self.order = Batches(self.collator.lengths, budget_of(job.certified, recipe), recipe.run.seed)
        self.amp = torch.bfloat16 if recipe.precision == "bf16" else None
        model = build(recipe, job.certified, random_weights=job.random_weights, device=ranks.device)
        self.model = model.train()
        pixels = self.amp if self.amp and recipe.model.weights == "bfloat16" else torch.float32
        self.loss: Any = TaskLoss(model, recipe.task, self.collator.normalization, pixels)
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = adamw(self.trained, recipe.optimizer, fused=cuda)
        self.start = self._resumed()
        if ranks.world > 1:
            self._freeze_unused()
            self.loss = replicated(self.loss, ranks)
        self.watch = LossWatch(self.names)
        self.steps = self._length()

    def run(self) -> Trained:
        """Run all steps. The GPU computes one step while the CPU prepares the next."""
        with ExitStack() as stack:
            metrics = Metrics(self.job.out, self.ranks.device, self._unit()) if self.ranks.first else None
            dump = self._dump() if self.job.dump else None
            for open_file in (metrics, dump):
                if open_file is not None:
                    stack.callback(open_file.close)
            return self._steps(metrics, dump)

    def _steps(self, metrics: Metrics | None, dump: BatchDump | None) -> Trained:
        options, position, saved = self.recipe.run, self.start, self.job.out
        line: dict[str, Any] = {}
        for epoch, index, step in self.order.follow(position.epoch, position.index):
            if position.step >= self.steps:
                break
            if dump is not None:
                dump.write(position.step, step.of_rank(self.ranks.rank, self.ranks.world), step.width)
            self.update(position.step, step)
            position = Position(
                position.step + 1, epoch, index + 1, position.root, position.dataset, position.order
            )
            last = position.step == self.steps
            for result in self.watch.read(keep=0 if last or position.step % options.save_every == 0 else 1):
                line = self._log(metrics, result) or line
            if last or position.step % options.save_every == 0:
                saved = self._save(position, line)
        return Trained(position.step, tuple(metrics.losses) if metrics else (), saved, line)

    def update(self, number: int, step: Step) -> None:
        """One update of the weights from this rank's micro-batches, averaged over all ranks."""
        own = step.of_rank(self.ranks.rank, self.ranks.world)
        labels = self.collator.supervised(step.rows.ravel())
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe.optimizer, number, self.steps)
        total = torch.zeros((), device=self.ranks.device)
        for k, rows in enumerate(own):
            total += self._backward(number, k, rows, step, labels, last=k == len(own) - 1)
        if self.ranks.world > 1:
            torch.distributed.all_reduce(total)
        norm = torch.nn.utils.clip_grad_norm_(self.trained, self.recipe.optimizer.clip or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.watch.push(number, total / labels, norm, step)

    def _backward(
        self, number: int, k: int, rows: Int64s, step: Step, labels: int, *, last: bool
    ) -> torch.Tensor:
        """Add the gradient of one micro-batch; returns the sum of its losses."""
        batch = self._batch(rows, step)
        # Dropout depends on the micro-batch alone, so a resumed job and any number of ranks give the same.
        micro = self.ranks.rank + k * self.ranks.world
        _seed(self.recipe.run.seed, number, micro, self.ranks.device)
        no_sync = self.ranks.world > 1 and not last
        with (
            self.loss.no_sync() if no_sync else nullcontext(),
            torch.autocast(self.ranks.device.type, self.amp) if self.amp else nullcontext(),
        ):
            summed = self.loss(batch.tensors)
            (summed * (self.ranks.world / labels)).backward()
        return summed.detach()  # type: ignore[no-any-return]

    def _batch(self, rows: Int64s, step: Step) -> Minibatch:
        return self.collator.batch(rows, step.width, int(step.samples()[0])).to(self.ranks.device)

    def _freeze_unused(self) -> None:
        """Freeze parameters that do not affect the loss (relative position biases, an unused visual part), because
        every rank would wait for their gradients. They are not updated in any case."""
        first = self.order.epoch(0)[0]
        rows = first.samples()[:1]
        with torch.autocast(self.ranks.device.type, self.amp) if self.amp else nullcontext():
            self.loss(self.collator.batch(rows, first.width).to(self.ranks.device).tensors).backward()
        for parameter in self.trained:
            parameter.requires_grad_(parameter.grad is not None)
            parameter.grad = None

    def _log(self, metrics: Metrics | None, result: StepResult) -> dict[str, Any] | None:
        """Count a finished step; every ``log_every`` steps, write the metrics."""
        if metrics is None:
            return None
        rows = result.samples.samples()
        metrics.count(self.collator.tokens(rows), result.samples.rows.size * result.samples.width, len(rows))
        number = result.step + 1
        if number not in (1, self.steps) and number % self.recipe.run.log_every:
            return None
        line = metrics.log(
            number, result.loss, result.norm, learning_rate(self.recipe.optimizer, result.step, self.steps)
        )
        print("  ".join(f"{name} {value:.5g}" for name, value in line.items()), flush=True)  # noqa: T201
        return line

    def _save(self, position: Position, line: dict[str, Any]) -> Path:
        path = self.job.out / f"checkpoint-{position.step}"
        if self.ranks.first:
            save(
                self.job.out,
                position,
                self.model,
                self.optimizer,
                {"recipe": self.recipe.to_json(), "last": line},
            )
            prune(self.job.out, self.recipe.run.keep)
        self.ranks.wait()
        return path

    def _resumed(self) -> Position:
        """The first position: that of the last checkpoint, or the start of the order."""
        certified = self.job.certified
        found = checkpoints(self.job.out) if self.job.go_on else []
        if not found:
            return Position(0, 0, 0, certified.root, certified.name, self.order.digest)
        position = resume(found[-1], certified.root, certified.name, self.order.digest)
        load_weights(found[-1], self.model, self.optimizer, self.ranks.device)
        return position

    def _length(self) -> int:
        options = self.recipe.run
        if options.steps is not None:
            return options.steps
        return sum(len(self.order.epoch(epoch)) for epoch in range(options.epochs))

    def _dump(self) -> BatchDump:
        certified = self.job.certified
        head = {
            "clean": str(certified.clean),
            "dataset": certified.name,
            "root": certified.root,
            "rank": self.ranks.rank,
            "recipe": self.recipe.to_json(),
            "random_weights": self.job.random_weights,
        }
        return BatchDump(self.job.out / f"batches-rank{self.ranks.rank}.jsonl", head)

    def _unit(self) -> str:
        return "pages" if self.job.certified.kind == "layout" else "samples"

    def names(self, rows: Int64s) -> list[str]:
        """The sample ids of some rows, at most 64."""
        return [self.rows[int(row)]["sample_id"] for row in rows.ravel()[:64] if row != FILLER]


def _seed(seed: int, step: int, micro: int, device: torch.device) -> None:
    value = (seed * 1_000_003 + step) * 1_009 + micro
    if device.type == "cuda":
        torch.cuda.manual_seed(value)
    else:
        torch.manual_seed(value)


def check_world(recipe: Recipe, world: int) -> None:
    """Raise ``RefusedError`` where the number of micro-batches of a step is not a multiple of the number of ranks."""
    micro = recipe.batch.micro_batches
    if micro % world:
        raise RefusedError(
            "the ranks cannot share a step evenly",
            found=f"{world} ranks, {micro} micro-batches a step",
            expected="`batch: micro_batches:` a multiple of the number of ranks",
            remedy=f"give --set batch.micro_batches={world * max(1, round(micro / world))}: a step is then the same on "
            "any number of ranks that divides it",
        )
