"""Which record is which: the ids of a case matched with the records that came out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.acceptance.case import Case
from tests.acceptance.execute import Run
from tests.acceptance.outcome import Outcome, Record
from tests.acceptance.readback import Reader


@dataclass
class Context:
    """Everything a comparison needs."""

    case: Case
    schema: dict[str, Any]
    run: Run
    outcome: Outcome
    id_name: str | None
    reader: Reader | None

    @property
    def value(self) -> dict[str, Any]:
        """``value`` as a mapping."""
        return self.case.value if isinstance(self.case.value, dict) else {}

    @cached_property
    def known(self) -> list[str]:
        """Ids the case speaks of, without the count of their occurrence."""
        names = {key.split("#")[0] for key in self.case.named_rows()}
        for value in self.value.values():
            if isinstance(value, dict):
                names |= {str(key).split("#")[0] for key in value}
        return sorted(names)

    @cached_property
    def ids(self) -> list[tuple[str | None, Record]]:
        """Each record with its id, in the order of the input."""
        return [(r.identity(self.id_name, self.known), r) for r in self.outcome.records]

    def find(self, name: str) -> Record | None:
        """The record with this id; ``id#2`` is its second occurrence."""
        plain, _, number = name.partition("#")
        found = [record for one, record in self.ids if one == name]
        if not found and number.isdigit():
            found = [record for one, record in self.ids if one == plain][int(number) - 1 :]
        return found[0] if found else None

    def is_id(self, name: str) -> bool:
        """Whether a name is the id of some record."""
        return self.find(name) is not None

    @property
    def certified_ids(self) -> list[str]:
        """Ids of the certified records, in the order of the input."""
        return [str(one) for one, record in self.ids if record.certified]

    @cached_property
    def label_names(self) -> list[str]:
        """The closed list of label names."""
        layout = self.schema.get("layout", {})
        return list(layout.get("labels", {}).get("names", ()))
