"""The gate inside TRL's SFTTrainer, where TRL and torch are installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from pipeline.errors import RefusedError
from pipeline.train import CertifiedGate, Collator, load_certified
from tests.train import made

trl = pytest.importorskip("trl", reason="TRL is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


def trainer_of(tmp_path: Path, samples: Path, **settings: Any) -> Any:
    data = load_certified(made.chat_folder(tmp_path / "clean"), "clinical", backend="datasets")
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**made.LLAMA_CONFIG)
    )
    args = trl.SFTConfig(
        str(tmp_path / "out"),
        max_steps=2,
        save_steps=2,
        per_device_train_batch_size=4,
        use_cpu=True,
        report_to=[],
        bf16=False,
        gradient_checkpointing=False,
        remove_unused_columns=False,
        **settings,
    )
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(samples / "tokenizers/tiny-llama3")
    trainer = trl.SFTTrainer(
        model, args, train_dataset=data, processing_class=tokenizer, data_collator=Collator(data)
    )
    CertifiedGate().attach(trainer)
    return trainer


def test_two_lines_in_an_sft_script(tmp_path: Path, samples: Path) -> None:
    trainer_of(tmp_path, samples, dataset_kwargs={"skip_prepare_dataset": True}).train()
    state = json.loads((tmp_path / "out/checkpoint-2/trainer_state.json").read_text())
    assert len(state["stateful_callbacks"]["CertifiedGate"]["args"]["root"]) == 64


def test_rows_that_the_trainer_prepares_again_are_refused(tmp_path: Path, samples: Path) -> None:
    """Without ``skip_prepare_dataset`` TRL cuts and filters the rows: they are no certified ones any more."""
    with pytest.raises(RefusedError, match="not certified"):
        trainer_of(tmp_path, samples).train()
