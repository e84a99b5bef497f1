"""``python -m benchmarks.kill_test``: SIGKILL at random moments, over inputs that keep changing.

After each kill the output folder must verify, or be refused in a way that a rerun repairs. Whenever it was refused,
and every ``--compare`` rounds, the run is repeated to its end and the folder compared, byte for byte, with a run from
scratch into another folder. Any other outcome is a violation; the exit code is then 1.

Killed are, in turns: the driver alone (its workers must end themselves), one worker, the whole process group.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.zygote import Run, Zygote
from pipeline.certificate.verify import Verdict, verify

SCHEMA = """\
version: 1
name: notes
kind: table
files: ["**/*.jsonl", "**/*.csv"]
columns:
  key: {type: text}
  text: {type: text}
  stars: {type: integer, min: 1, max: 5}
table: {text: null, label: stars}
quarantine: {max_rate: 0.9}
output: {shard_rows: 100, batch_rows: 25}
"""
REPAIRABLE = {"folder_missing", "certificate_missing", "pointer_torn", "foreign_shard"}
"""What a kill may leave: no certificate yet, pointers ahead of it, shards that nobody names yet."""


@dataclass
class Tally:
    """What the kills led to."""

    kills: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    repaired: int = 0
    compared: int = 0
    violations: list[str] = field(default_factory=list)


class Rounds:
    """The folders of one test, and a round on them."""

    def __init__(self, place: Path, zygote: Zygote, options: argparse.Namespace, tally: Tally) -> None:
        self.random = random.Random(options.seed)
        self.zygote, self.engine, self.tally = zygote, options.engine, tally
        self.raw, self.clean, self.scratch = (place / name for name in ("raw", "clean", "scratch"))
        self.schema = place / "notes.yaml"
        self.schema.write_text(SCHEMA)
        self.raw.mkdir()
        for number in range(6):
            self._write(f"{number}.jsonl")
        self.seconds = {}
        for workers in self._workers():
            shutil.rmtree(self.scratch, ignore_errors=True)
            started = time.monotonic()
            self.finish(self.scratch, workers)
            self.seconds[workers] = time.monotonic() - started

    def round(self, number: int, compare: bool) -> None:
        """Change the inputs, run, kill, judge; then perhaps repair and compare."""
        self._change()
        whom = self.random.choice(("driver", "worker", "group"))
        # Workers cost a second of imports each: fewer runs have some.
        workers = self.random.choice(self._workers()) if self.random.random() < 0.3 else min(self._workers())
        run = self._start(self.clean, workers)
        moment = self.random.choice(("any time", "at work", "commit", "commit"))
        self._wait(run, moment, workers)
        ended = self._kill(run, whom, workers)
        self.tally.ended += ended
        self.tally.kills["none: the run had ended" if ended else f"{whom}, {workers} workers"] += 1
        self.tally.moments[moment] += not ended
        verdict = verify(self.clean)
        codes = {failure.code.value for failure in verdict.failures}
        self.tally.after[", ".join(sorted(codes)) or "verifies"] += 1
        if codes - REPAIRABLE:
            self._violation(number, f"after a kill: {_words(verdict)}")
        if not verdict.ok or compare:
            self._repair(number, was_refused=not verdict.ok)

    def _repair(self, number: int, *, was_refused: bool) -> None:
        self.finish(self.clean)
        verdict = verify(self.clean, strict=True)
        if not verdict.ok:
            self._violation(number, f"after the rerun: {_words(verdict)}")
        self.tally.repaired += was_refused
        shutil.rmtree(self.scratch)
        self.finish(self.scratch)
        self.tally.compared += 1
        if _tree(self.clean) != _tree(self.scratch):
            self._violation(number, "the repaired folder is not that of a run from scratch")

    def finish(self, clean: Path, workers: int = 1) -> None:
        """Run to the end; another run that still holds the folder is waited for."""
        for _ in range(100):
            code = self.zygote.wait(self._start(clean, workers))
            if code == 0:
                return
            if code != 75:
                raise RuntimeError(f"a run ended with {code}")
            time.sleep(0.1)
        raise RuntimeError("the folder stays busy")

    def _workers(self) -> list[int]:
        return [1, 2, 3] if self.engine == "local" else [2]

    def _start(self, clean: Path, workers: int) -> Run:
        folders = ["run", str(self.raw), str(clean), "--schema", str(self.schema)]
        return self.zygote.start([*folders, "--workers", str(workers), "--engine", self.engine])

    def _wait(self, run: Run, moment: str, workers: int) -> None:
        """Until a random time; or until shards appear in staging; or until they begin to move from there."""
        if moment == "any time":
            time.sleep(self.seconds[workers] * self.random.uniform(0, 1))
            return
        most, wanted = 0, self.random.randrange(1, 12)
        while self.zygote.ended(run) is None:
            count = sum(_shards(names) for _, _, names in os.walk(self.clean / ".staging"))
            if (moment == "at work" and count >= wanted) or (moment == "commit" and count < most):
                break
            most = max(most, count)
            time.sleep(0.001)
        time.sleep(self.random.uniform(0, 0.03))

    def _kill(self, run: Run, whom: str, workers: int) -> bool:
        """Kill a run in one of the ways; whether it had ended before."""
        if self.zygote.ended(run) is not None:
            return True
        below = _children(run.pid)
        if whom == "worker" and below:
            _kill_one(self.random.choice(below))
            deadline = time.monotonic() + self.random.uniform(0, self.seconds[workers])
            while self.zygote.ended(run) is None and time.monotonic() < deadline:
                time.sleep(0.01)
        if whom == "group":
            os.killpg(run.pid, signal.SIGKILL)
        _kill_one(run.pid)
        self.zygote.wait(run)
        return False

    def _change(self) -> None:
        """Edit, add, remove or rename a file, or bring an earlier content back."""
        files = sorted(path.name for path in self.raw.iterdir())
        action = self.random.choice(("edit", "edit", "add", "remove", "rename", "nothing"))
        if action == "edit":
            self._write(self.random.choice(files))
        elif action == "add" and len(files) < 12:
            self._write(f"{self.random.randrange(100)}.jsonl")
        elif action == "remove" and len(files) > 3:
            (self.raw / self.random.choice(files)).unlink()
        elif action == "rename":
            (self.raw / self.random.choice(files)).rename(self.raw / f"{self.random.randrange(100)}.jsonl")

    def _write(self, name: str) -> None:
        seed = self.random.randrange(5)
        rows = [
            {"key": f"{seed}-{row}", "text": f"text {seed} {row} of {name}" * 3, "stars": (row + seed) % 6}
            for row in range(300)
        ]
        (self.raw / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def _violation(self, number: int, words: str) -> None:
        self.tally.violations.append(f"round {number}: {words}")
        print(self.tally.violations[-1], file=sys.stderr, flush=True)


def _shards(names: list[str]) -> int:
    return sum(name.startswith("part-") for name in names)


def _words(verdict: Verdict) -> str:
    return "; ".join(str(failure) for failure in verdict.failures[:5])


def _tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder save hidden ones."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    relative = ((path.relative_to(folder), path) for path in found)
    return {str(name): path.read_bytes() for name, path in relative if not name.parts[0].startswith(".")}


def _children(pid: int) -> list[int]:
    """Processes of the session that a run leads, itself left out."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            facts = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(facts[3]) == pid and int(stat.parent.name) != pid:
            found.append(int(stat.parent.name))
    return found


def _kill_one(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def main() -> None:
    """Kill, judge, and print the tally as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_test", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument(
        "--compare", type=int, default=10, help="compare with a run from scratch every N rounds"
    )
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the tally here")
    options = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as name, Zygote() as zygote:
        rounds = Rounds(Path(name), zygote, options, tally)
        number = 0
        while tally.kills.total() - tally.ended < options.kills and len(tally.violations) < 10:
            number += 1
            rounds.round(number, compare=number % options.compare == 0)
            if number % 50 == 0:
                print(
                    f"{number} rounds, {dict(tally.kills)}, {dict(tally.after)}", file=sys.stderr, flush=True
                )
    result = {
        "kills": tally.kills.total() - tally.ended,
        "killed": dict(tally.kills),
        "moments": dict(tally.moments),
        "after": dict(tally.after),
        "repaired": tally.repaired,
        "compared_with_scratch": tally.compared,
        "violations": tally.violations,
    }
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(bool(tally.violations))


if __name__ == "__main__":
    main()
