"""A crash is explained from its log, its dumped batches, or both; recorded logs of a real card among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.train.batch_dump import read_dump
from pipeline.train.crash_signatures import SIGNATURES, Blame
from pipeline.train.explain import clues, explain, read_log, verdict
from pipeline.train.replay import replay_dump
from pipeline.train.train import train
from tests.train import jobs, made

CRASHES = Path(__file__).parent / "crashes"
GATHER = (
    "aten/src/ATen/native/cuda/IndexKernelUtils.cu:16: vectorized_gather_kernel: block: [1,0,0], thread: [0,0,0] "
    'Assertion `ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of bounds"` failed.'
)


@pytest.mark.parametrize(
    ("log", "name", "reason", "also"),
    [
        ("label_beyond_the_classes.log", "label_assert", "label_out_of_range", "cublas"),
        ("box_past_the_page.log", "gather_assert", "bbox_out_of_page", "device_assert"),
        ("out_of_memory.log", "out_of_memory", None, None),
    ],
)
def test_recorded_crashes(log: str, name: str, reason: str | None, also: str | None) -> None:
    found = explain(CRASHES / log)
    assert found.clues[0].signature.name == name
    reasons = [known.slug for known in found.clues[0].signature.reasons]
    assert (reasons[0] if reasons else None) == reason
    assert also is None or also in [clue.signature.name for clue in found.clues[1:]]
    assert found.blame is (Blame.DATA if reason else Blame.SETUP)
    assert ("innocent" in verdict(found)) == (reason is None)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (GATHER, "embedding_assert"),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`",
            "cublas",
        ),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            "cublas",
        ),
        ("torch.AcceleratorError: CUDA error: device-side assert triggered", "device_assert"),
        ("IndexError: Target 7 is out of bounds.", "target_bounds"),
        ("IndexError: index out of range in self", "index_in_self"),
        ("{'loss': nan, 'grad_norm': nan, 'learning_rate': 1e-05}", "nan_loss"),
        ("{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05}", "nan_loss"),
        (
            "RuntimeError: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
            "Int; but got torch.cuda.FloatTensor",
            "float_indices",
        ),
        (
            "RuntimeError: You can't move a model that has some modules offloaded to cpu or disk.",
            "moved_after_map",
        ),
        ("ValueError: `.to` is not supported for `4-bit` or `8-bit` bitsandbytes models.", "moved_after_map"),
        (
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices",
            "two_devices",
        ),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "no_kernel"),
        ("ValueError: Attempting to unscale FP16 gradients.", "fp16_unscale"),
        ("[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)", "collective_timeout"),
        ("RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.", "worker_killed"),
        ("OSError: image file is truncated (139 bytes not processed)", "image_cut"),
        (
            "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/...",
            "roles",
        ),
    ],
)
def test_each_text_is_known(line: str, name: str) -> None:
    assert next(clue.signature.name for clue in clues(["some line", line])) == name


def test_an_ordinary_log_holds_no_crash() -> None:
    lines = [
        "{'loss': 1.25, 'grad_norm': 0.7}",
        "Loading checkpoint shards: 100%",
        "epoch 3: loss 0.0 on 12 classes",
    ]
    assert clues(lines) == ()


def test_the_assert_wins_over_what_follows_from_it() -> None:
    follow = ["CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: device-side assert triggered", "CUDA out of memory"]
    found = clues([*follow, "Assertion `t >= 0 && t < n_classes` failed."])
    assert found[0].signature.name == "label_assert"


def test_signatures_have_distinct_names_and_data_faults_name_hazards() -> None:
    assert len({known.name for known in SIGNATURES}) == len(SIGNATURES)
    for known in SIGNATURES:
        assert (known.blame is Blame.DATA) == bool(known.reasons), known.name


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """The dump of a job on documents."""
    clean = made.layout_folder(tmp_path / "clean")
    train(
        jobs.job(clean, tmp_path / "out", {"run.steps": 6, "batch.tokens": 0, "batch.samples": 3}, dump=True)
    )
    return tmp_path / "out/batches-rank0.jsonl"


def test_dumped_batches_lead_to_the_row_of_the_sheet(crashed: Path) -> None:
    found = explain(CRASHES / "label_beyond_the_classes.log", [crashed])
    _, steps = read_dump(crashed)
    last = [suspect for suspect in found.suspects if suspect.step == 6]
    assert sorted(s.row for s in last) == sorted(row for micro in steps[-1].rows for row in micro if row >= 0)
    for suspect in found.suspects:
        assert suspect.sample_id == f"forms/a.xlsx#Sheet1#{suspect.source_row}"
        assert (suspect.source, suspect.sheet) == ("forms/a.xlsx", "Sheet1")
    assert "between shard and model" in verdict(found)


def test_a_replay_of_certified_rows_finds_every_lookup_in_its_table(crashed: Path) -> None:
    assert replay_dump(crashed) == []


@pytest.mark.parametrize(
    ("change", "module"),
    [
        ({"vocab_size": 60}, "word_embeddings"),
        ({"max_position_embeddings": 20}, "position_embeddings"),
        ({"max_2d_position_embeddings": 300}, "x_position_embeddings"),
    ],
)
def test_a_replay_names_the_lookup_that_fails(
    crashed: Path, tmp_path: Path, change: dict[str, Any], module: str
) -> None:
    """With another model than preflight judged: the replay names the table, the sample and the token."""
    lines = crashed.read_text().splitlines()
    head = json.loads(lines[0])
    head["recipe"]["model"]["config"] |= change
    crashed.write_text("\n".join([json.dumps(head), *lines[1:]]) + "\n")
    failed = replay_dump(crashed)
    assert any(one.module.endswith(module) for one in failed)
    _, steps = read_dump(crashed)
    rows = {row for micro in steps[-1].rows for row in micro}
    assert {one.sample for one in failed} <= rows


def test_a_replay_finds_a_label_beyond_the_classes(tmp_path: Path) -> None:
    clean = made.chat_folder(tmp_path / "clean")
    train(jobs.job(clean, tmp_path / "out", {"run.steps": 2}, dump=True))
    dump = tmp_path / "out/batches-rank0.jsonl"
    lines = dump.read_text().splitlines()
    head = json.loads(lines[0])
    head["recipe"]["model"]["config"]["vocab_size"] = 12
    dump.write_text("\n".join([json.dumps(head), *lines[1:]]) + "\n")
    modules = {one.module.rpartition(".")[2] for one in replay_dump(dump)}
    assert {"loss", "embed_tokens"} <= modules


def test_a_folder_published_again_is_not_explained_with_other_rows(crashed: Path, tmp_path: Path) -> None:
    other = made.layout_folder(tmp_path / "other", rows=made.layout_rows(40, seed=9))
    with pytest.raises(InputError, match="published again"):
        explain(None, [crashed], other)


def test_unreadable_inputs_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="log cannot be read"):
        read_log(tmp_path / "nowhere.log")
    (tmp_path / "broken.jsonl").write_text("{not json")
    with pytest.raises(InputError, match="not a dump"):
        read_dump(tmp_path / "broken.jsonl")
