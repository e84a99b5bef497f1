"""Where a field is read in a JSON value: a plain key, or a path such as ``$.page.width`` or ``$.lines[].text``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEP = re.compile(r"(?:\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\])((?:\[\])*)")


@dataclass(frozen=True, slots=True)
class Step:
    """One key on the way, and how many levels of list below it are followed element by element."""

    key: str
    lists: int = 0

    def __str__(self) -> str:
        plain = re.fullmatch(r"[^.\[\]']+", self.key)
        return (f".{self.key}" if plain else f"['{self.key}']") + "[]" * self.lists


def steps(path: str) -> tuple[Step, ...]:
    """The steps of a path. A text that does not begin with ``$`` is one key, taken literally; ``$`` is no step.

    Raises ``ValueError`` for a path that is none.
    """
    if not path.startswith("$"):
        return (Step(path),)
    found: list[Step] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise ValueError(f"{path!r} is no path: write `$.key.key` or `$.list[].key`")
        key = match[1] if match[1] is not None else re.sub(r"\\(.)", r"\1", match[2])
        found.append(Step(key, match[3].count("[]")))
        at = match.end()
    return tuple(found)
