"""``python -m pipeline``, and the command ``cleanroom``."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import NoReturn

from pipeline.cli.app import main as command


def main() -> NoReturn:
    """Run the command line in a process of its own, and end that process."""
    # What a run makes lives until its end, mostly: libraries and receipts. Looking for cycles among them again and
    # again is a tenth of a short run.
    gc.set_threshold(100_000, 50, 1000)
    try:
        command()
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else 1)
        raise


def _end(code: int) -> None:
    """End at once: taking a hundred thousand objects of polars, pandera and pydantic apart one by one is another
    tenth of a short run, and the operating system does it in no time. What was registered for the end is still
    called. Where threads or engines of others still stand, the interpreter ends as it always does."""
    if {"ray", "torch"} & set(sys.modules) or any(
        not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()
    ):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            return
    os._exit(code)


if __name__ == "__main__":
    main()
