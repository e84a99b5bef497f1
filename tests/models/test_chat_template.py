"""The chat template: transformers' language, and limits that a hostile template cannot pass."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import TokenizerError
from pipeline.models.chat_template import ChatTemplate, TemplateRefusal, TimeDependence

CHAT = [{"role": "user", "content": " Hi <b>&</b> "}, {"role": "assistant", "content": "Hello é 日本"}]

SPECIALS = {"bos_token": "<B>", "eos_token": "<E>"}


def template(source: str, **settings: Any) -> ChatTemplate:
    return ChatTemplate(source, name="test", specials={"bos": "<B>", "eos": "<E>"}, **settings)


def test_blocks_are_trimmed_as_transformers_trims_them() -> None:
    source = "{% for m in messages %}\n  {% if true %}\n{{ m.role }}\n  {% endif %}\n{% endfor %}\n"
    assert template(source).render(CHAT).text == "user\nassistant\n"


def test_generation_blocks_are_marked_where_they_stand() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    rendering = template(source).render(CHAT)
    assert [rendering.text[a:b] for a, b in rendering.spans] == ["Hello é 日本<E>"]
    assert template(source).has_generation
    assert not template("x").has_generation


def test_json_is_written_without_escaping_html() -> None:
    assert template("{{ messages[0].content | tojson }}").render(CHAT).text == '" Hi <b>&</b> "'


def test_a_refusal_carries_the_templates_words() -> None:
    with pytest.raises(TemplateRefusal, match="roles must alternate"):
        template("{{ raise_exception('roles must alternate') }}").render(CHAT)


def test_today_is_refused_and_a_pinned_date_is_given() -> None:
    source = "{{ strftime_now('%d %b %Y') }}"
    with pytest.raises(TimeDependence):
        template(source).render(CHAT)
    assert template(source, date="2024-07-26").render(CHAT).text == "26 Jul 2024"
    with pytest.raises(TokenizerError, match="is not a date"):
        template(source, date="yesterday")


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for c in messages[0].content * 9000 %}{% for d in messages[0].content * 9000 %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10000000000 }}",
        "{{ [1] * 10000000000 }}",
        "{{ 9 ** 999999999 }}",
        "{{ '%999999999d' % 1 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for a in range(99999) %}{{ messages[0].content * 900 }}{% endfor %}",
    ],
)
def test_a_template_that_would_eat_the_machine_is_refused(source: str) -> None:
    with pytest.raises(TemplateRefusal):
        template(source).render(CHAT)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% set ns = namespace(_x=1) %}",
        "{% set ns = namespace() %}{% set ns._x = 1 %}",
        "{{ dict.__init__ }}{{ dict.mro() }}",
        "{{ messages[0].content.format.__globals__ }}",
        "{{ undefined_thing.attribute }}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with contextlib.suppress(TemplateRefusal):
        assert template(source).render(CHAT).text == ""


def test_a_template_that_does_not_compile_is_one_error_with_its_line() -> None:
    with pytest.raises(TokenizerError) as caught:
        template("line one\n{% if %}")
    assert "line 2" in caught.value.found


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
def test_renderings_and_marks_are_those_of_transformers(shared: Path) -> None:
    from transformers.utils import chat_template_utils as reference

    conversation = [
        {"role": "system", "content": "Be kind."},
        *CHAT,
        {"role": "user", "content": "more"},
        CHAT[1],
    ]
    compared = 0
    for path in sorted((shared / "tokenizers" / "chat_templates").glob("*.jinja")):
        source = path.read_text("utf-8")
        ours = template(source)
        compiled = reference._compile_jinja_template(source)
        for messages in (conversation, conversation[1:], conversation[1:3]):
            try:
                rendering = ours.render(messages)
            except TimeDependence:
                assert "strftime_now" in source
                continue
            text, spans = reference._render_with_assistant_indices(
                compiled, messages, None, None, False, **SPECIALS
            )
            assert (rendering.text, list(rendering.spans)) == (text, spans)
            compared += 1
    assert compared >= 30
