"""The sandbox: whatever the child does, there is one answer or one fault, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.findings import FileFault
from pipeline.readers import sandbox_parent
from pipeline.readers.sandbox_parent import Limits, run_task

ROOMY = Limits(30, 1000)


@pytest.fixture(autouse=True)
def no_child_left() -> Iterator[None]:
    sandbox_parent.release()
    yield
    sandbox_parent.release()


def frames(task: str, limits: Limits = ROOMY, **request: Any) -> list[Any]:
    return list(run_task(f"tests.readers.jobs:{task}", request, limits, "a.xlsx"))


def fault(task: str, limits: Limits = ROOMY, **request: Any) -> tuple[str, str]:
    with pytest.raises(FileFault) as caught:
        frames(task, limits, **request)
    assert caught.value.note.source == "a.xlsx"
    return caught.value.note.reason.slug, caught.value.note.found


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_frames_come_back_as_they_were_sent() -> None:
    first, second, third = frames("echo", text="é\ud83d", bytes=3_000_000)
    assert first == {"text": "é\ud83d", "bytes": 3_000_000}
    assert bytes(second) == b"\x00" * 3_000_000
    assert (third["pandas"], third["collects"]) == (False, True)


def test_a_child_that_ended_well_serves_the_next_task_and_no_other_does() -> None:
    first, second = frames("echo")[-1]["pid"], frames("echo")[-1]["pid"]
    assert first == second
    fault("fault")
    assert frames("echo")[-1]["pid"] != first


def test_a_child_that_died_while_idle_is_replaced() -> None:
    pid = frames("echo")[-1]["pid"]
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert frames("echo")[-1]["pid"] != pid


def test_a_child_of_a_large_parent_serves_the_next_task_too() -> None:
    """What the system counts as a child's peak memory begins at its parent's."""
    code = (
        "ballast = b'x' * 600_000_000\n"
        "from tests.readers.test_sandbox_parent import frames\n"
        "print(frames('echo')[-1]['pid'] == frames('echo')[-1]['pid'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_a_forked_process_has_a_child_of_its_own() -> None:
    code = (
        "import os\n"
        "from tests.readers.test_sandbox_parent import frames\n"
        "first = frames('echo')[-1]['pid']\n"
        "if (fork := os.fork()) == 0:\n"
        "    os._exit(0 if frames('echo')[-1]['pid'] not in (first, os.getppid()) else 1)\n"
        "print(os.waitpid(fork, 0)[1], frames('echo')[-1]['pid'] == first)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]


def test_two_tasks_at_once_have_two_children() -> None:
    one: Iterator[Any] = run_task("tests.readers.jobs:echo", {}, ROOMY, "a")
    other: Iterator[Any] = run_task("tests.readers.jobs:echo", {}, ROOMY, "b")
    next(one), next(other)
    assert [*one][-1]["pid"] != [*other][-1]["pid"]


def test_each_thread_has_its_own_child() -> None:
    pids = [frames("echo")[-1]["pid"]]
    thread = threading.Thread(target=lambda: pids.append(frames("echo")[-1]["pid"]))
    thread.start()
    thread.join()
    assert len(set(pids)) == 2
    assert frames("echo")[-1]["pid"] == pids[0]


@pytest.mark.parametrize("task", ["hang", "spin"])
def test_a_child_that_does_not_come_to_an_end_is_ended(task: str) -> None:
    started = time.monotonic()
    assert fault(task, Limits(1, 1000)) == ("file_limit", "more than 1 s to read")
    assert time.monotonic() - started < 10


def test_the_time_of_the_caller_is_not_the_child_s() -> None:
    count = 0
    for _ in run_task("tests.readers.jobs:slow_reader", {"count": 30}, Limits(2, 1000), "a"):
        count += 1
        time.sleep(0.1)
    assert count == 30


@pytest.mark.parametrize("task", ["greedy", "greedy_arrow"])
def test_a_child_that_wants_too_much_memory_is_ended(task: str) -> None:
    assert fault(task, Limits(30, 500)) == ("file_limit", "more than 500 MB to read")
    assert frames(task, Limits(30, 4000))[0]["held"] == 2**31


def test_what_the_task_says_of_its_file_is_the_fault() -> None:
    with pytest.raises(FileFault) as caught:
        frames("fault")
    note = caught.value.note
    assert (note.reason.slug, note.found, note.expected) == ("sheet_missing", "'a'", "'b'")


def test_a_failure_is_named_by_its_kind_and_never_by_its_words() -> None:
    assert fault("fail", words="text of a cell") == ("file_unreadable", "the parser failed (ValueError)")
    assert fault("panic") == ("file_unreadable", "the parser failed (panic)")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS"])
def test_a_crash_is_a_fault_of_the_file(name: str) -> None:
    assert fault("die", signal=name) == ("file_unreadable", f"the parser crashed (signal {name})")


def test_the_system_s_killer_means_memory() -> None:
    assert fault("die", signal="SIGKILL")[0] == "file_limit"


def test_an_early_exit_is_a_fault_of_the_file() -> None:
    assert fault("leave") == ("file_unreadable", "the parser crashed (exit code 7)")


def test_what_a_parser_prints_does_not_disturb_the_frames() -> None:
    assert frames("chatter") == [{"said": True}]


@pytest.mark.parametrize("text", ["nonsense, and more of it", "J" + "\x7f" * 8])
def test_nonsense_where_frames_should_be_is_a_fault_of_the_file(text: str) -> None:
    assert fault("babble", text=text) == ("file_unreadable", "the parser lost its way")


def test_a_task_that_is_not_there_is_an_error_of_the_program() -> None:
    with pytest.raises(RuntimeError, match="did not start"):
        frames("nothing")


def test_no_child_outlives_a_reader_that_stops_early() -> None:
    task = run_task("tests.readers.jobs:hang", {}, ROOMY, "a")
    first = next(task)
    assert isinstance(first, dict)
    task.close()  # type: ignore[attr-defined]
    assert gone(first["pid"])


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGINT"])
def test_no_child_outlives_its_parent(tmp_path: Path, name: str) -> None:
    file = tmp_path / "pid"
    # A job in the background of a shell ignores SIGINT, and so would what it starts.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pipeline.readers.sandbox_parent import *\n"
        f"for _ in run_task('tests.readers.jobs:touch', {{'file': {str(file)!r}}}, Limits(60, 1000), 'a'): pass"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    for _ in range(400):
        if file.exists() and file.read_text():
            break
        time.sleep(0.05)
    child = int(file.read_text())
    assert not gone_at_once(child)
    parent.send_signal(getattr(signal, name))
    parent.wait(20)
    assert gone(child)


def gone_at_once(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_starting_costs_no_heavy_import() -> None:
    code = (
        "import sys; from pipeline.readers.xlsx import tasks; heavy = "
        "('polars', 'pandera', 'transformers', 'pandas', 'pydantic', 'fastexcel'); "
        "print([module for module in heavy if module in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
