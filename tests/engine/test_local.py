"""The local engine: order of the tasks, clear ends, no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.engine.local import run_all
from pipeline.errors import BusyError, InputError
from tests.engine import work
from tests.engine.work import Job

JOBS = [Job(f"{i}.csv", i) for i in range(8)]


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_tasks(workers: int) -> None:
    seen: list[int] = []
    results = run_all(JOBS, work.square, workers, seen.append)
    assert results == [i**2 for i in range(8)]
    assert sorted(seen) == results


def test_one_task_or_one_worker_needs_no_other_process() -> None:
    assert run_all(JOBS[:1], work.process, 4) == [os.getpid()]
    assert set(run_all(JOBS, work.process, 1)) == {os.getpid()}
    assert os.getpid() not in run_all(JOBS, work.process, 2)
    assert run_all([], work.process, 4) == []


def test_a_killed_worker_is_named_with_what_it_held() -> None:
    jobs = [Job("good.csv"), Job("bad.csv"), Job("other.csv")]
    with pytest.raises(BusyError) as caught:
        run_all(jobs, work.die, 2)
    assert caught.value.where == "bad.csv"
    assert "SIGKILL" in caught.value.found
    assert caught.value.exit == 75


def test_a_worker_that_leaves_is_no_hang() -> None:
    with pytest.raises(BusyError, match="died") as caught:
        run_all([Job("bad.csv"), Job("good.csv")], work.leave, 2)
    assert caught.value.found == "exit code 3"


def test_an_error_arrives_as_it_was_raised_and_ends_the_others() -> None:
    started = time.monotonic()
    with pytest.raises(InputError) as caught:
        run_all([Job("slow"), Job("input")], work.fail, 2)
    assert (caught.value.where, caught.value.remedy) == ("a.csv", "put it there")
    assert time.monotonic() - started < 30


def test_an_unexpected_error_says_where_it_was_raised() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_all([Job("bug"), Job("bug")], work.fail, 2)
    assert any("in fail" in note for note in caught.value.__notes__)


def test_an_error_that_does_not_pickle_arrives_in_words() -> None:
    with pytest.raises(RuntimeError, match="Stubborn: stubborn about x"):
        run_all([Job("stubborn"), Job("stubborn")], work.fail, 2)


def test_no_worker_outlives_a_killed_driver(tmp_path: Path, root: Path) -> None:
    code = (
        "from pathlib import Path; from pipeline.engine.local import run_all; from tests.engine.work import *\n"
        f"if __name__ == '__main__': run_all([Job('a', 0, Path({str(tmp_path)!r}))] * 2, linger, 2)"
    )
    script = tmp_path / "driver.py"
    script.write_text(code)
    environment = os.environ | {"PYTHONPATH": str(root)}
    driver = subprocess.Popen([sys.executable, script], cwd=root, env=environment)
    try:
        workers = _wait_for_workers(tmp_path, 2)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    deadline = time.monotonic() + 20
    while any(_lives(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker is still there"
        time.sleep(0.05)


def _wait_for_workers(folder: Path, count: int) -> list[int]:
    deadline = time.monotonic() + 60
    while len(found := list(folder.glob("*.pid"))) < count:
        assert time.monotonic() < deadline, "the workers did not start"
        time.sleep(0.05)
    return [int(path.stem) for path in found]


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
