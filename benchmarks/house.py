"""The shape of the program: how many modules there are, how they import each other, and how many one record enters.

    python -m benchmarks.house [--checkout DIR] [--json] [--against before.json]

What is counted by reading the source of ``pipeline/``:

- module: a ``.py`` file with a statement other than its docstring (an ``__init__`` that only documents is none).
- lines: all lines of the modules. Import lines: those of import statements, continued ones too.
- imports: of modules of ``pipeline/`` only, by any statement, those for type checkers and in functions included.
  Circles are counted twice: among the statements that run when a module is imported, and among all.
- functions: their number, and how many import statements stand inside one.

What is counted by running ``python -m pipeline run`` over a folder with one record, on one worker, in an empty cache:
a function is entered when its code starts while a record is on its **road**, that is between the start and the end of
the function that makes one partition into shards (``ROADS``), in whatever process: the sandbox child that reads a
workbook counts, too. A lambda or a generator expression belongs to the function around it. A module is entered
when one of its functions is. The whole run is given beside it: planning, publishing and the summary come to that.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

PACKAGE = "pipeline"
SMALL = 100
"""A module with fewer lines that only one other imports could as well be a part of it."""
ROADS = ("partition.py:process", "worker.py:process", "worker.py:process_partition")
"""File of ``pipeline/`` and function that makes one partition into shards: today's, and names it may get."""
_HOOK = """
import os, subprocess, sys, threading

FOLDER, PACKAGE, ROADS = {folder!r}, {package!r}, {roads!r}
FLAG = os.path.join(FOLDER, "on the road")

def watch():
    # Write down each function of the package when it is first entered, and when it is first entered on the road.
    file = os.open(os.path.join(FOLDER, str(os.getpid()) + ".txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    known = set()

    def place_of(code):
        # Bodies of modules and classes are not optimized code (flag 1).
        if code.co_flags & 1 and code.co_filename.startswith(PACKAGE):
            return code.co_filename[len(PACKAGE):] + ":" + code.co_qualname.split(".<locals>.<")[0]
        return ":<"

    def profile(frame, event, argument):
        if event not in ("call", "return"):
            return
        place = place_of(frame.f_code)
        if ":<" in place:
            return
        if event == "return":
            if place in ROADS:
                os.unlink(FLAG)
            return
        if place in ROADS:
            os.close(os.open(FLAG, os.O_CREAT))
        for key in ("whole", "road") if os.path.exists(FLAG) else ("whole",):
            if (key, place) not in known:
                known.add((key, place))
                os.write(file, (key + " " + place + chr(10)).encode())

    threading.setprofile(profile)
    sys.setprofile(profile)

def isolated(self, command, *arguments, **more):
    # The sandbox child starts without site and environment: it gets this text before its own.
    if isinstance(command, list) and command[:1] == [sys.executable] and "-I" in command and "-c" in command:
        at = command.index("-c") + 1
        with open(__file__) as own:
            hook = own.read().split(chr(10) + "# parent")[0]
        command = [*command[:at], hook + chr(10) + command[at], *command[at + 1 :]]
    started(self, command, *arguments, **more)

watch()
# parent
started = subprocess.Popen.__init__
subprocess.Popen.__init__ = isolated
"""


@dataclass
class Module:
    """One file of the package.

    Attributes:
        name: dotted.
        lines, import_lines: of the file.
        functions: number of ``def``.
        now, all: modules that it imports when it is imported; those in functions and for type checkers besides.
        inner: import statements inside functions.
        skips: lines with ``# fmt: skip``.
    """

    name: str
    lines: int = 0
    import_lines: int = 0
    functions: int = 0
    now: set[str] = field(default_factory=set)
    all: set[str] = field(default_factory=set)
    inner: int = 0
    skips: int = 0


def read_modules(folder: Path) -> dict[str, Module]:
    """Every module of the package below ``folder``, its imports resolved to modules of the package."""
    paths = {_dotted(path.relative_to(folder.parent)): path for path in sorted(folder.rglob("*.py"))}
    modules = {}
    for name, path in paths.items():
        module = read_module(name, path.read_text("utf-8"), paths)
        if module is not None:
            modules[name] = module
    return modules


