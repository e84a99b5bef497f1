"""``python -m benchmarks [--quick] [--json F]``: our CPU time as a ratio to the floor and to the usual script."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.jobs import FULL, QUICK, chat_job, layout_job, measure
from benchmarks.measure import ROOT


def main() -> None:
    """Make the inputs, run the jobs in turns, print one JSON object a job."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--only", choices=("chat", "layout", "reading"), help="one job alone")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of each job (1 when quick, else 3)")
    parser.add_argument(
        "--tokenizers",
        type=Path,
        default=ROOT / "data_samples" / "tokenizers",
        help="folder with tokenizers (llama3 and layoutlmv3-base, or the small ones)",
    )
    options = parser.parse_args()
    sizes, rounds = (QUICK, 1) if options.quick else (FULL, 3)
    results: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for job, make in (("chat", chat_job), ("layout", layout_job)):
            if options.only in (None, job):
                made = make(folder, sizes[job], tokenizer(options.tokenizers, job))
                results.append(measure(made, options.rounds or rounds, _say))
    if options.only in (None, "reading"):
        from benchmarks import reading

        results += reading.jobs(quick=options.quick)
    for result in results:
        print(json.dumps(result))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def tokenizer(folder: Path, job: str) -> Path:
    """The tokenizer of a job: the real one where the folder has it, else the small one."""
    names = {"chat": ("llama3", "tiny-llama3"), "layout": ("layoutlmv3-base", "tiny-layoutlmv3")}[job]
    return next((folder / name).resolve() for name in names if (folder / name).is_dir())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
