"""Jobs on the CPU: they learn, go on exactly, stop at a NaN, and do not depend on how a step is cut."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.errors import RefusedError
from pipeline.train.batch_dump import read_dump
from pipeline.train.checkpoint import checkpoints
from pipeline.train.progress import DivergedError
from pipeline.train.train import check_world, train
from tests.train import jobs, made


def losses(trained: Any) -> list[float]:
    return [loss for _, loss in trained.losses]


@pytest.mark.parametrize("kind", ["layout", "chat", "packed"])
def test_a_job_learns_and_leaves_its_root(tmp_path: Path, kind: str) -> None:
    clean = tmp_path / "clean"
    _ = made.layout_folder(clean) if kind == "layout" else made.chat_folder(clean, packed=kind == "packed")
    told = jobs.job(
        clean, tmp_path / "out", {"run.steps": 60, "optimizer.rate": 5e-3, "optimizer.warmup": 0.0}
    )
    trained = train(told)
    assert trained.steps == 60
    assert sum(losses(trained)[-5:]) / 5 < sum(losses(trained)[:5]) / 5 - 0.1
    state = json.loads((trained.checkpoint / "trainer_state.json").read_text())
    assert state["place"]["root"] == told.certified.root
    assert (tmp_path / "out/loss.svg").read_text().startswith("<svg")
    lines = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 60
    assert 0 < lines[-1]["useful"] <= 1


@pytest.mark.parametrize("kind", ["layout", "chat"])
def test_a_stopped_job_goes_on_exactly(tmp_path: Path, kind: str) -> None:
    clean = (
        made.layout_folder(tmp_path / "clean") if kind == "layout" else made.chat_folder(tmp_path / "clean")
    )
    dropout = {"model.config": made.LAYOUT_CONFIG | {"hidden_dropout_prob": 0.1}} if kind == "layout" else {}
    whole = train(jobs.job(clean, tmp_path / "a", {**dropout, "run.save_every": 7, "run.steps": 20}))
    first = jobs.job(clean, tmp_path / "b", {**dropout, "run.save_every": 7, "run.steps": 20, "run.keep": 9})
    train(first)
    for path in checkpoints(tmp_path / "b")[1:]:
        path.rename(path.with_name("kept-" + path.name))
    rest = train(
        jobs.job(clean, tmp_path / "b", {**dropout, "run.save_every": 7, "run.steps": 20}, go_on=True)
    )
    assert losses(rest) == losses(whole)[7:]
    for name in ("model.safetensors", "adapter_model.safetensors"):
        if (whole.checkpoint / name).exists():
            assert (whole.checkpoint / name).read_bytes() == (rest.checkpoint / name).read_bytes()


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    train(jobs.job(made.layout_folder(tmp_path / "one"), tmp_path / "out"))
    other = jobs.job(
        made.layout_folder(tmp_path / "two", rows=made.layout_rows(40, seed=1)), tmp_path / "out", go_on=True
    )
    with pytest.raises(RefusedError, match="another root digest"):
        train(other)
    same = jobs.job(tmp_path / "one", tmp_path / "out", {"batch.tokens": 200}, go_on=True)
    with pytest.raises(RefusedError, match="another order of samples"):
        train(same)


def test_the_gradient_does_not_depend_on_how_a_step_is_cut(tmp_path: Path) -> None:
    clean = made.chat_folder(tmp_path / "clean")
    cuts = [(1, 8), (2, 4), (8, 1)]
    seen = [
        losses(
            train(
                jobs.job(
                    clean,
                    tmp_path / str(micro),
                    {
                        "batch.tokens": 0,
                        "batch.samples": size,
                        "batch.micro_batches": micro,
                        "batch.pad_to_longest": True,
                        "run.steps": 6,
                    },
                )
            )
        )
        for micro, size in cuts
    ]
    for other in seen[1:]:
        assert other == pytest.approx(seen[0], rel=1e-4)


def test_ranks_must_share_a_step_evenly(tmp_path: Path) -> None:
    recipe = jobs.job(made.chat_folder(tmp_path / "clean"), tmp_path, {"batch.micro_batches": 4}).recipe
    check_world(recipe, 2)
    with pytest.raises(RefusedError, match="8 ranks, 4 micro-batches"):
        check_world(recipe, 8)


def test_a_nan_stops_the_job_and_names_its_samples(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    told = jobs.job(clean, tmp_path / "out", {"optimizer.rate": 1e30, "optimizer.clip": 0.0, "run.steps": 50})
    with pytest.raises(DivergedError, match=r"forms/a\.xlsx#Sheet1#\d+") as caught:
        train(told)
    assert caught.value.exit == 6
    assert not checkpoints(tmp_path / "out")


def test_dumped_batches_tell_the_last_rows_of_the_rank(tmp_path: Path) -> None:
    clean = made.chat_folder(tmp_path / "clean")
    train(
        jobs.job(
            clean, tmp_path / "out", {"run.steps": 200, "batch.tokens": 0, "batch.samples": 2}, dump=True
        )
    )
    head, steps = read_dump(tmp_path / "out/batches-rank0.jsonl")
    assert head["dataset"] == "clinical"
    assert 64 <= len(steps) <= 128
    assert steps[-1].step == 199
    assert all(0 <= row < 40 for step in steps for micro in step.rows for row in micro)


def test_no_mask_gives_the_same_loss_as_a_mask(tmp_path: Path) -> None:
    """Pads stand on the right, where causal attention never looks."""
    from pipeline.train.model import build

    told = jobs.job(made.chat_folder(tmp_path / "clean"), tmp_path / "out")
    model = build(told.recipe, told.certified, random_weights=True, device=torch.device("cpu")).eval()
    ids = torch.randint(4, 120, (3, 24))
    mask = torch.ones_like(ids)
    mask[0, 10:], mask[1, 20:] = 0, 0
    with torch.no_grad():
        bare, masked = model(input_ids=ids).logits, model(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(bare[mask.bool()], masked[mask.bool()], atol=1e-5, rtol=0)


def test_packed_conversations_do_not_see_one_another(tmp_path: Path) -> None:
    """The loss of a packed sample is that of its conversations alone."""
    from pipeline.train.collate import RowCollator, TaskLoss
    from pipeline.train.model import build
    from pipeline.train.rows import CertifiedRows

    told = jobs.job(made.chat_folder(tmp_path / "clean", packed=True), tmp_path / "out")
    model = build(told.recipe, told.certified, random_weights=True, device=torch.device("cpu")).eval()
    loss, rows = TaskLoss(model, "causal_lm", None), CertifiedRows(told.certified)
    import numpy as np

    packed = float(loss(RowCollator(rows, causal=True).batch(np.array([1, 2]), 64).tensors).detach())
    alone = 0.0
    for row in (rows[1], rows[2]):
        starts = [i for i, place in enumerate(row["position_ids"]) if place == 0]
        for start, end in zip(starts, [*starts[1:], len(row["input_ids"])], strict=True):
            ids = torch.tensor([row["input_ids"][start:end]])
            labels = torch.tensor([row["labels"][start:end]])
            out = model(input_ids=ids, labels=labels)
            alone += float(out.loss.detach()) * int((labels[:, 1:] != -100).sum())
    assert packed == pytest.approx(alone, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["layout", "chat"])
def test_two_ranks_give_the_loss_of_one(tmp_path: Path, kind: str) -> None:
    clean = (
        made.layout_folder(tmp_path / "clean") if kind == "layout" else made.chat_folder(tmp_path / "clean")
    )
    curves = []
    for world in (1, 2):
        out = tmp_path / f"world{world}"
        code = (
            "import sys; sys.path.insert(0, '.')\n"
            "from pathlib import Path\nfrom pipeline.train.train import train\nfrom tests.train import jobs\n"
            f"train(jobs.job(Path({str(clean)!r}), Path({str(out)!r}), "
            "{'batch.micro_batches': 2, 'run.steps': 6}))\n"
        )
        script = tmp_path / "job.py"
        script.write_text(code)
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            f"--nproc-per-node={world}",
            "--standalone",
            str(script),
        ]
        done = subprocess.run(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        curves.append([json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()])
    assert len(curves[0]) == 6
    assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(*curves, strict=True))
