"""Read every file of a folder of real data and print one line a file.

    python -m benchmarks.corpora DIR [--only TEXT] [--json F] [--jobs N]

Each file goes through the pipeline in a process of its own, under a schema made from its own header: records read,
certified, set aside by reason, seconds, peak memory. Checked everywhere: no crash, no hang, every record in exactly
one place. Checked where the corpus says what is right: csv-spectrum against its JSON, JSONTestSuite by its names
(y_ accepted, n_ refused), the known counts of MTS-Dialog and PriMock57. Exits 0 only when all of it holds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.one_file import Result, read_file

SECONDS = 180
"""Longest time for one file: more is a hang."""
READ = (
    ".csv",
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".parquet",
    ".arrow",
    ".xls",
    ".xlsx",
    ".xlsm",
    ".xlsb",
    ".ods",
)

SYNTAX = {
    "json_invalid",
    "json_array_invalid",
    "json_non_finite",
    "json_too_deep",
    "json_duplicate_key",
    "json_integer_overflow",
    "text_invalid_unicode",
    "line_too_long",
    "file_encoding",
    "file_limit",
}
"""Reasons that refuse a JSON text as such."""

DECIDED_AGAINST = {
    "y_object_duplicated_key.json": "a key twice: readers disagree on which value wins",
    "y_object_duplicated_key_and_value.json": "a key twice",
}
"""Texts that the grammar allows and that cannot be trained on."""

RECORDS = {
    "MTS-Dialog-TrainingSet.csv": 1201,
    "MTS-Dialog-ValidationSet.csv": 100,
    "MTS-Dialog-TestSet-1-MEDIQA-Chat-2023.csv": 200,
    "MTS-Dialog-TestSet-2-MEDIQA-Sum-2023.csv": 200,
}

MISPRINTED = {"location_coordinates": "Contact Phone Number"}
"""Columns in which a file of csv-spectrum and its own JSON say different things."""

REF_CELLS, PRIMOCK_WORKBOOKS = 1712, 27


def main() -> int:
    """Read the files, print a line for each, and say what is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.corpora",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only files whose path holds this text")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    files = [p for p in sorted(args.folder.rglob("*")) if p.suffix.lower() in READ and p.is_file()]
    files = [p for p in files if args.only in str(p.relative_to(args.folder)) and not _oracle(p)]
    if not files:
        print(f"no file to read under {args.folder}", file=sys.stderr)
        return 2
    # A server that forks after the imports: each file's memory is its own, and costs no import.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.one_file", "pandera.polars"])
    results = []
    print(
        f"{'file':60} {'read':>7} {'certified':>9} {'aside':>6} {'blank':>6} {'s':>6} {'MB':>5}  reasons, faults"
    )
    with ThreadPoolExecutor(args.jobs) as pool:
        for result in pool.map(lambda path: _apart(context, path, args.folder), files):
            result.problems += expected_of(args.folder / result.path, result)
            results.append(result)
            _line(result)
    problems = [f"{r.path}: {problem}" for r in results for problem in r.problems]
    if not args.only:
        problems += whole(results)
    if args.json:
        args.json.write_text(json.dumps([vars(r) | {"rows": len(r.rows)} for r in results], indent=1))
    _summary(results, problems)
    return 1 if problems else 0


def _oracle(path: Path) -> bool:
    """Whether the file is the right answer for another, or a licence: not an input."""
    return path.parts[-3:-1] == ("csv-spectrum", "json") or path.stem in ("LICENSE", "README")


def _apart(context: multiprocessing.context.ForkServerContext, path: Path, root: Path) -> Result:
    name = str(path.relative_to(root))
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, path, name), daemon=False)
    process.start()
    theirs.close()
    try:
        if ours.poll(SECONDS):
            result: Result = ours.recv()
            return result
        return Result(name, problems=[f"a hang: more than {SECONDS} s"])
    except EOFError:
        process.join(10)
        return Result(name, problems=[f"a crash: exit code {process.exitcode}"])
    finally:
        process.kill()
        process.join()


