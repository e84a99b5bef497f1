"""Probes: a template that is not this tokenizer's, or that cannot be trusted, is refused before any row is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pipeline.errors import TokenizerError
from pipeline.models.chat_template import ChatTemplate, load_template
from pipeline.models.template_check import check_template, examine_template
from pipeline.models.tokenizer import Tokenizer, load
from pipeline.models.tokenizer_files import read_folder
from pipeline.schema.chat import Template
from pipeline.schema.model import Tokenizer as Spec

TINY = Path(__file__).resolve().parents[2] / "data_samples" / "tokenizers"
BODY = "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>"
LOOP = "{% for m in messages %}" + BODY + "{% endfor %}"
PROMPT = "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
GOOD = "{{ bos_token }}" + LOOP + PROMPT
ZEPHYR = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


@pytest.fixture(scope="module")
def llama() -> Tokenizer:
    return load(Spec(path="tiny-llama3"), TINY)


def compiled(source: str, tokenizer: Tokenizer) -> ChatTemplate:
    return ChatTemplate(source, name="mine.jinja", specials=tokenizer.special_texts)


def refused(source: str, tokenizer: Tokenizer, **settings: object) -> TokenizerError:
    with pytest.raises(TokenizerError) as caught:
        check_template(compiled(source, tokenizer), tokenizer, **settings)  # type: ignore[arg-type]
    return caught.value


def test_a_good_template_passes_every_probe(llama: Tokenizer) -> None:
    proof, verdicts = examine_template(compiled(GOOD, llama), llama)
    assert proof is not None
    assert [verdict.error for verdict in verdicts] == [None] * 5
    assert proof.bos == "<|begin_of_text|>"
    assert proof.headers == (
        "<|start_header_id|>user<|end_header_id|>",
        "<|start_header_id|>assistant<|end_header_id|>",
    )


def test_zephyr_on_llama_names_the_mismatch_and_the_right_template(llama: Tokenizer) -> None:
    error = refused(ZEPHYR, llama)
    assert "Zephyr" in error.found
    assert "<|user|> becomes" in error.found
    assert "never learn to stop" in error.found
    assert "Llama 3" in error.expected
    assert "<|eot_id|>" in error.expected
    assert "leave `chat: template:` out" in error.remedy


def test_a_tokenizer_without_a_template_names_the_option(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TINY / "tiny-llama3", tmp_path / "base"))
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    del config["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(TokenizerError, match="No chat template") as caught:
        load_template(Template(), tmp_path, Tokenizer(read_folder(folder, "base")))
    assert "chat: template: file" in caught.value.remedy


def test_a_template_file_that_is_not_there(tmp_path: Path, llama: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="cannot be read"):
        load_template(Template(file="none.jinja"), tmp_path, llama)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ strftime_now('%Y') }}" + GOOD, "today's date"),
        ("{{ bos_token }}" + GOOD, "2 start tokens"),
        (LOOP + PROMPT, "no start token"),
        ("x" + GOOD, "inside the text"),
        (
            "{{ bos_token }}{% for m in messages if m.role != 'system' %}" + BODY + "{% endfor %}" + PROMPT,
            "dropped",
        ),
        ("{{ bos_token }}" + LOOP.replace("<|eot_id|>", "\n") + PROMPT, "no control token ends"),
        (
            "{{ bos_token }}" + LOOP.replace("m.content }}", "m.content[:3] }}") + PROMPT,
            "dropped or changed",
        ),
        (
            "{{ bos_token }}"
            + LOOP.replace("{{ m.content }}", "{% generation %}{{ m.content }}{% endgeneration %}")
            + PROMPT,
            "stop token is outside",
        ),
        ("{{ bos_token }}" + LOOP + "{% if add_generation_prompt %}next: {% endif %}", "no prefix"),
        ("{{ raise_exception('never') }}", "refuses"),
    ],
)
def test_each_fault_is_one_error(source: str, words: str, llama: Tokenizer) -> None:
    error = refused(source, llama)
    assert words in error.found
    assert error.remedy
    assert error.expected


def test_a_role_that_may_be_left_out_may_be_refused(llama: Tokenizer) -> None:
    picky = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + GOOD
    proof = check_template(compiled(picky, llama), llama)
    assert "refuses turns of: system" in proof.verdicts[0].text
    assert proof.shapes == ("ua", "uaua")
    assert "no system" in refused(picky, llama, requires=("system", "user", "assistant")).found


def test_tool_calls_must_survive_where_they_are_used(llama: Tokenizer) -> None:
    assert "dropped" in refused(GOOD, llama, tools=True).found
    own = ChatTemplate(llama.chat_template or "", name="own", specials=llama.special_texts)
    assert "survive" in check_template(own, llama, tools=True).verdicts[-1].text


def test_turn_markers_that_are_not_special_become_control_tokens(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TINY / "tiny-llama3", tmp_path / "weak"))
    state = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    for token in state["added_tokens"]:
        token["special"] = token["content"] not in ("<|start_header_id|>", "<|end_header_id|>")
    (folder / "tokenizer.json").write_text(json.dumps(state), "utf-8")
    weak = Tokenizer(read_folder(folder, "weak"))
    assert "<|start_header_id|>" not in weak.control
    proof = check_template(compiled(GOOD, weak), weak)
    assert {"<|start_header_id|>", "<|end_header_id|>"} <= set(proof.tokenizer.control)
