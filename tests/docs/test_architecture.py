"""The pages about the code name modules and functions that exist, and the imports go the way they say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

MENTION = re.compile(r"`([\w/]+\.py)(?::([\w.]+))?`")
"""``file.py`` or ``file.py:name`` in code type."""
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")


def section(page: Path, heading: str) -> str:
    """The text below a heading of the second level."""
    found = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    assert found, f"{page.name} has no heading {heading!r}"
    return found.partition("\n## ")[0]


def names_in(file: Path) -> set[str]:
    """Functions, classes, constants of a module; methods as ``Class.method``."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)
            }
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def modules(root: Path) -> set[str]:
    """Every module of the package by its path below it, without ``__init__``."""
    package = root / "pipeline"
    files = (path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    return {file for file in files if not file.endswith("__init__.py")}


@pytest.mark.parametrize("page", PAGES)
def test_every_module_and_function_that_a_page_names_exists(root: Path, page: str) -> None:
    mentions = MENTION.findall((root / page).read_text(encoding="utf-8"))
    assert mentions
    missing = []
    for file, name in mentions:
        path = root / "pipeline" / file
        path = path if path.is_file() else root / file
        if not path.is_file() or (name and name not in names_in(path)):
            missing.append(f"{file}:{name}".removesuffix(":"))
    assert missing == []


def test_the_tree_of_the_architecture_has_each_module_once(root: Path) -> None:
    folders: list[str] = []
    listed: list[str] = []
    for line in section(root / "docs/architecture.md", "The modules").splitlines():
        if not line.startswith("      "):
            continue
        depth, (name, *words) = (len(line) - len(line.lstrip()) - 6) // 2, line.split()
        folders[depth:] = [name] if name.endswith("/") else []
        if not name.endswith("/"):
            assert words, f"{name} stands there without a word on it"
            listed.append("".join(folders) + name)
    assert len(listed) == len(set(listed))
    assert set(listed) == modules(root)


def imports_of(root: Path, module: str) -> Iterator[str]:
    """The place in the package of each module that a module imports, type annotations included."""
    tree = ast.parse((root / "pipeline" / module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        named: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        for name in named:
            package, _, rest = name.partition(".")
            if package == "pipeline" and rest and not rest.startswith("_") and rest != "SEMANTICS":
                yield rest.partition(".")[0]


def test_imports_run_the_way_that_the_architecture_says(root: Path) -> None:
    table = section(root / "docs/architecture.md", "Imports run one way")
    rows = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
    level = {place: number for number, row in enumerate(rows) for place in re.findall(r"`(\w+)`", row)}
    places = {module.partition("/")[0].removesuffix(".py") for module in modules(root)} - {"__main__"}
    assert set(level) == places
    upwards = [
        f"{module} imports {imported}"
        for module in sorted(modules(root) - {"__main__.py"})
        for imported in imports_of(root, module)
        if (own := module.partition("/")[0].removesuffix(".py")) != imported and level[imported] <= level[own]
    ]
    assert upwards == []
