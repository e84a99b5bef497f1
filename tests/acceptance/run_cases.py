"""Run case folders through the real command and compare with what they expect.

    python tests/acceptance/run_cases.py DIR [--only PREFIX] [--json F] [--jobs N] [--keep FOLDER]

Prints a line a case, pass, fail or untranslated, and exits 0 only when all pass. It reads nothing but the folder (and
the tokenizers a case names beside it).
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.acceptance import gate, translate
from tests.acceptance.case import Case, Report, Untranslated
from tests.acceptance.compare import compare
from tests.acceptance.execute import lay_out, run, write_schema
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Outcome
from tests.acceptance.peek import peek
from tests.acceptance.readback import Reader
from tests.acceptance.variants import variants


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a case."""

    id: str
    status: str
    report: Report


def run_case(folder: Path, place: Path) -> Result:
    """One case, in a folder of its own."""
    case = Case.load(folder)
    try:
        if case.modality == "gate":
            report = gate.check(case, place)
        else:
            schema, unused = translate.translate(case, place)
            report = _compared(case, schema, place)
            report.unchecked += [f"schema_assumed.{key}" for key in unused]
    except Untranslated as missing:
        return Result(case.id, "untranslated", Report(mistakes=[str(missing)]))
    except Exception:  # a fault of this runner must not hide the other cases
        return Result(case.id, "fail", Report(mistakes=[traceback.format_exc(limit=-3)]))
    return Result(case.id, "fail" if report.mistakes else "pass", report)


def _compared(case: Case, schema: dict[str, Any], place: Path) -> Report:
    path = write_schema(schema, place, case)
    done = run(lay_out(case, place), place / "clean", path)
    context = Context(case, schema, done, Outcome.read(place / "clean"), _id_name(case), _reader(schema))
    report = compare(context)
    variants(context, place, report)
    return report


def _id_name(case: Case) -> str | None:
    return translate.id_field(case, peek(case.folder, case.inputs, case.field_names))


def _reader(schema: dict[str, Any]) -> Reader | None:
    tokenizer = schema.get("tokenizer")
    return Reader(Path(tokenizer["path"])) if tokenizer else None


def _folders(root: Path, prefix: str) -> list[Path]:
    found = [
        p for p in sorted(root.iterdir()) if (p / "expected.json").is_file() and p.name.startswith(prefix)
    ]
    return found or ([root] if (root / "expected.json").is_file() else [])


def _print(result: Result) -> None:
    """One case, as soon as it is done and all before it are."""
    print(f"{result.id:<10}  {result.status}", flush=True)
    for mistake in result.report.mistakes[:8]:
        print(f"              - {mistake}")
    for word in result.report.unchecked:
        print(f"              unchecked: {word}")


def _print_counts(results: list[Result]) -> None:
    counts = {status: sum(r.status == status for r in results) for status in ("pass", "fail", "untranslated")}
    print(", ".join(f"{count} {status}" for status, count in counts.items()), f"of {len(results)}")


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Run acceptance cases through the pipeline.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", metavar="PREFIX")
    parser.add_argument("--json", type=Path, metavar="F")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what each run wrote")
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a mistake may name half a surrogate pair
    folders = _folders(options.folder.resolve(), options.only)
    if not folders:
        print(f"no cases under {options.folder} that start with {options.only!r}", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        place = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cases-")))
        places = [place.resolve() / folder.name for folder in folders]
        for one in places:
            one.mkdir(parents=True)
        with ThreadPoolExecutor(options.jobs) as pool:
            results: list[Result] = []
            for result in pool.map(run_case, folders, places):
                _print(result)
                results.append(result)
    _print_counts(results)
    if options.json:
        rows = [
            {"id": r.id, "status": r.status, "mistakes": r.report.mistakes, "unchecked": r.report.unchecked}
            for r in results
        ]
        options.json.write_text(json.dumps(rows, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    return 0 if all(result.status == "pass" for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
