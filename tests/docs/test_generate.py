"""The generated pages say what the code says, and the pages by hand name what they must."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from docs.generate.__main__ import pages
from docs.generate.readme import readme_page
from pipeline.errors import Exit
from pipeline.reasons import Reason


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_generated_page_is_up_to_date(root: Path, name: str) -> None:
    assert (root / name).read_text(encoding="utf-8") == pages()[name], "run `python -m docs.generate`"


@pytest.mark.slow
def test_the_readme_shows_what_the_run_says(root: Path) -> None:
    assert (root / "README.md").read_text(encoding="utf-8") == readme_page(), (
        "run `python -m docs.generate --readme`"
    )


def test_every_reason_stands_in_the_hazard_catalogue_once() -> None:
    slugs = re.findall(r"^\| `(\w+)` \|", pages()["docs/hazards.md"], re.MULTILINE)
    assert sorted(slugs) == sorted(reason.slug for reason in Reason)


def test_operations_explain_every_exit_code(root: Path) -> None:
    text = (root / "docs/operations.md").read_text(encoding="utf-8")
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert explained == {int(code) for code in Exit}


def test_every_link_between_pages_leads_somewhere(root: Path) -> None:
    for page in markdown_pages(root):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_yaml_in_the_tutorials_parses(root: Path) -> None:
    blocks = [
        block
        for page in sorted((root / "docs/tutorials").glob("*.md"))
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert blocks
    assert all(isinstance(yaml.safe_load(block), dict) for block in blocks)


def fences(page: Path) -> list[tuple[int, str, str]]:
    """Each code block of a page: line of its opening fence from 1, what stands behind that fence, nearest heading
    of the lines between it and the block before it (empty: none).

    Raises:
        AssertionError: a block does not close, or a block is opened inside another.
    """
    blocks, opened, heading = [], 0, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```") and opened:
            assert line == "```", f"{page.name}:{number}: {line} inside the block of line {opened}"
            opened = 0
        elif line.startswith("```"):
            blocks.append((number, line.removeprefix("```"), heading))
            opened, heading = number, ""
        elif not opened and line.startswith("#"):
            heading = line
    assert not opened, f"{page.name}:{opened}: the block does not close"
    return blocks


def markdown_pages(root: Path) -> list[Path]:
    return [*sorted((root / "docs").rglob("*.md")), *sorted(root.glob("*.md"))]


def test_every_code_block_of_every_page_closes(root: Path) -> None:
    assert sum(len(fences(page)) for page in markdown_pages(root)) > 10


def test_each_command_to_paste_stands_under_a_heading_of_its_own(root: Path) -> None:
    commands = [
        (page.name, line, heading)
        for page in markdown_pages(root)
        for line, language, heading in fences(page)
        if language == "bash paste"
    ]
    assert len(commands) >= 2
    assert [command for command in commands if not command[2].startswith("## ")] == []


@pytest.mark.parametrize(
    "text", ["```text\nno end\n", "```text\nrun\n```bash paste\ntest\n```\n"], ids=["open", "one in another"]
)
def test_a_block_that_does_not_close_is_found(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError, match=r"page\.md"):
        fences(page)


def test_a_readme_whose_output_block_does_not_close_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("```text output\nold\n```bash paste\ntest\n", encoding="utf-8")
    monkeypatch.setattr("docs.generate.readme.ROOT", tmp_path)
    ran = subprocess.CompletedProcess([], 0, stdout="new\n")
    monkeypatch.setattr("docs.generate.readme.subprocess.run", lambda *_, **__: ran)
    with pytest.raises(ValueError, match="0 output blocks"):
        readme_page()
