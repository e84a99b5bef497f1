"""The run record: what is true of one run and not of its result. Times, host, engine and versions stand here."""

from __future__ import annotations

import datetime
import json
import os
import platform
import resource
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.libraries import libraries
from pipeline.shards.durable import storage_errors, write_atomic

if TYPE_CHECKING:
    from pipeline.job import Options, Summary


def record_of(options: Options, summary: Summary) -> dict[str, Any]:
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
        "libraries": libraries() | {"fastokens": _version("fastokens")},
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


def write(path: Path, options: Options, summary: Summary) -> None:
    """Write the record as JSON, whole or not at all."""
    content = json.dumps(record_of(options, summary), indent=2) + "\n"
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content.encode(), fsync=False)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