def read_module(name: str, text: str, names: Iterable[str]) -> Module | None:
    """One module from its source; ``None`` for a file without a statement.

    Args:
        name: dotted.
        text: its source.
        names: of all modules and packages, to tell a module that is imported from a name in one.
    """
    tree = ast.parse(text)
    body = tree.body[1:] if ast.get_docstring(tree, clean=False) is not None else tree.body
    if not body:
        return None
    module = Module(name, lines=len(text.splitlines()), skips=text.count("# fmt: skip"))
    known = set(names)
    lines: set[int] = set()
    for node, inside, typing in _statements(tree, False, False):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            module.functions += 1
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        module.inner += inside
        found = set(imported(node, name, known)) - {name}
        module.all |= found
        if not typing and not inside:
            module.now |= found
    module.import_lines = len(lines)
    return module


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _statements(node: ast.AST, inside: bool, typing: bool) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Every node with whether it lies in a function, and in ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        yield child, inside, typing
        within = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for part, hidden in ((child.body, True), (child.orelse, typing)):
                for statement in part:
                    yield statement, within, hidden
                    yield from _statements(statement, within, hidden)
        else:
            yield from _statements(child, within, typing)


def imported(node: ast.Import | ast.ImportFrom, name: str, known: set[str]) -> Iterator[str]:
    """Modules of the package that a statement of module ``name`` imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
        return
    base = node.module or ""
    if node.level:
        base = ".".join([*name.split(".")[: -node.level], *([base] if base else [])])
    for alias in node.names:
        if f"{base}.{alias.name}" in known:
            yield f"{base}.{alias.name}"
        elif base in known:
            yield base


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other round about: strongly connected, of two or more (Tarjan)."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(imports.get(name, ())):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(imports):
        if name not in index:
            visit(name)
    return sorted(found)


def shape(modules: Mapping[str, Module]) -> dict[str, Any]:
    """The numbers that the source gives."""
    lines = sum(module.lines for module in modules.values())
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        for name in module.all & modules.keys():
            importers[name].add(module.name)
    single = [name for name, users in importers.items() if len(users) == 1]
    names = [name.rsplit(".", 1)[-1] for name in modules]
    return {
        "modules": len(modules),
        "lines": lines,
        "functions": sum(module.functions for module in modules.values()),
        "import share %": round(100 * sum(module.import_lines for module in modules.values()) / lines, 1),
        "modules with one importer": len(single),
        f"of those under {SMALL} lines": sum(modules[name].lines < SMALL for name in single),
        "modules whose name stands twice": sum(names.count(name) > 1 for name in names),
        "import circles when imported": circles({name: module.now for name, module in modules.items()}),
        "import circles of all imports": circles({name: module.all for name, module in modules.items()}),
        "imports inside functions": sum(module.inner for module in modules.values()),
        "fmt: skip": sum(module.skips for module in modules.values()),
    }


# ---- one record on its road


@dataclass(frozen=True)
class Input:
    """A raw folder with one record: the schema file of the checkout, and the files below ``raw/``."""

    schema: str
    files: Mapping[str, bytes]


def inputs() -> dict[str, Input]:
    """One record of each kind; all of them are certified under the schemas of the samples."""
    row = {"id": "a-01", "text": "Arrived whole and works well.", "label": "positive", "stars": "5"}
    turns = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "On its way."}]
    page = {
        "id": "p1",
        "width": 400,
        "height": 200,
        "words": ["Total", "42"],
        "labels": ["B-KEY", "B-VALUE"],
        "bboxes": [[40, 20, 120, 40], [200, 20, 240, 40]],
        "image": "images/a.png",
    }
    drawn = io.BytesIO()
    Image.new("RGB", (400, 200), "white").save(drawn, "PNG")
    table = "\n".join(",".join(cells) for cells in (row, row.values())) + "\n"
    return {
        "CSV row": Input("reviews_table.yaml", {"reviews/a.csv": table.encode()}),
        "workbook row": Input(
            "reviews_table.yaml", {"reviews/a.xlsx": workbook([list(row), list(row.values())])}
        ),
        "chat": Input(
            "support_chat_llama3.yaml",
            {"support/a.jsonl": json.dumps({"id": "c-01", "messages": turns}).encode() + b"\n"},
        ),
        "form page": Input(
            "forms_layoutlmv3.yaml",
            {"forms/a.jsonl": json.dumps(page).encode() + b"\n", "forms/images/a.png": drawn.getvalue()},
        ),
    }


def workbook(rows: list[list[str]]) -> bytes:
    """The smallest .xlsx with these cells as inline text."""
    cells = "".join(
        "<row>" + "".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in row) + "</row>"
        for row in rows
    )
    schemas, office = "http://schemas.openxmlformats.org", "officeDocument/2006/relationships"
    main, packed = f"{schemas}/spreadsheetml/2006/main", f"{schemas}/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{packed}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{packed}/relationships">'
        f'<Relationship Id="r1" Type="{schemas}/{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{schemas}/{office}">'
        '<sheets><sheet name="reviews" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{packed}/relationships">'
        f'<Relationship Id="r1" Type="{schemas}/{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>\n' + text)
    return content.getvalue()


def entered(checkout: Path, given: Input, roads: Iterable[str] = ROADS) -> dict[str, list[str]]:
    """Functions of the package that a run over one record enters.

    Returns:
        ``road`` and ``whole``: sorted ``file:function``; the road is empty where no function of ``roads`` ran.

    Raises:
        RuntimeError: the run failed, or did not certify the record.
    """
    with tempfile.TemporaryDirectory(prefix="house-") as name:
        root = Path(name).resolve()
        for place, content in given.files.items():
            (root / "raw" / place).parent.mkdir(parents=True, exist_ok=True)
            (root / "raw" / place).write_bytes(content)
        (root / "hook").mkdir()
        (root / "trace").mkdir()
        package = f"{checkout / PACKAGE}{os.sep}"
        hook = _HOOK.format(folder=str(root / "trace"), package=package, roads=tuple(roads))
        (root / "hook/sitecustomize.py").write_text(hook)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{root / 'hook'}{os.pathsep}{checkout}",
            "XDG_CACHE_HOME": str(root / "cache"),
            "HF_HUB_OFFLINE": "1",
        }
        schema = str(checkout / "schemas" / given.schema)
        command = [sys.executable, "-m", PACKAGE, "run", "raw", "clean", "--schema", schema, "--no-fsync"]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr[-2000:]}")
        totals = json.loads((root / "clean/certificate.json").read_bytes())["predicate"]["totals"]
        if (totals["certified"], totals["quarantined"]) != (1, 0):
            raise RuntimeError(
                f"{totals['certified']} certified, {totals['quarantined']} quarantined, expected 1 and 0"
            )
        lines = {
            line for path in sorted((root / "trace").glob("*.txt")) for line in path.read_text().splitlines()
        }
    found: dict[str, list[str]] = {"road": [], "whole": []}
    for line in sorted(lines):
        kind, place = line.split(" ", 1)
        found[kind].append(place)
    return found


def counted(found: Mapping[str, list[str]]) -> dict[str, int]:
    """Modules and functions on the road, and of the whole run."""
    numbers = {}
    for kind, places in found.items():
        numbers[f"modules, {kind}"] = len({place.split(":")[0] for place in places})
        numbers[f"functions, {kind}"] = len(places)
    return numbers


# ---- table


def flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """One level of names, circles as their number."""
    rows: dict[str, Any] = {}
    for name, value in result.items():
        if isinstance(value, dict):
            rows |= {f"{name}: {key}": number for key, number in value.items()}
        else:
            rows[name] = len(value) if isinstance(value, list) else value
    return rows


def table(now: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """Lines of name and number; two numbers where there is a result to compare with."""
    after, old = flat(now), flat(before) if before else None
    names = [*after, *(name for name in old or () if name not in after)]
    width = max(map(len, names))
    head = [] if old is None else [f"{'':{width}}  {'before':>8}  {'after':>8}"]
    columns = [after] if old is None else [old, after]
    rows = [
        f"{name:{width}}  " + "  ".join(f"{column.get(name, '–')!s:>8}" for column in columns)
        for name in names
    ]
    return "\n".join(head + rows)


def main() -> int:
    """Measure a checkout; print a table or JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.house",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--checkout", type=Path, default=Path(), help="whose pipeline/ is measured")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="JSON of an earlier checkout, shown beside"
    )
    parser.add_argument(
        "--result", type=Path, metavar="FILE", help="take the numbers from here instead of measuring"
    )
    parser.add_argument("--road", action="append", metavar="FILE:FUNCTION", help="besides the known ones")
    parser.add_argument(
        "--list", choices=tuple(inputs()), help="print the functions on the road of this record"
    )
    options = parser.parse_args()
    checkout, roads = options.checkout.resolve(), (*ROADS, *(options.road or ()))
    if options.list:
        print("\n".join(entered(checkout, inputs()[options.list], roads)["road"]))
        return 0
    if options.result:
        result = json.loads(options.result.read_text("utf-8"))
    else:
        result = shape(read_modules(checkout / PACKAGE))
        result |= {name: counted(entered(checkout, given, roads)) for name, given in inputs().items()}
    before = json.loads(options.against.read_text("utf-8")) if options.against else None
    print(json.dumps(result, indent=1) if options.json else table(result, before))
    if not all(result[name]["functions, road"] for name in inputs()):
        print(
            f"no function of {', '.join(roads)} ran: name the one that makes a partition with --road",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
