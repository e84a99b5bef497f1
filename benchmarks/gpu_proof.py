"""The proof that certified means it trains.

    python -m benchmarks.gpu_proof build PLACE            # needs the whole program; no GPU
    python -m benchmarks.gpu_proof train PLACE OUT        # needs a GPU, and the training side's libraries alone
    python -m benchmarks.gpu_proof table OUT > table.md

``build`` makes one dirty raw folder with every hazard of the catalogue, runs the pipeline on it, and lays out raw
tensors of each hazard as a usual script prepares them. ``train`` trains a small LayoutLMv3 and a small Llama on those
tensors, a process each, then on the certified shards of the very same data.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """One of the three commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_proof", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("place", type=Path)
    train = commands.add_parser("train")
    train.add_argument("place", type=Path)
    train.add_argument("out", type=Path)
    train.add_argument("--steps", type=int, default=1200, help="steps on the certified shards")
    train.add_argument("--device", default="cuda")
    train.add_argument("--parallel", type=int, default=8, help="processes at a time")
    train.add_argument("--only", default="", help="hazards whose name holds this text")
    commands.add_parser("table").add_argument("out", type=Path)
    told = parser.parse_args()
    if told.command == "build":
        sys.exit(_build(told.place))
    if told.command == "train":
        sys.exit(_train(told))
    print(table(json.loads((told.out / "proof.json").read_text())))


def _build(place: Path) -> int:
    from benchmarks.proof.build import build

    found = build(place.resolve())
    missed = [name for name, facts in found.items() if not judged(facts)]
    print(f"{len(found)} hazards; judged as the catalogue says: {len(found) - len(missed)}")
    for name in missed:
        print(f"  not judged: {name}: expected {found[name]['reason']}, said {found[name]['said']}")
    return 1 if missed else 0


def judged(facts: dict[str, Any]) -> bool:
    """Whether the pipeline said of a hazard what the catalogue says."""
    if facts["outcome"] == "type":
        return True
    kind = "quarantine" if facts["outcome"] == "quarantine" else "certified"
    certified = [said for said in facts["said"] if said.startswith("certified")]
    return f"{kind} {facts['reason']}" in facts["said"] and (kind == "certified" or not certified)


def _train(told: argparse.Namespace) -> int:
    from benchmarks.proof.certified import certified
    from benchmarks.proof.trial import trials

    place, out, device = told.place, told.out, told.device
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    results: dict[str, Any] = {"hazards": trials(place, device, told.parallel, told.only)}
    print(f"raw tensors: {time.perf_counter() - began:.0f} s", flush=True)
    began = time.perf_counter()
    results["certified"] = certified(place, place / "jobs", told.steps, device, max(1, told.parallel // 2))
    print(f"certified shards: {time.perf_counter() - began:.0f} s", flush=True)
    results["machine"] = _machine(device)
    (out / "proof.json").write_text(json.dumps(results, indent=2))
    bad = {
        name: facts for name, facts in results["certified"].items() if "died" in facts or not facts["finite"]
    }
    for name, facts in results["certified"].items():
        print(name, facts, flush=True)
    return 1 if bad else 0


def _machine(device: str) -> dict[str, str]:
    import torch
    import transformers

    card = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return {"card": card, "torch": torch.__version__, "transformers": transformers.__version__}


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = ["| hazard | on raw tensors | the pipeline |", "|---|---|---|"]
    for name, facts in results["hazards"].items():
        lines.append(f"| {name} | {_raw(facts)} | {_said(facts)} |")
    lines += [
        "",
        "| certified shards | steps | crashes | NaN | loss, first → last |",
        "|---|---|---|---|---|",
    ]
    for name, facts in sorted(results["certified"].items()):
        if "died" in facts:
            lines.append(f"| {name} | – | {facts['died']} | – | – |")
        else:
            nan = 0 if facts["finite"] else "some"
            lines.append(
                f"| {name} | {facts['steps']:,} | 0 | {nan} | {facts['first_loss']:.3f} → "
                f"{facts['last_loss']:.3f} |"
            )
    return "\n".join(lines)


def _raw(facts: dict[str, Any]) -> str:
    """One cell: what came of the trials, said once where they agree."""
    if "script" in facts:
        return f"the script dies while it prepares the row: `{facts['script']}`"
    outcomes: dict[str, list[str]] = {}
    for how, outcome in facts["gpu"].items():
        outcomes.setdefault(outcome.partition(":")[0], []).append(how)
    crashes = _crashes([outcome for outcome in facts["gpu"].values() if outcome.startswith("crash")])
    words = {
        "silent": "**silent**: trains on it",
        "crash": f"**crash**: {crashes}",
        "NaN loss": "**NaN** loss",
    }
    if len(outcomes) == 1:
        (outcome,) = outcomes
        return words.get(outcome, outcome)
    ordered = sorted(outcomes.items(), key=lambda item: item[0] == "silent")
    return "; ".join(f"{words.get(outcome, outcome)} ({_when(hows)})" for outcome, hows in ordered)


def _crashes(outcomes: list[str]) -> str:
    """The errors of several trials, each once, and the assert that only stderr shows."""
    errors, asserts = set(), set()
    for outcome in outcomes:
        error, _, rest = outcome.removeprefix("crash: ").partition(" [stderr: ")
        status = re.search(r"CUBLAS_\w+", error)
        errors.add(status[0] if status else error.partition(": ")[2].partition(";")[0] or error)
        if rest:
            asserts.add(re.split(r' && "|]', rest)[0])
    shown = " or ".join(f"`{error}`" for error in sorted(errors))
    return shown + (f"; on stderr alone: `{', '.join(sorted(asserts))}`" if asserts else "")


def _when(hows: list[str]) -> str:
    """In which trials: by batch where the precision makes no difference."""
    batches = {how.partition(" ")[2] for how in hows}
    both = all(f"{precision} {batch}" in hows for precision in ("float32", "bfloat16") for batch in batches)
    return ", ".join(sorted(batches if both else hows))


def _said(facts: dict[str, Any]) -> str:
    if facts["outcome"] == "type":
        return f"cannot be: {facts['said'][0]}"
    return f"{facts['outcome']} `{facts['reason']}`"


if __name__ == "__main__":
    main()
