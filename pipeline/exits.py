"""Exit codes of the command line, part of the interface (docs/operations.md)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a run ended with, and whether running it again can help."""

    OK = 0  # published or unchanged; the quarantine is within its budget
    BUG = 1  # an error of this program
    USAGE = 2  # wrong arguments, schema, tokenizer or template
    GATE = 3  # over the quarantine budget, or nothing certified
    INPUT = 4  # an input is unreadable, missing, or changed while it was read
    VERIFY = 5  # the folder is not what its certificate says
    REFUSED = 6  # preflight or the training gate refused
    IO = 74  # disk full, read-only folder: for an operator
    BUSY = 75  # another run holds the folder, or a passing engine failure: try again
    INTERRUPTED = 130  # SIGINT
    TERMINATED = 143  # SIGTERM
