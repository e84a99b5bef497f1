"""The doctor reads a script and names each set-up fault once, at its line; a sound script is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.train.doctor import PRESCRIPTIONS, diagnose, examine
from pipeline.train.faults import Weight
from pipeline.train.script import Script

REPORTED = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from transformers import DataCollatorForLanguageModeling
from trl import setup_chat_format

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3-8B", torch_dtype=torch.bfloat16, device_map="auto")
tokenizer = AutoTokenizer.from_pretrained("HuggingFaceH4/zephyr-7b-beta")
tokenizer.pad_token = tokenizer.eos_token
model, tokenizer = setup_chat_format(model, tokenizer)
model = model.to("cuda")

def prepare(row):
    text = tokenizer.apply_chat_template(row["messages"], tokenize=False)
    return tokenizer(text)

args = TrainingArguments("out", fp16=True, group_by_length=True)
max_seq_length = 2048
limits = dict(max_seq_length=max_seq_length)
trainer = Trainer(model, args, data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))
for epoch in range(3):
    trainer.train()
    torch.cuda.empty_cache()
"""
EXPECTED = {
    "moved_after_map": 11,
    "map_under_trainer": 7,
    "tokenizer_of_another_model": 8,
    "pad_is_eos": 9,
    "tokens_added": 10,
    "bos_doubled": 15,
    "no_truncation": 15,
    "fp16_on_bf16": 17,
    "group_by_length": 17,
    "no_checkpointing": 17,
    "nan_hidden": 17,
    "empty_cache_in_loop": 23,
}
SOUND = """
from transformers import AutoModelForTokenClassification, AutoTokenizer, Trainer, TrainingArguments
from pipeline.train import CertifiedGate, Collator, load_certified

MODEL = "models/layoutlmv3"
model = AutoModelForTokenClassification.from_pretrained(MODEL, num_labels=7)
tokenizer = AutoTokenizer.from_pretrained(MODEL)
data = load_certified("clean", "forms", expect=model)
args = TrainingArguments("out", bf16=True, remove_unused_columns=False)
trainer = Trainer(model, args, train_dataset=data, data_collator=Collator(data))
CertifiedGate().attach(trainer)
trainer.train()
"""


def test_the_reported_faults_are_found_at_their_lines(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(REPORTED)
    assert {advice.rule: advice.line for advice in diagnose(script)} == EXPECTED


def test_a_sound_script_is_left_alone() -> None:
    assert examine(Script(SOUND, "sound")) == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("moved_after_map", 'm = A.from_pretrained("x", device_map={"": 0}).cuda()'),
        ("template_replaced", "tok.chat_template = other.chat_template"),
        ("embedding_not_resized", 'tok.add_special_tokens({"pad_token": "<pad>"})'),
        (
            "fp16_weights",
            'm = A.from_pretrained("x", dtype=torch.float16)\nTrainingArguments("o", fp16=True)',
        ),
        ("no_gate", 'd = load_certified("c")\nTrainer(m, args, train_dataset=d)'),
        ("changed_after_loading", 'd = load_certified("c")\nd = d.map(f)'),
        ("changed_after_loading", 'd = load_certified("c").map(f)'),
        ("eval_of_data", 'boxes = eval(row["bbox"])'),
    ],
)
def test_single_faults(rule: str, code: str) -> None:
    assert rule in {advice.rule for advice in examine(Script(code, "code"))}


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("moved_after_map", 'm = A.from_pretrained("x").to("cuda")'),
        ("embedding_not_resized", 'tok.add_tokens(["a"])\nmodel.resize_token_embeddings(len(tok))'),
        ("empty_cache_in_loop", "torch.cuda.empty_cache()"),
        ("eval_of_data", "model.eval()"),
        ("fp16_on_bf16", 'm = A.from_pretrained("x", dtype="bfloat16")\nTrainingArguments("o", bf16=True)'),
        ("tokenizer_of_another_model", 'N = "m"\nA.from_pretrained(N)\nAutoTokenizer.from_pretrained("m")'),
    ],
)
def test_near_misses(rule: str, code: str) -> None:
    assert rule not in {advice.rule for advice in examine(Script(code, "code"))}


def test_every_prescription_is_reachable_and_has_its_words() -> None:
    singles = [
        'm = A.from_pretrained("x", dtype=torch.float16)\nTrainingArguments("o", fp16=True)',
        'd = load_certified("c")\nd.map(f)\nTrainer(m)\neval("1")\ntok.chat_template = x\ntok.add_tokens([])',
    ]
    found = {a for code in [REPORTED, *singles] for a in examine(Script(code, "code"))}
    assert {advice.rule for advice in found} == set(PRESCRIPTIONS)
    for advice in found:
        assert "{" not in advice.what
        assert "{{" not in advice.change
    assert any(advice.weight is Weight.WARN for advice in found)


def test_what_is_no_python_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no Python.*|SyntaxError"):
        Script("def broken(:", "broken.py")
    with pytest.raises(InputError, match="cannot be read"):
        diagnose(tmp_path / "nowhere.py")


def test_a_script_never_runs(tmp_path: Path) -> None:
    script = tmp_path / "evil.py"
    script.write_text(f"open({str(tmp_path / 'touched')!r}, 'w').write('x')\n")
    diagnose(script)
    assert not (tmp_path / "touched").exists()
