"""Skeletons: where a template is proven to copy contents, filling the skeleton is rendering."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.chat_template import ChatTemplate
from pipeline.models.template_pattern import Unproven, template_pattern
from pipeline.models.template_proof import copies_content

STOPS = re.compile(r"<\|[a-z_]+\|>")
HEAD = "{% for m in messages %}<|start|>{{ m.role }}\n"
PLAIN = HEAD + "{{ m.content }}<|end|>{% endfor %}"
TINY = Path(__file__).resolve().parents[2] / "data_samples" / "tokenizers" / "tiny-llama3"
OWN = json.loads((TINY / "tokenizer_config.json").read_text("utf-8"))["chat_template"]


def compiled(source: str) -> ChatTemplate:
    return ChatTemplate(source, name="test", specials={"bos": "<|begin|>", "eos": "<|end|>"})


COPYING = {
    "plain": PLAIN,
    "trimmed": HEAD + "{{ m.content | trim }}<|end|>{% endfor %}",
    "assigned": "{% set text = '' %}"
    + HEAD
    + "{% set text = m['content'] | trim %}{{ text + '<|end|>' }}{% endfor %}",
    "by role": HEAD
    + "{% if m.role == 'user' and not loop.first %}+{% endif %}{{ m.content ~ '<|end|>' }}{% endfor %}",
    "type tests": HEAD
    + "{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0] }}{% endif %}<|end|>"
    "{% endfor %}",
    "namespace": "{% set ns = namespace(n=0) %}"
    + HEAD
    + "{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ m.content }}<|end|>"
    "{% endfor %}",
    "system first": "{% if messages[0]['role'] == 'system' %}{% set s = messages[0]['content'] %}"
    "{% set messages = messages[1:] %}{% else %}{% set s = '' %}{% endif %}<|sys|>{{ s }}<|end|>" + PLAIN,
}
DECIDING = {
    "in": HEAD + "{% if '</think>' in m.content %}!{% endif %}{{ m.content }}<|end|>{% endfor %}",
    "split": HEAD + "{{ m.content.split('x')[-1] }}<|end|>{% endfor %}",
    "length": HEAD + "{% if m.content | length > 3 %}!{% endif %}{{ m.content }}<|end|>{% endfor %}",
    "compare": HEAD + "{% if m.content == 'x' %}!{% endif %}{{ m.content }}<|end|>{% endfor %}",
    "index": HEAD + "{{ m.content[0] }}<|end|>{% endfor %}",
    "replace": HEAD + "{{ m.content | replace('x', 'y') }}<|end|>{% endfor %}",
    "upper": HEAD + "{{ m.content | upper }}<|end|>{% endfor %}",
    "whole message": HEAD + "{{ m | tojson }}<|end|>{% endfor %}",
    "through a name": HEAD + "{% set t = m.content %}{% if t == 'x' %}!{% endif %}{{ t }}<|end|>{% endfor %}",
    "through a namespace": "{% set ns = namespace() %}"
    + HEAD
    + "{% set ns.t = m.content %}{% if ns.t.startswith('x') %}!{% endif %}{{ m.content }}<|end|>{% endfor %}",
    "through a loop": HEAD + "{% for c in m.content %}{{ c }}{% endfor %}<|end|>{% endfor %}",
    "previous": HEAD
    + "{% if loop.previtem and loop.previtem.content == 'x' %}!{% endif %}{{ m.content }}<|end|>"
    "{% endfor %}",
    "macro": "{% macro show(t) %}{{ t }}{% endmacro %}" + HEAD + "{{ show(m.content) }}<|end|>{% endfor %}",
    "selected": HEAD
    + "{{ (messages | selectattr('content', 'equalto', 'x') | list | length) }}<|end|>{% endfor %}",
    "get": HEAD + "{% if m.get('content') == 'x' %}!{% endif %}{{ m.content }}<|end|>{% endfor %}",
    "else of a name": "{% set t = '' %}"
    + HEAD
    + "{% if m.role == 'user' %}{% set t = m.content %}{% endif %}{% if t %}{% elif m.content == 'x' %}!{% endif %}"
    "{{ m.content }}<|end|>{% endfor %}",
}


@pytest.mark.parametrize("name", COPYING)
def test_templates_that_only_copy_are_proven(name: str) -> None:
    assert copies_content(compiled(COPYING[name]).tree)


@pytest.mark.parametrize("name", DECIDING)
def test_templates_that_may_decide_by_the_text_are_not(name: str) -> None:
    assert not copies_content(compiled(DECIDING[name]).tree)


contents = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("x \n\t\"'<>{}%|\\"), min_size=1, max_size=12
).filter(lambda text: bool(text.strip()))
shapes = st.sampled_from(["ua", "sua", "uaua", "suaua"])
NAMES = {"s": "system", "u": "user", "a": "assistant"}


@pytest.mark.parametrize("source", [*COPYING.values(), OWN], ids=[*COPYING, "tiny-llama3"])
@given(letters=shapes, texts=st.lists(contents, min_size=5, max_size=5))
def test_filling_the_skeleton_is_rendering(source: str, letters: str, texts: list[str]) -> None:
    template = compiled(source)
    roles = [NAMES[letter] for letter in letters]
    try:
        bones = template_pattern(template, roles, STOPS)
    except Unproven:
        assert source == COPYING["system first"]
        return
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    rendering = template.render(messages)
    assert bones.fill(texts[: len(roles)]) == rendering.text
    if template.has_generation:
        assert bones.spans(texts[: len(roles)]) == rendering.spans


def test_the_answer_and_its_stop_token_are_what_is_trained() -> None:
    bones = template_pattern(compiled(PLAIN), ["user", "assistant"], STOPS)
    text = bones.fill(["question", "answer"])
    assert text == "<|start|>user\nquestion<|end|><|start|>assistant\nanswer<|end|>"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (HEAD + "<|end|>{% endfor %}", "dropped"),
        (HEAD + "{{ m.content }}{{ m.content }}<|end|>{% endfor %}", "repeated"),
        ("{% for m in messages[::-1] %}{{ m.content }}<|end|>{% endfor %}", "reordered"),
        (HEAD + "{{ m.content | upper }}<|end|>{% endfor %}", "dropped"),
        (HEAD + "{{ m.content | tojson }}<|end|>{% endfor %}", "dropped"),
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "no control token"),
        (HEAD + "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}?{% endif %}", "no prefix"),
        (
            HEAD + "{% generation %}{{ m.content }}{% endgeneration %}<|end|>{% endfor %}",
            "stop token is outside|block holds no",
        ),
        (
            "{% generation %}" + PLAIN + "{% endgeneration %}",
            "no generation block|another turn",
        ),
        (
            HEAD + "{% if m.role == 'user' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}"
            "{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}",
            "no generation block",
        ),
        (HEAD + "{{ m.content.strip(' ') }}<|end|>{% endfor %}", "in its own way"),
    ],
)
def test_what_cannot_be_proven_is_said(source: str, words: str) -> None:
    template = compiled(source)
    with pytest.raises(Unproven, match=words):
        template_pattern(template, ["user", "assistant"], STOPS)
