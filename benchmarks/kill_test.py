"""``python -m benchmarks.kill_test``: SIGKILL at random moments, over inputs that keep changing.

After each kill the output folder must verify, or be refused in a way that a rerun repairs. Whenever it was refused,
and every ``--compare`` rounds, the run is repeated to its end and the folder compared, byte for byte, with a run from
scratch into another folder, always by the local engine. Any other outcome is a violation; the exit code is then 1.

Killed are, in turns: the driver alone (its workers must end themselves), one worker, driver and workers together.
With ``--engine ray`` the workers are those of a local cluster that serves many runs; now and then its raylet or the
whole cluster is killed, and started anew. A run that loses one Ray worker must come to its end all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.changing import SCHEMA, SHARDS, RawFolder
from benchmarks.cluster import CPUS, Cluster
from benchmarks.victims import kill, kill_session, session
from benchmarks.zygote import Run, Zygote
from pipeline.certificate.failures import Verdict
from pipeline.certificate.verify import verify
from pipeline.errors import Exit

REPAIRABLE = {"folder_missing", "certificate_missing", "pointer_torn", "foreign_shard"}
"""What a kill may leave: no certificate yet, pointers ahead of it, shards that nobody names yet."""
PATIENCE = 60
"""Seconds in which a run that lost one Ray worker, or all of Ray, must end."""


@dataclass
class Tally:
    """What the kills led to."""

    kills: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    repaired: int = 0
    compared: int = 0
    violations: list[str] = field(default_factory=list)


class Rounds:
    """The folders of one test, and a round on them."""

    def __init__(self, place: Path, zygote: Zygote, cluster: Cluster | None, seed: int, tally: Tally) -> None:
        self.random = random.Random(seed)
        self.zygote, self.cluster, self.tally = zygote, cluster, tally
        self.clean, self.scratch = place / "clean", place / "scratch"
        self.raw = RawFolder(place / "raw", self.random)
        self.schema = place / "notes.yaml"
        self.schema.write_text(SCHEMA)
        self.seconds: dict[int, float] = {}
        for workers in self._workers():
            self._finish(self.clean, workers)
            self.raw.change()
        self._finish(self.scratch, local=True)

    def round(self, compare: bool) -> None:
        """Change the inputs, run, kill, judge; then perhaps repair and compare."""
        self.tally.rounds += 1
        changed = self.raw.change()
        # Workers cost a second of imports each: fewer runs have some.
        few = self.cluster is None and self.random.random() < 0.7
        workers = min(self._workers()) if few else self.random.choice(self._workers())
        whom = self._victim(workers)
        run, started = self._start(self.clean, workers), time.monotonic()
        moment = self._moment(whom) if changed else "any time"
        self._wait(run, moment, workers, changed * SHARDS)
        if (code := self.zygote.ended(run)) is not None:
            if code not in (Exit.OK, Exit.BUSY):
                self._violation(f"a run that nobody killed ended with {code}")
            self._learn(workers, time.monotonic() - started)
            self.tally.kills["none: the run had ended"] += 1
        else:
            self.tally.moments[moment] += 1
            whom = self._kill(run, whom, workers)
            self.tally.kills[f"{whom}, {workers} workers"] += 1
        verdict = verify(self.clean)
        codes = {failure.code.value for failure in verdict.failures}
        self.tally.after[", ".join(sorted(codes)) or "verifies"] += 1
        if codes - REPAIRABLE:
            self._violation(f"after a kill of {whom}: {_words(verdict)}")
        if self.cluster is not None and self.cluster.raylet is None:
            self.cluster.kill()
            self.cluster.start()
        if not verdict.ok or compare:
            self._repair(was_refused=not verdict.ok)

    @property
    def kills(self) -> int:
        """Runs that were killed, or lost a worker, before their end."""
        return sum(count for name, count in self.tally.kills.items() if not name.startswith("none"))

    def _repair(self, *, was_refused: bool) -> None:
        self._finish(self.clean, max(self._workers()), local=self.random.random() < 0.5)
        verdict = verify(self.clean, strict=True)
        if not verdict.ok:
            self._violation(f"after the rerun: {_words(verdict)}")
        self.tally.repaired += was_refused
        shutil.rmtree(self.scratch)
        self._finish(self.scratch, local=True)
        self.tally.compared += 1
        if _tree(self.clean) != _tree(self.scratch):
            self._violation("the repaired folder is not that of a run from scratch")

    def _finish(self, clean: Path, workers: int = 1, *, local: bool = False) -> None:
        """Run to the end; another run that still holds the folder is waited for."""
        workers = 1 if local else workers
        for _ in range(100):
            started = time.monotonic()
            code = self.zygote.wait(self._start(clean, workers, local=local))
            if code == 0:
                if not local:
                    self._learn(workers, time.monotonic() - started)
                return
            if code != 75:
                raise RuntimeError(f"a run ended with {code}")
            time.sleep(0.1)
        raise RuntimeError("the folder stays busy")

    def _learn(self, workers: int, seconds: float) -> None:
        """How long a run takes, of late."""
        self.seconds[workers] = 0.7 * self.seconds.get(workers, seconds) + 0.3 * seconds

    def _workers(self) -> list[int]:
        return [1, 2, 3] if self.cluster is None else [CPUS]

    def _victim(self, workers: int) -> str:
        if self.cluster is not None:
            return self.random.choice(("driver", "worker", "group") * 6 + ("raylet", "cluster"))
        return self.random.choice(("driver", "worker", "group") if workers > 1 else ("driver", "group"))

    def _moment(self, whom: str) -> str:
        """Workers are gone when the commit begins."""
        moments = ("any time", "at work") if whom == "worker" else ("any time", "at work", "commit", "commit")
        return self.random.choice(moments)

    def _start(self, clean: Path, workers: int, *, local: bool = False) -> Run:
        engine = "local" if local or self.cluster is None else "ray"
        folders = ["run", str(self.raw.path), str(clean), "--schema", str(self.schema)]
        return self.zygote.start([*folders, "--workers", str(workers), "--engine", engine])

    def _wait(self, run: Run, moment: str, workers: int, shards: int) -> None:
        """Until a random time; or until shards appear in staging; or until they begin to move from there."""
        if moment == "any time":
            time.sleep(self.seconds[workers] * self.random.uniform(0, 1))
            return
        most, wanted = 0, self.random.randint(1, shards)
        while self.zygote.ended(run) is None:
            count = sum(_shards(names) for _, _, names in os.walk(self.clean / ".staging"))
            if (moment == "at work" and count >= wanted) or (moment == "commit" and count < most):
                break
            most = max(most, count)
            time.sleep(0.001)
        time.sleep(0.03 * self.random.random() ** 2)

    def _kill(self, run: Run, whom: str, workers: int) -> str:
        """Kill what a round is about, later on the driver where it lives, and see that nothing lives on.

        Gives what was killed first: the driver, where there was no worker.
        """
        others = sorted(session(run.pid)) if self.cluster is None else self.cluster.workers()
        whom = "driver" if whom == "worker" and not others else whom
        if whom == "worker":
            kill(self.random.choice(others))
            # A run on Ray starts the task again; a local one ends itself.
            goes_on = self.cluster is not None and self.random.random() < 0.5
            code = self._see(run, PATIENCE if goes_on else self.random.uniform(0, self.seconds[workers]))
            self.tally.endings[f"a worker lost: {'killed later' if code is None else f'exit {code}'}"] += 1
            if goes_on and code != 0:
                self._violation(f"a run that lost one worker ended with {code}")
        if self.cluster is not None and whom in ("raylet", "cluster"):
            self.cluster.kill() if whom == "cluster" else self.cluster.kill_raylet()
            goes_on = self.random.random() < 0.2
            code = self._see(run, PATIENCE if goes_on else self.random.uniform(0, 10))
            if goes_on and code not in (0, 75):
                self._violation(f"a run that lost the {whom} ended with {code}")
            self.tally.endings[f"the {whom} lost: {'killed later' if code is None else f'exit {code}'}"] += 1
        if whom == "group":
            for one in (run.pid, *others):
                kill(one)
        kill(run.pid)
        self.zygote.wait(run)
        if whom == "group":
            kill_session(run.pid)
        return whom

    def _see(self, run: Run, seconds: float) -> int | None:
        """Exit code of a run, when it ends by itself within that time."""
        deadline = time.monotonic() + seconds
        while (code := self.zygote.ended(run)) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return code

    def _violation(self, words: str) -> None:
        self.tally.violations.append(f"round {self.tally.rounds}: {words}")
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
    tally, started = Tally(), time.monotonic()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kill-")))
        cluster = stack.enter_context(Cluster(place / "ray")) if options.engine == "ray" else None
        zygote = stack.enter_context(Zygote(cluster.environment if cluster else {}))
        rounds = Rounds(place, zygote, cluster, options.seed, tally)
        while rounds.kills < options.kills and len(tally.violations) < 10:
            rounds.round(compare=tally.rounds % options.compare == 0)
            if tally.rounds % 50 == 0:
                _tell(rounds, time.monotonic() - started)
        kills = rounds.kills
    result = {
        "engine": options.engine,
        "seconds": round(time.monotonic() - started),
        "rounds": tally.rounds,
        "kills": kills,
        "killed": dict(tally.kills),
        "moments": dict(tally.moments),
        "endings": dict(tally.endings),
        "after": dict(tally.after),
        "cluster_starts": cluster.starts if cluster else 0,
        "repaired": tally.repaired,
        "compared_with_scratch": tally.compared,
        "violations": tally.violations,
    }
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(bool(tally.violations))


def _tell(rounds: Rounds, seconds: float) -> None:
    tally = rounds.tally
    words = (
        f"{seconds:.0f} s, {tally.rounds} rounds, {rounds.kills} kills, {len(tally.violations)} violations"
    )
    print(f"{words}; {dict(tally.kills)}, {dict(tally.after)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
