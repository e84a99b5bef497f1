"""The measures of the source: lines of imports, importers, circles."""

from __future__ import annotations

from benchmarks.house import Module, circles, read_module, shape, table

NAMES = ("p", "p.a", "p.b", "p.c")
SOURCE = '''"""Text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from p import (
    a,
)

if TYPE_CHECKING:
    from p.c import Thing


def f() -> int:
    from .b import g

    return g()  # fmt: skip
'''


def test_a_module_is_read_with_all_its_imports() -> None:
    module = read_module("p.x", SOURCE, NAMES)
    assert module is not None
    assert (module.now, module.all) == ({"p.a"}, {"p.a", "p.b", "p.c"})
    assert (module.lines, module.import_lines, module.functions) == (18, 7, 1)
    assert (module.inner, module.skips) == (1, 1)


def test_a_package_that_only_documents_is_no_module() -> None:
    assert read_module("p", '"""What is here."""\n', NAMES) is None
    assert read_module("p", "", NAMES) is None


def test_a_circle_is_named_by_its_modules() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": {"e"}}
    assert circles(imports) == [["b", "c"]]


def test_the_shape_counts_modules_with_one_importer() -> None:
    modules = {
        "p.a": Module("p.a", lines=50),
        "p.b": Module("p.b", lines=150, import_lines=10, now={"p.a"}, all={"p.a"}),
        "p.c.b": Module("p.c.b", lines=300, import_lines=15, now={"p.b"}, all={"p.b"}),
    }
    found = shape(modules)
    assert (found["modules"], found["lines"], found["import share %"]) == (3, 500, 5.0)
    assert (found["modules with one importer"], found["of those under 100 lines"]) == (2, 1)
    assert found["modules whose name stands twice"] == 2


def test_the_table_shows_both() -> None:
    assert table({"modules": 2, "chat": {"road": 3}}, {"modules": 4}).splitlines()[1:] == [
        "modules            4         2",
        "chat: road         –         3",
    ]
