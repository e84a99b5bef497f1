"""The Ray engine gives what the local one gives, through dead workers too."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pipeline.engine import local
from pipeline.errors import BusyError, InputError
from tests.engine import work
from tests.engine.work import Job

pytest.importorskip("ray", reason="the engine's extra is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

from pipeline.engine.ray import run_all  # noqa: E402

JOBS = [Job(f"{i}.csv", i) for i in range(8)]


def test_results_come_in_the_order_of_the_tasks() -> None:
    seen: list[int] = []
    results = run_all(JOBS, work.square, 2, seen.append)
    assert results == local.run_all(JOBS, work.square, 2)
    assert sorted(seen) == results
    assert run_all([], work.square, 2) == []


def test_a_worker_killed_once_is_replaced(tmp_path: Path) -> None:
    jobs = [Job("a", 0, tmp_path), Job("b", 1, tmp_path)]
    assert run_all(jobs, work.die_once, 2) == [0, 1]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_worker_killed_each_time_is_named_with_what_it_held() -> None:
    with pytest.raises(BusyError, match="died again") as caught:
        run_all([Job("good.csv"), Job("bad.csv")], work.die, 2)
    assert caught.value.where == "bad.csv"
    assert caught.value.exit == 75


def test_an_error_arrives_as_it_was_raised() -> None:
    with pytest.raises(InputError) as caught:
        run_all([Job("input"), Job("input")], work.fail, 2)
    assert (caught.value.where, caught.value.remedy) == ("a.csv", "put it there")


def test_the_runs_own_answer_to_sigterm_stays() -> None:
    def answer(*_: object) -> None: ...

    held = signal.signal(signal.SIGTERM, answer)
    try:
        run_all(JOBS[:1], work.process, 1)
        assert signal.getsignal(signal.SIGTERM) is answer
    finally:
        signal.signal(signal.SIGTERM, held)


def test_a_cluster_that_is_not_there_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(BusyError, match="cannot be reached"):
        run_all(JOBS[:1], work.process, 1)


def test_no_tasks_need_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert run_all([], work.process, 1) == []
