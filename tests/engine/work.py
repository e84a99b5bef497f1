"""Work that the engines' tests send to other processes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import InputError


@dataclass(frozen=True)
class Job:
    """A task: what it is called, and what it does."""

    source: str
    number: int = 0
    folder: Path = Path()


def square(job: Job) -> int:
    """Later tasks finish first."""
    time.sleep(max(0, 4 - job.number) * 0.02)
    return job.number**2


def die(job: Job) -> int:
    """One of the tasks is killed as the system does when memory runs out."""
    if job.source == "bad.csv":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return 0


def die_once(job: Job) -> int:
    """Each task's first attempt is killed."""
    mark = job.folder / job.source
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return job.number


def leave(job: Job) -> int:
    """One of the tasks ends its process."""
    if job.source == "bad.csv":
        os._exit(3)
    return 0


class Stubborn(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, *, name: str) -> None:
        super().__init__()
        self.name = name

    def __str__(self) -> str:
        return f"stubborn about {self.name}"


def fail(job: Job) -> int:
    """Raise what the task asks for."""
    if job.source == "input":
        raise InputError("is not there", where="a.csv", remedy="put it there")
    if job.source == "stubborn":
        raise Stubborn(name="x")
    if job.source == "bug":
        return 1 // job.number
    time.sleep(60)
    return 0


def process(job: Job) -> int:
    """The process that did it."""
    return os.getpid()


def linger(job: Job) -> int:
    """Say who works here, then work for long."""
    (job.folder / f"{os.getpid()}.pid").touch()
    time.sleep(120)
    return 0
