"""The errors that a user can correct, and the exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of the command line; they are part of the interface (docs/operations.md)."""

    OK = 0  # published or unchanged; the quarantine is within its budget
    BUG = 1  # an error of this program
    USAGE = 2  # wrong arguments, schema, tokenizer or template
    GATE = 3  # over the quarantine budget, or no certified record
    INPUT = 4  # an input is unreadable, missing, or changed while it was read
    VERIFY = 5  # the folder differs from what its certificate states
    REFUSED = 6  # preflight or the training gate refused
    IO = 74  # disk full or read-only folder: an operator must act
    BUSY = 75  # another run holds the folder, or an engine failed temporarily: try again
    INTERRUPTED = 130  # SIGINT
    TERMINATED = 143  # SIGTERM


class CleanroomError(Exception):
    """Base of all expected errors. The command line prints the attributes as text.

    Args:
        what: one sentence about the fault.
        where: file, sheet, row, column or key.
        found: what is there (never cell text).
        expected: what should be there.
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
        details = {"found": self.found, "expected": self.expected}
        lines += [f"  {name}: {value}" for name, value in details.items() if value]
        if self.remedy:
            lines.append(f"  to do: {self.remedy}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, tuple[type[CleanroomError], dict[str, str]]]:
        arguments = {k: getattr(self, k) for k in ("what", "where", "found", "expected", "remedy")}
        return _rebuild, (type(self), arguments)


def _rebuild(kind: type[CleanroomError], arguments: dict[str, str]) -> CleanroomError:
    """Make the error again in another process."""
    return kind(**arguments)


class SchemaError(CleanroomError):
    """A schema file, or an argument, is wrong."""

    exit = Exit.USAGE


class TokenizerError(CleanroomError):
    """A tokenizer or template is missing or does not belong to the model."""

    exit = Exit.USAGE


class GateError(CleanroomError):
    """A run is over the quarantine budget, or no record is certified. Nothing is published."""

    exit = Exit.GATE


class InputError(CleanroomError):
    """An input is missing, unreadable, or changed while it was read."""

    exit = Exit.INPUT


class VerificationError(CleanroomError):
    """A folder differs from what its certificate states."""

    exit = Exit.VERIFY


class RefusedError(CleanroomError):
    """Training is refused before it starts."""

    exit = Exit.REFUSED


class StorageError(CleanroomError):
    """The disk is full, or a folder is read-only."""

    exit = Exit.IO


class BusyError(CleanroomError):
    """Another run holds the folder, or an engine failed temporarily."""

    exit = Exit.BUSY
