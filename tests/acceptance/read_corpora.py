"""Read every file of a folder of real data and print one line a file.

    python tests/acceptance/read_corpora.py DIR [--only TEXT] [--json F] [--jobs N]

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

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.acceptance.corpus_expectations import expected_of, whole
from tests.acceptance.corpus_file import Result, read_file

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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only files whose path holds this text")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    files = [p for p in sorted(args.folder.rglob("*")) if p.suffix.lower() in READ and p.is_file()]
    files = [p for p in files if args.only in str(p.relative_to(args.folder)) and not _oracle(p)]
    # A server that forks after the imports: each file's memory is its own, and costs no import.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.acceptance.corpus_file", "pandera.polars"])
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


if __name__ == "__main__":
    sys.exit(main())
