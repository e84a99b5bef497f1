"""Where a run starts: it ends here when nothing changed since the last one; else the whole job is done."""

from __future__ import annotations

from pipeline.job import Options, Summary, Watch
from pipeline.threads import one_each
from pipeline.unchanged import unchanged


def run(options: Options, watch: Watch) -> Summary:
    """Do the whole job, or nothing where nothing is to do.

    Raises:
        CleanroomError: as ``pipeline.run.run``.
    """
    if (summary := unchanged(options, watch)) is not None:
        return summary
    one_each()
    # Only now: what reads, judges and encodes takes three quarters of a second to import.
    from pipeline.run import run as whole

    return whole(options, watch)
