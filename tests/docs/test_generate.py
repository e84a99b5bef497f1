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


def test_the_page_of_commands_names_options_as_the_command_line_does() -> None:
    page = pages()["docs/cli.md"]
    options = re.findall(r"^\| `(-[^`]*)` \|", page, re.MULTILINE)
    assert {"--set TEXT…", "--json", "--causal / --classes", "--recipe TEXT"} <= set(options)
    assert "inspect" not in page  # no default where there is none


def test_every_reason_stands_in_the_hazard_catalogue_once() -> None:
    slugs = re.findall(r"^\| `(\w+)` \|", pages()["docs/hazards.md"], re.MULTILINE)
    assert sorted(slugs) == sorted(reason.slug for reason in Reason)


def test_operations_explain_every_exit_code(root: Path) -> None:
    text = (root / "docs/operations.md").read_text(encoding="utf-8")
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert explained == {int(code) for code in Exit}


def test_every_link_between_pages_leads_somewhere(root: Path) -> None:
    for page in [*sorted((root / "docs").rglob("*.md")), *sorted(root.glob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_fence_of_a_page_is_closed(root: Path) -> None:
    """A block that is left open swallows the headings and commands below it."""
    for page in [*sorted((root / "docs").rglob("*.md")), *sorted(root.glob("*.md"))]:
        fences = re.findall(r"^```.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
        opened, closed = fences[::2], fences[1::2]
        assert len(opened) == len(closed), page.name
        assert all(fence != "```" for fence in opened), f"{page.name}: a block without a language"
        assert all(fence == "```" for fence in closed), f"{page.name}: a block is opened within a block"


def test_the_commands_to_paste_stand_under_headings_of_their_own(root: Path) -> None:
    parts = re.split(r"^## ", (root / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [part.partition("\n")[0] for part in parts if "```bash paste" in part] == [
        "Run it",
        "Run its tests",
    ]


def test_yaml_in_the_tutorials_parses(root: Path) -> None:
    blocks = [
        block
        for page in sorted((root / "docs/tutorials").glob("*.md"))
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert blocks
    assert all(isinstance(yaml.safe_load(block), dict) for block in blocks)


def test_a_readme_whose_output_block_does_not_close_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("```text output\nold\n```bash paste\ntest\n```\n", encoding="utf-8")
    monkeypatch.setattr("docs.generate.readme.ROOT", tmp_path)
    ran = subprocess.CompletedProcess([], 0, stdout="new\n")
    monkeypatch.setattr("docs.generate.readme.subprocess.run", lambda *_, **__: ran)
    with pytest.raises(ValueError, match="no closed block"):
        readme_page()