def _send(pipe: Connection, path: Path, name: str) -> None:
    pipe.send(read_file(path, name))
    pipe.close()


def _line(r: Result) -> None:
    said = [f"{slug} {count}" for slug, count in sorted(r.reasons.items())]
    said += sorted(set(r.faults)) + [f"!! {problem}" for problem in r.problems]
    name = r.path if len(r.path) <= 60 else "…" + r.path[-59:]
    blank = sum(r.dropped.values())
    print(
        f"{name:60} {r.read:7} {r.certified:9} {r.quarantined:6} {blank:6} {r.seconds:6.1f} {r.peak_mb:5}  "
        + ", ".join(said),
        flush=True,
    )


def _summary(results: list[Result], problems: list[str]) -> None:
    def total(name: str) -> int:
        return sum(getattr(r, name) for r in results)

    faults = Counter(slug for r in results for slug in set(r.faults))
    print(
        f"\n{len(results)} files: {total('read')} records read = {total('certified')} certified"
        f" + {total('quarantined')} set aside + {sum(sum(r.dropped.values()) for r in results)} blank;"
        f" {sum(bool(r.faults) for r in results)} files with a fault"
        + "".join(f", {slug} {count}" for slug, count in sorted(faults.items()))
    )
    print(f"longest {max(r.seconds for r in results):.1f} s, peak {max(r.peak_mb for r in results)} MB")
    for problem in problems:
        print(f"PROBLEM {problem}")
    print("problems: none" if not problems else f"problems: {len(problems)}")


def expected_of(path: Path, result: Result) -> list[str]:
    """What is wrong with a result, as far as the corpus says what is right."""
    name = path.name
    if name in RECORDS and (result.certified, result.quarantined) != (RECORDS[name], 0):
        return [f"{RECORDS[name]} records expected"]
    if path.parent.name == "csvs":
        return _spectrum(path, result)
    if path.parent.name == "test_parsing":
        return _parsing(name, result)
    return []


def whole(results: list[Result]) -> list[str]:
    """What is wrong with a corpus as a whole."""
    books = [r for r in results if "primock57" in r.path and r.path.endswith(".xlsx")]
    if not books:
        return []
    cells = sum(r.errors["#REF!"] for r in books)
    if (len(books), cells) != (PRIMOCK_WORKBOOKS, REF_CELLS):
        return [f"primock57: {len(books)} workbooks with {cells} #REF! cells"]
    return []


def _spectrum(path: Path, result: Result) -> list[str]:
    """csv-spectrum: the cells are those of the JSON file of the same name; "" is a blank cell."""
    oracle = (path.parent.parent / "json" / f"{path.stem}.json").read_text("utf-8", "replace")
    if b"\r" not in path.read_bytes():  # a copy whose line ends were changed
        oracle = oracle.replace("\\r\\n", "\\n")
    records = json.loads(oracle)
    records = records if isinstance(records, list) else [records]
    other = MISPRINTED.get(path.stem)
    expected = [{key: value or None for key, value in record.items() if key != other} for record in records]
    rows = [{key: value for key, value in record.items() if key != other} for record in result.rows]
    return [] if rows == expected else ["differs from its JSON"]


def _parsing(name: str, result: Result) -> list[str]:
    """JSONTestSuite: whether the text itself is refused; that it is no record is another matter."""
    said = sorted({*result.reasons, *result.faults, *result.notes})
    refused = bool(SYNTAX.intersection(said))
    if name.startswith("y_") and refused != (name in DECIDED_AGAINST):
        return [f"should be accepted: {said}"]
    if name.startswith("n_") and (result.certified or not (result.quarantined or said)):
        return [f"should be refused: {result.certified} certified, {said}"]
    return []


if __name__ == "__main__":
    sys.exit(main())
