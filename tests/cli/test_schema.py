"""``template check``: verdicts, a sample, and the exit code of a failed probe."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli.schema import template_app
from pipeline.errors import TokenizerError

TINY = Path(__file__).resolve().parents[2] / "data_samples" / "tokenizers" / "tiny-llama3"


def test_a_good_template_shows_its_verdicts_and_a_sample() -> None:
    result = CliRunner().invoke(
        template_app, ["check", "--tokenizer", str(TINY), "--tools"], env={"COLUMNS": "160"}
    )
    assert result.exit_code == 0
    assert "by generation markers; turns end with <|eot_id|>" in result.output
    assert "definitions, calls and results survive" in result.output
    assert "A ridge of rock or coral" in result.output
    assert "failed" not in result.output


def test_a_failed_probe_is_the_error_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "zephyr.jinja"
    path.write_text(
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token }}{% endfor %}", "utf-8"
    )
    result = CliRunner().invoke(template_app, ["check", "--tokenizer", str(TINY), "--template", str(path)])
    assert isinstance(result.exception, TokenizerError)
    assert "Zephyr" in result.exception.found
    assert "failed" in result.output


@pytest.mark.parametrize(("date", "passes"), [(None, False), ("2024-07-26", True)])
def test_a_date_can_be_pinned(tmp_path: Path, date: str | None, passes: bool) -> None:
    path = tmp_path / "dated.jinja"
    path.write_text(
        "{{ bos_token }}{{ strftime_now('%d %b %Y') }}{% for m in messages %}<|start_header_id|>{{ m.role }}"
        "<|end_header_id|>{{ m.content }}<|eot_id|>{% endfor %}"
        "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{% endif %}",
        "utf-8",
    )
    arguments = [
        "check",
        "--tokenizer",
        str(TINY),
        "--template",
        str(path),
        *(["--date", date] if date else []),
    ]
    result = CliRunner().invoke(template_app, arguments)
    assert (result.exception is None) == passes
    assert ("26 Jul 2024" in result.output) == passes
