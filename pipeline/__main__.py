"""The entry point of ``python -m pipeline`` and of the command ``cleanroom``."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import NoReturn

from pipeline.cli.app import main as command


def main() -> NoReturn:
    """Run the command line and end the process."""
    # Most objects of a run (libraries, receipts) live until its end. Searching them for cycles takes a tenth of a
    # short run.
    gc.set_threshold(100_000, 50, 1000)
    try:
        command()
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else 1)
        raise


def _end(code: int) -> None:
    """End the process without destroying its objects, after the registered exit functions.

    Destroying a hundred thousand objects of polars, pandera and pydantic takes another tenth of a short run. With Ray,
    torch or other running threads, this function does nothing and the interpreter ends as usual.
    """
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
