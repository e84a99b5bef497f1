"""One hazard to be proven: how a clean record is spoilt, and what the pipeline must say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hazard:
    """One condition of the catalogue.

    Attributes:
        name: unique, for the table.
        reason: slug that the pipeline must give the record.
        schema: schema that reads it: forms, forms_ids, chats or tokens.
        spoil: makes the bad record of a clean one (whose ``id`` stays).
        outcome: "quarantine", or "repair" or "flag" where the sample is certified with a note.
    """

    name: str
    reason: str
    schema: str
    spoil: Callable[[Record], Record]
    outcome: str = "quarantine"


def setting(**values: Any) -> Callable[[Record], Record]:
    """Spoil by putting values in."""
    return lambda record: {**record, **values}


def changing(key: str, change: Callable[[Any], Any]) -> Callable[[Record], Record]:
    """Spoil by changing one value."""
    return lambda record: {**record, key: change(record[key])}
