"""The log for machines: one JSON object a line on stderr, the last always ``run.end``. Never cell text."""

from __future__ import annotations

import datetime
import json
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pipeline.certificate.receipt import Receipt
from pipeline.errors import CleanroomError
from pipeline.exits import Exit
from pipeline.report.watch import Watch, exit_of

if TYPE_CHECKING:
    from pipeline.job import Options, Planned, Summary
    from pipeline.sources.fault import FileNote


class JsonLog(Watch):
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
