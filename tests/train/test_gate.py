"""The gate inside a Transformers Trainer: two lines, and nothing uncertified reaches a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import transformers

from pipeline.errors import RefusedError
from pipeline.train import CertifiedGate, Collator, load_certified
from tests.train import made


def model_of(config: dict[str, Any], labels: int = len(made.LABELS)) -> Any:
    torch.manual_seed(0)
    plain = transformers.AutoConfig.for_model(**config, num_labels=labels)
    return transformers.AutoModelForTokenClassification.from_config(plain)


def arguments(out: Path, **more: Any) -> transformers.TrainingArguments:
    given: dict[str, Any] = {
        "max_steps": 3,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "report_to": [],
        "remove_unused_columns": False,
        "use_cpu": True,
        "save_steps": 2,
        "logging_steps": 1,
        "disable_tqdm": True,
    }
    return transformers.TrainingArguments(str(out), **given | more)


def trainer_of(
    clean: Path, out: Path, *, train: Any = None, evaluation: Any = None, model: Any = None, **more: Any
) -> Any:
    data = load_certified(clean, "forms", backend="datasets") if train is None else train
    return transformers.Trainer(
        model or model_of(made.LAYOUT_CONFIG),
        arguments(out, **more),
        train_dataset=data,
        eval_dataset=evaluation,
        data_collator=Collator(load_certified(clean, "forms", backend="rows")),
    )


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return made.layout_folder(tmp_path / "clean")


def foreign(clean: Path) -> Any:
    """The certified rows with two more that are in memory alone."""
    data = load_certified(clean, backend="datasets")
    return datasets.concatenate_datasets([data, datasets.Dataset.from_dict(data[:2], features=data.features)])


@pytest.mark.parametrize("backend", ["datasets", "rows"])
def test_two_lines_in_a_trainer_script(clean: Path, tmp_path: Path, backend: str) -> None:
    trainer = trainer_of(clean, tmp_path / "out", train=load_certified(clean, "forms", backend=backend))
    CertifiedGate().attach(trainer)
    trainer.train()
    state = json.loads((tmp_path / "out/checkpoint-2/trainer_state.json").read_text())
    root = load_certified(clean).certified.root
    assert state["stateful_callbacks"]["CertifiedGate"]["args"]["root"] == root
    assert trainer.args.logging_nan_inf_filter is False


def test_a_certified_evaluation_passes(clean: Path, tmp_path: Path) -> None:
    data = load_certified(clean, backend="datasets").train_test_split(0.2, seed=1)
    trainer = trainer_of(
        clean,
        tmp_path / "out",
        train=data["train"],
        evaluation=data["test"],
        eval_strategy="steps",
        eval_steps=2,
    )
    CertifiedGate().attach(trainer)
    trainer.train()
    assert trainer.evaluate()["eval_loss"] > 0


@pytest.mark.parametrize("attached", [True, False])
def test_rows_added_in_memory_are_refused_before_step_one(
    clean: Path, tmp_path: Path, attached: bool
) -> None:
    trainer = trainer_of(clean, tmp_path / "out", train=foreign(clean))
    _ = CertifiedGate().attach(trainer) if attached else trainer.add_callback(CertifiedGate())
    with pytest.raises(RefusedError, match="in memory"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_a_mapped_data_set_is_refused(clean: Path, tmp_path: Path) -> None:
    data = load_certified(clean, backend="datasets").map(lambda row: {"labels": row["labels"]})
    trainer = trainer_of(clean, tmp_path / "out", train=data)
    CertifiedGate().attach(trainer)
    with pytest.raises(RefusedError, match="certified"):
        trainer.train()


@pytest.mark.parametrize("attached", [True, False])
def test_an_uncertified_evaluation_is_refused(clean: Path, tmp_path: Path, attached: bool) -> None:
    trainer = trainer_of(clean, tmp_path / "out", evaluation=foreign(clean))
    _ = CertifiedGate().attach(trainer) if attached else trainer.add_callback(CertifiedGate())
    trainer.train()
    with pytest.raises(RefusedError, match="in memory"):
        trainer.evaluate()


def test_a_model_with_fewer_labels_is_refused(clean: Path, tmp_path: Path) -> None:
    trainer = trainer_of(clean, tmp_path / "out", model=model_of(made.LAYOUT_CONFIG, labels=5))
    CertifiedGate().attach(trainer)
    with pytest.raises(RefusedError, match=r"7 labels.*at most 5"):
        trainer.train()


def test_everything_wrong_is_told_at_once(clean: Path, tmp_path: Path) -> None:
    small = made.LAYOUT_CONFIG | {"vocab_size": 50, "max_position_embeddings": 40}
    trainer = trainer_of(
        clean, tmp_path / "out", model=model_of(small, labels=2), per_device_train_batch_size=64
    )
    CertifiedGate().attach(trainer)
    with pytest.raises(RefusedError) as caught:
        trainer.train()
    for check in ("embedding_rows", "positions", "labels", "rows"):
        assert check in str(caught.value)


def test_a_checkpoint_goes_on_with_its_own_data_only(clean: Path, tmp_path: Path) -> None:
    first = trainer_of(clean, tmp_path / "out")
    CertifiedGate().attach(first)
    first.train()
    again = trainer_of(clean, tmp_path / "out", max_steps=4)
    CertifiedGate().attach(again)
    again.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-2"))
    assert again.state.global_step == 4
    other = made.layout_folder(tmp_path / "other", rows=made.layout_rows(40, seed=3))
    changed = trainer_of(other, tmp_path / "out", max_steps=6)
    CertifiedGate().attach(changed)
    with pytest.raises(RefusedError, match="another root"):
        changed.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-4"))


def test_a_checkpoint_without_a_root_is_refused(clean: Path, tmp_path: Path) -> None:
    trainer_of(clean, tmp_path / "out").train()
    gated = trainer_of(clean, tmp_path / "out", max_steps=4)
    CertifiedGate().attach(gated)
    with pytest.raises(RefusedError, match="another root"):
        gated.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-2"))


def test_a_given_root_must_be_the_data_s(clean: Path, tmp_path: Path) -> None:
    trainer = trainer_of(clean, tmp_path / "out")
    CertifiedGate("0" * 64).attach(trainer)
    with pytest.raises(RefusedError, match="another root"):
        trainer.train()


def test_a_nan_loss_stops_the_job(clean: Path, tmp_path: Path) -> None:
    trainer = trainer_of(clean, tmp_path / "out", learning_rate=1e30, max_grad_norm=0.0, max_steps=20)
    CertifiedGate().attach(trainer)
    with pytest.raises(RefusedError, match="NaN"):
        trainer.train()
