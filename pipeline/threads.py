"""Threads of libraries. Work is spread over processes, a partition each; threads below that wait for each other."""

from __future__ import annotations

import os


def one_each() -> None:
    """Have polars work with one thread here and in the processes that are started from here, unless the user has set
    ``POLARS_MAX_THREADS``. It counts only before polars is imported."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
