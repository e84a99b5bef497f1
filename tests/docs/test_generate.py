"""The generated pages say what the code says, and the pages by hand name what they must."""

from __future__ import annotations

import re
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
    for page in [*sorted((root / "docs").rglob("*.md")), *sorted(root.glob("*.md"))]:
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
