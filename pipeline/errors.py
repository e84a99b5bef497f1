"""Errors a user can put right, each with its facts as attributes, and the exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum

# Exit codes of the command line, part of the interface (docs/operations.md).


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


# Errors a user can put right. Each carries its facts as attributes; the command line prints them as text.


class CleanroomError(Exception):
    """Base of all expected errors.

    Args:
        what: one sentence, what is wrong.
        where: file, sheet, row, column or key.
        found: what stands there (never cell text).
        expected: what should stand there.
        remedy: what to do.
    """

    exit = Exit.BUG

    def __init__(
        self, what: str, *, where: str = "", found: str = "", expected: str = "", remedy: str = ""
    ) -> None:
        self.what, self.where, self.found = what, where, found
        self.expected, self.remedy = expected, remedy
        super().__init__(what, where, found, expected, remedy)

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        facts = {"found": self.found, "expected": self.expected}
        lines += [f"  {name}: {value}" for name, value in facts.items() if value]
        if self.remedy:
            lines.append(f"  to do: {self.remedy}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, tuple[type[CleanroomError], dict[str, str]]]:
        facts = {k: getattr(self, k) for k in ("what", "where", "found", "expected", "remedy")}
        return _rebuild, (type(self), facts)


def _rebuild(kind: type[CleanroomError], facts: dict[str, str]) -> CleanroomError:
    """Make the error again in another process."""
    return kind(**facts)


class SchemaError(CleanroomError):
    """A schema file, or an argument, is wrong."""

    exit = Exit.USAGE


class TokenizerError(CleanroomError):
    """A tokenizer or template is missing, or is not the model's."""

    exit = Exit.USAGE


class GateError(CleanroomError):
    """The data gate: over the quarantine budget, or nothing certified. Nothing is published."""

    exit = Exit.GATE


class InputError(CleanroomError):
    """An input is missing, unreadable, or changed while it was read."""

    exit = Exit.INPUT


class VerificationError(CleanroomError):
    """A folder is not what its certificate says."""

    exit = Exit.VERIFY


class RefusedError(CleanroomError):
    """Training was refused before it began."""

    exit = Exit.REFUSED


class StorageError(CleanroomError):
    """Disk full, folder read-only."""

    exit = Exit.IO


class BusyError(CleanroomError):
    """Another run holds the folder, or an engine failed in passing."""

    exit = Exit.BUSY
