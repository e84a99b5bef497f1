"""Data against model, recipe, machine and memory: everything is found, at once, and what fits passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import Exit, RefusedError, SchemaError
from pipeline.train import environment, memory
from pipeline.train.batches import Budget
from pipeline.train.faults import Fault, Weight, refuse, stopping
from pipeline.train.load import open_certified
from pipeline.train.model import config_of
from pipeline.train.model_limits import fit_faults, schedule_faults, target_of, task_faults
from pipeline.train.preflight import preflight
from pipeline.train.recipe import changes_of, load_recipe, packaged, recipe_of
from pipeline.train.rows import CertifiedSet
from tests.train import made

SEVEN = {"id2label": dict(enumerate(made.LABELS)), "num_labels": 7}


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> CertifiedSet:
    return open_certified(made.layout_folder(tmp_path_factory.mktemp("a") / "clean"))


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> CertifiedSet:
    return open_certified(made.chat_folder(tmp_path_factory.mktemp("b") / "clean", template="c" * 64))


def checks(facts: CertifiedSet, config: dict[str, Any], **how: Any) -> list[str]:
    return [fault.check for fault in stopping(fit_faults(facts, target_of(config), **how))]


def test_what_fits_passes(forms: CertifiedSet, chats: CertifiedSet) -> None:
    assert fit_faults(forms, target_of(made.LAYOUT_CONFIG | SEVEN)) == []
    assert fit_faults(chats, target_of(made.LLAMA_CONFIG)) == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"vocab_size": 119}, "embedding_rows"),
        ({"max_position_embeddings": 50}, "positions"),
        ({"max_2d_position_embeddings": 500}, "boxes"),
        ({"num_labels": 5, "id2label": {i: f"X{i}" for i in range(5)}}, "labels"),
        ({"id2label": dict(enumerate(reversed(made.LABELS)))}, "labels"),
        ({"model_type": "lilt"}, "family"),
        ({"model_type": "bros"}, "boxes"),
        ({"pad_token_id": 0}, "pad"),
        ({"input_size": 64}, "pages"),
    ],
)
def test_each_limit_of_a_document_model(forms: CertifiedSet, change: dict[str, Any], check: str) -> None:
    assert check in checks(forms, made.LAYOUT_CONFIG | SEVEN | change)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"vocab_size": 118}, "embedding_rows"),
        ({"max_position_embeddings": 64}, "positions"),
        ({"model_type": "layoutlmv3"}, "family"),
    ],
)
def test_each_limit_of_a_chat_model(chats: CertifiedSet, change: dict[str, Any], check: str) -> None:
    assert check in checks(chats, made.LLAMA_CONFIG | change)


def test_limits_are_met_exactly(forms: CertifiedSet, chats: CertifiedSet) -> None:
    """One less is a fault, the limit itself is none: RoBERTa positions start at pad + 1."""
    longest = forms.number("input_ids", "longest")
    assert longest is not None
    exact = made.LAYOUT_CONFIG | SEVEN | {"max_position_embeddings": longest + 2, "vocab_size": 120}
    assert checks(forms, exact) == []
    assert checks(forms, exact | {"max_position_embeddings": longest + 1}) == ["positions"]
    top = chats.number("input_ids", "longest")
    assert top is not None
    assert checks(chats, made.LLAMA_CONFIG | {"max_position_embeddings": top}) == []


def test_a_packed_sample_may_be_longer_than_the_positions_of_a_rotary_model(tmp_path: Path) -> None:
    packed = open_certified(made.chat_folder(tmp_path / "clean", packed=True))
    assert (packed.number("input_ids", "longest") or 0) > 30
    assert checks(packed, made.LLAMA_CONFIG | {"max_position_embeddings": 30}) == []
    assert checks(packed, made.LLAMA_CONFIG | {"max_position_embeddings": 10}) == ["positions"]


def test_another_tokenizer_is_refused_and_another_template_told(chats: CertifiedSet) -> None:
    target = replace(target_of(made.LLAMA_CONFIG), tokenizer_digest="d" * 64, template_digest="e" * 64)
    faults = fit_faults(chats, target)
    assert [(fault.check, fault.weight) for fault in faults] == [
        ("tokenizer", Weight.REFUSE),
        ("template", Weight.WARN),
    ]
    same = replace(target, tokenizer_digest="a" * 64, template_digest="c" * 64)
    assert fit_faults(chats, same) == []


def test_the_digest_of_a_folder_is_the_certificate_s(samples: Path, tmp_path: Path) -> None:
    import shutil

    from pipeline.models.tokenizer import load
    from pipeline.schema.model import Tokenizer as Spec

    folder = samples / "tokenizers/tiny-llama3"
    model = made.write_config(tmp_path / "model", made.LLAMA_CONFIG)
    for file in folder.iterdir():
        shutil.copy(file, model / file.name)
    described = load(Spec(path=str(folder)), samples)
    assert target_of(model).tokenizer_digest == described.digest


def test_float16_training_of_bfloat16_weights_is_refused(chats: CertifiedSet) -> None:
    assert checks(chats, made.LLAMA_CONFIG | {"dtype": "bfloat16"}, fp16=True) == ["dtype"]
    assert checks(chats, made.LLAMA_CONFIG | {"dtype": "float32"}, fp16=True) == []


def test_rows_for_every_rank(forms: CertifiedSet) -> None:
    assert list(schedule_faults(forms, world=8, per_rank=5)) == []
    assert [fault.check for fault in schedule_faults(forms, world=8, per_rank=6)] == ["rows"]


def test_a_task_learns_from_its_kind(forms: CertifiedSet, chats: CertifiedSet) -> None:
    layout, llama = load_recipe("layoutlmv3"), load_recipe("llama-lora")
    assert [f.check for f in task_faults(chats, layout)] == ["task"]
    assert [f.check for f in task_faults(forms, llama)] == ["task"]
    assert list(task_faults(forms, layout)) == list(task_faults(chats, llama)) == []


def test_all_faults_are_in_the_refusal(forms: CertifiedSet) -> None:
    faults = fit_faults(
        forms, target_of(made.LAYOUT_CONFIG | SEVEN | {"vocab_size": 50, "max_position_embeddings": 20})
    )
    with pytest.raises(RefusedError) as caught:
        refuse(faults, where="clean")
    assert caught.value.exit is Exit.REFUSED
    assert "embedding_rows" in str(caught.value)
    assert "positions" in str(caught.value)
    refuse([Fault("template", "differs", weight=Weight.WARN)], where="clean")


def test_preflight_tells_parameters_and_faults(forms: CertifiedSet) -> None:
    recipe = load_recipe("layoutlmv3", {"model.config": made.LAYOUT_CONFIG, "checkpointing": True})
    found = preflight(forms, recipe, device="cpu")
    assert [fault.check for fault in stopping(found.faults)] == ["checkpointing"]
    assert found.parameters.total == found.parameters.trained > 10_000
    assert found.largest is None
    assert "cuda" in [fault.check for fault in preflight(forms, recipe).faults] or environment.cards()


def test_adapters_alone_are_trained(chats: CertifiedSet) -> None:
    recipe = load_recipe("llama-lora", {"model.config": made.LLAMA_CONFIG, "lora.rank": 2})
    counted = memory.parameters(recipe, chats)
    # Two matrices of rank 2 beside each of the seven projections of two layers.
    sizes = [(32, 32), (32, 16), (32, 16), (32, 32), (32, 64), (32, 64), (64, 32)]
    assert counted.trained == 2 * sum(2 * (a + b) for a, b in sizes)


def test_more_tokens_need_more_memory_and_the_largest_batch_just_fits(chats: CertifiedSet) -> None:
    recipe = load_recipe("llama-lora", {"model.config": made.LLAMA_CONFIG})
    config, counted = config_of(recipe, chats), memory.parameters(recipe, chats)
    needs = [
        memory.estimate(recipe, counted, config, Budget(n, 1 << 20), 128).total for n in (1024, 4096, 16384)
    ]
    assert needs == sorted(set(needs))
    card = 4 << 30
    largest = memory.largest(recipe, counted, config, Budget(1, 0), 128, card)
    assert largest > 0
    more = largest + 512
    assert memory.estimate(recipe, counted, config, Budget(largest, 1 << 20), 128).fits(card)
    assert not memory.estimate(recipe, counted, config, Budget(more, 1 << 20, longest=128), 128).fits(card)
    assert memory.largest(recipe, counted, config, Budget(1, 0), 128, 1 << 20) == 0


def test_peaks_measured_on_a_card(tmp_path: Path) -> None:
    """Peaks of jobs that the estimate was not made from (H200, torch 2.11): within a fifth, hardly ever below."""
    large = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    }
    base = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    seen = [
        (base, "bf16", 16, 126_000_000, 11.592),
        (large, "bf16", 8, 357_000_000, 15.607),
        (large, "fp32", 8, 357_000_000, 22.104),
    ]
    for config, precision, thousands, count, peak in seen:
        recipe = load_recipe("layoutlmv3", {"precision": precision})
        counted = memory.Parameters(count, count, count, 4 * count, 4 * count, False, True)
        known = {**config, "model_type": "layoutlmv3", "id2label": dict(enumerate(range(13)))}
        budget = Budget(thousands * 1024, 1 << 16, longest=512, overhead=197)
        ratio = memory.estimate(recipe, counted, known, budget, 512).total / 2**30 / peak
        assert 0.98 < ratio < 1.25


@pytest.mark.parametrize(
    ("capability", "built", "runs"),
    [
        ((9, 0), ["sm_80", "sm_90"], True),
        ((8, 6), ["sm_80"], True),
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_80"], False),
        ((12, 0), ["sm_90", "compute_90"], True),
        ((7, 5), ["sm_80", "compute_80"], False),
        ((9, 0), ["sm_90a"], True),
    ],
)
def test_a_card_needs_code_of_its_own(capability: tuple[int, int], built: list[str], runs: bool) -> None:
    assert environment.runs_on(capability, built) is runs


def test_libraries_that_do_not_go_together_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.0.1", "transformers": "5.24.0", "tokenizers": "0.10.0", "peft": "0.17.0"}
    monkeypatch.setattr(environment, "_version", versions.get)
    found = [str(fault) for fault in environment.libraries()]
    assert any("torch is too old" in text for text in found)
    assert any("does not go with tokenizers 0.10.0" in text for text in found)


def test_the_packaged_recipes_load_and_unknown_keys_are_refused(tmp_path: Path) -> None:
    assert packaged() == ("lilt", "llama-lora", "layoutlmv3") or set(packaged()) == {
        "lilt",
        "llama-lora",
        "layoutlmv3",
    }
    for name in packaged():
        assert load_recipe(name).name == name
    with pytest.raises(SchemaError, match="did you mean layoutlmv3"):
        load_recipe("layoutlm3")
    broken = tmp_path / "r.yaml"
    broken.write_text("name: [unclosed")
    with pytest.raises(SchemaError, match="no YAML at line 1"):
        load_recipe(str(broken))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("run.stepz", 5, r"run\.stepz: unknown key; did you mean `steps`\?"),
        ("optimiser", {}, r"optimiser: unknown key; did you mean `optimizer`\?"),
        ("lora.zzz", 1, r"lora\.zzz: unknown key; known here: rank, alpha, dropout, modules"),
        ("precision", "fp16", r"precision: input should be 'bf16' or 'fp32' \(found 'fp16'\)"),
        ("model.bits", 8, r"model\.bits: input should be 4 "),
        ("batch.micro_batches", 0, r"batch\.micro_batches: input should be greater than 0 \(found 0\)"),
        ("run.epochs", "three", r"run\.epochs: input should be a valid integer \(found 'three'\)"),
        ("run.epochs", 3.0, r"run\.epochs: input should be a valid integer"),
        ("run.epochs", True, r"run\.epochs: input should be a valid integer"),
        ("optimizer.rate", True, r"optimizer\.rate: input should be a valid number"),
        ("optimizer.rate", "1e-4", r"optimizer\.rate: input should be a valid number"),
        ("optimizer.rate", float("nan"), r"optimizer\.rate: input should be a finite number"),
        ("optimizer.warmup", 1.5, r"optimizer\.warmup: input should be less than or equal to 1"),
        ("optimizer.betas", [0.9], r"optimizer\.betas\.1: is missing"),
        ("optimizer.betas", [0.9, "b"], r"optimizer\.betas\.1: input should be a valid number"),
        ("lora.dropout", 2, r"lora\.dropout: input should be less than or equal to 1"),
        ("lora.modules", "q_proj", r"lora\.modules: input should be a valid tuple"),
        ("lora.modules", [1], r"lora\.modules\.0: input should be a valid string"),
        ("checkpointing", 1, r"checkpointing: input should be a valid boolean"),
        ("batch", [], r"batch: input should be a valid dictionary"),
        ("name.first", "x", r"name: input should be a valid string"),
    ],
)
def test_what_a_recipe_cannot_say_is_named(key: str, value: object, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as caught:
        load_recipe("llama-lora", {key: value})
    assert caught.value.where == "llama-lora"


def test_every_mistake_of_a_recipe_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nbatch: {token: 5}\nrun: {keep: 0}\n")
    with pytest.raises(SchemaError, match="3 mistakes in the recipe") as caught:
        load_recipe(str(path))
    assert "task: is missing" in caught.value.what
    assert "batch.token: unknown key; did you mean `tokens`?" in caught.value.what
    assert "run.keep: " in caught.value.what
    assert caught.value.where == str(path)


def test_a_recipe_of_its_own_json_is_the_same() -> None:
    for name in packaged():
        recipe = load_recipe(name)
        assert recipe_of(json.loads(json.dumps(recipe.to_json())), name) == recipe


@pytest.mark.parametrize("text", ["1e-4", "1E-4", "1.0e-4", "0.0001", "+1e-4"])
def test_a_number_given_on_the_command_line_is_a_number(text: str) -> None:
    changes = changes_of([f"optimizer.rate={text}", "run.steps=100", "model.path=null", "run.seed=-3"])
    assert changes == {"optimizer.rate": 1e-4, "run.steps": 100, "model.path": None, "run.seed": -3}
    assert load_recipe("lilt", changes).optimizer.rate == 1e-4


def test_a_number_with_an_exponent_is_a_number_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ntask: causal_lm\noptimizer: {rate: 2e-5, epsilon: 1e-8}\n")
    assert load_recipe(str(path)).optimizer.rate == 2e-5


@pytest.mark.parametrize(("text", "words"), [("run.steps", "key=value"), ("run.steps=[", "no YAML")])
def test_a_change_that_cannot_be_read_is_named(text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        changes_of([text])
