"""A run for machines: the log on stderr, one JSON object a line, and the run record. Never cell text."""

from __future__ import annotations

import datetime
import json
import os
import platform
import resource
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pipeline.certificate.receipt import Receipt
from pipeline.errors import CleanroomError, Exit
from pipeline.plan import library_versions
from pipeline.report.events import SilentWatch, exit_of
from pipeline.shards.files import storage_errors, write_atomic

if TYPE_CHECKING:
    from pipeline.findings import FileNote
    from pipeline.report.events import Options, Planned, Summary


# The run record: what is true of one run and not of its result. Times, host, engine and versions stand here.


def run_record(options: Options, summary: Summary) -> dict[str, Any]:
    """Everything of one run, as plain JSON values. Seconds are wall-clock; memory is in MiB."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "root": summary.outcome.statement.root,
        "unchanged": summary.outcome.unchanged,
        "shards": {
            "written": summary.outcome.written,
            "reused": summary.outcome.reused,
            "removed": summary.outcome.removed,
        },
        "files_reused": summary.reused,
        "raw": str(options.raw),
        "clean": str(options.clean),
        "schemas": [str(path) for path in options.schemas],
        "engine": options.engine,
        "workers": options.workers,
        "seconds": {name: round(seconds, 3) for name, seconds in summary.seconds.items()},
        "cpu_seconds": round(own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime, 3),
        "peak_memory_mb": max(own.ru_maxrss, children.ru_maxrss) // 1024,
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "libraries": library_versions() | {"fastokens": _version("fastokens")},
        "notes": [
            {
                "reason": note.reason.slug,
                "source": note.source,
                "found": note.found,
                "expected": note.expected,
            }
            for note in (*summary.notes, *summary.faults)
        ],
    }


def write_run_record(path: Path, options: Options, summary: Summary) -> None:
    """Write the record as JSON, whole or not at all."""
    content = json.dumps(run_record(options, summary), indent=2) + "\n"
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content.encode(), fsync=False)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# The log for machines: one JSON object a line on stderr, the last always ``run.end``. Never cell text.


class JsonLog(SilentWatch):
    """One object an event: ``time, event`` and the event's facts."""

    def __init__(self) -> None:
        self._ended = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        facts = {}
        if isinstance(error, CleanroomError):
            facts = {"error": error.what, "where": error.where, "remedy": error.remedy}
        elif isinstance(error, Exception):
            facts = {"error": type(error).__name__}
        code = Exit.OK if error is None else exit_of(error)
        self._say("run.end", exit=int(code), published=False, **facts)

    def planned(self, plan: Planned, tasks: int) -> None:
        self._say(
            "run.plan", files=len(plan.inputs), partitions=tasks, schemas=[c.name for c in plan.contracts]
        )
        for note in (*plan.notes, *plan.faults):
            self._note(note)

    def partition(self, done: Receipt | FileNote) -> None:
        if not isinstance(done, Receipt):
            self._note(done)
            return
        self._say(
            "partition.end", source=done.source, sheet=done.sheet, chunk=done.chunk, rows_read=done.rows_read,
            certified=done.certified, quarantined=done.quarantined, reasons=dict(done.reasons),
        )  # fmt: skip

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        totals = summary.totals
        self._ended = True
        self._say(
            "run.end", exit=int(code), published=True, unchanged=summary.outcome.unchanged,
            root=summary.outcome.statement.root, rows_read=totals["rows_read"], certified=totals["certified"],
            quarantined=totals["quarantined"], reasons=totals["reasons"],
        )  # fmt: skip

    def _note(self, note: FileNote) -> None:
        self._say(
            "file.note", reason=note.reason.slug, source=note.source, found=note.found, expected=note.expected
        )

    def _say(self, event: str, **facts: Any) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        print(json.dumps({"time": now, "event": event, **facts}), file=sys.stderr, flush=True)  # noqa: T201
