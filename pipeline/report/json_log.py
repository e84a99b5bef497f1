"""JSON for machines: the log of a run on stderr, one object per line, and the run record. Neither holds cell text."""

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


def run_record(options: Options, summary: Summary) -> dict[str, Any]:
    """The run record: what belongs to one run and not to its result (times, host, engine, versions).

    Plain JSON values; ``seconds`` are wall-clock seconds, ``peak_memory_mb`` is in MiB.
    """
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
    """Write the run record atomically; raises ``StorageError``."""
    content = json.dumps(run_record(options, summary), indent=2) + "\n"
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content.encode(), fsync=False)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


class JsonLog(SilentWatch):
    """Writes one JSON object per event: ``time``, ``event`` and the values of the event; the last is ``run.end``."""

    def __init__(self) -> None:
        self._ended = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        values = {}
        if isinstance(error, CleanroomError):
            values = {"error": error.what, "where": error.where, "remedy": error.remedy}
        elif isinstance(error, Exception):
            values = {"error": type(error).__name__}
        code = Exit.OK if error is None else exit_of(error)
        self._write("run.end", exit=int(code), published=False, **values)

    def planned(self, plan: Planned, tasks: int) -> None:
        self._write(
            "run.plan", files=len(plan.inputs), partitions=tasks, schemas=[c.name for c in plan.contracts]
        )
        for note in (*plan.notes, *plan.faults):
            self._note(note)

    def partition(self, done: Receipt | FileNote) -> None:
        if not isinstance(done, Receipt):
            self._note(done)
            return
        self._write(
            "partition.end",
            source=done.source,
            sheet=done.sheet,
            chunk=done.chunk,
            rows_read=done.rows_read,
            certified=done.certified,
            quarantined=done.quarantined,
            reasons=dict(done.reasons),
        )

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        totals = summary.totals
        self._ended = True
        self._write(
            "run.end",
            exit=int(code),
            published=True,
            unchanged=summary.outcome.unchanged,
            root=summary.outcome.statement.root,
            rows_read=totals["rows_read"],
            certified=totals["certified"],
            quarantined=totals["quarantined"],
            reasons=totals["reasons"],
        )

    def _note(self, note: FileNote) -> None:
        self._write(
            "file.note", reason=note.reason.slug, source=note.source, found=note.found, expected=note.expected
        )

    def _write(self, event: str, **values: Any) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        print(json.dumps({"time": now, "event": event, **values}), file=sys.stderr, flush=True)  # noqa: T201
