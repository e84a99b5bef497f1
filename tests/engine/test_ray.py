"""The Ray engine gives what the local one gives, through dead workers too."""

from __future__ import annotations

import signal
import socket
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.engine import local
from pipeline.errors import BusyError, InputError
from tests.engine import work
from tests.engine.work import Job

pytest.importorskip("ray", reason="the engine's extra is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

from pipeline.engine import ray as engine  # noqa: E402
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


class _Slow:
    """A cluster whose task is done at the third time of asking, or never."""

    def __init__(self, head: str, ends: bool) -> None:
        self.head, self.ends, self.asked = head, ends, 0

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(gcs_address=self.head)

    def wait(self, flying: list[str], *, num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        self.asked += 1
        assert (num_returns, timeout) == (1, engine.SECONDS)
        return (flying[:1], flying[1:]) if self.ends and self.asked > 2 else ([], flying)


def test_a_cluster_lost_at_work_is_said_to_be_so() -> None:
    """Killed for real, with tasks under way: exit 75 after half a minute, not Ray's own exit 1 after one."""
    with pytest.raises(BusyError, match="was lost") as caught:
        engine._wait_for_one(_Slow("127.0.0.1:1", ends=False), ["a"])
    assert (caught.value.exit, caught.value.where) == (75, "127.0.0.1:1")


def test_slow_tasks_are_waited_for_while_the_head_answers_or_comes_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        assert engine._wait_for_one(_Slow(f"127.0.0.1:{head.getsockname()[1]}", ends=True), ["a", "b"]) == "a"
    assert engine._wait_for_one(_Slow("127.0.0.1:1", ends=True), ["a"]) == "a"


def test_a_cluster_that_someone_started_on_this_machine_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray notes it in a file that outlives it."""
    with tempfile.TemporaryDirectory(prefix="r-", dir="/tmp") as place:
        (Path(place) / "ray").mkdir()
        (Path(place) / "ray/ray_current_cluster").write_text("127.0.0.1:1")
        monkeypatch.setenv("RAY_TMPDIR", place)
        assert run_all(JOBS[:1], work.square, 1) == [0]
