"""Turns as the messages a template takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from pipeline.stages.chat.turns import ROLES, Turns


@dataclass(frozen=True, slots=True)
class Messages:
    """The turns of a batch in Python lists, one entry a turn; made once a batch.

    Attributes:
        starts: index of the first turn of each conversation, and one past the last of all.
    """

    starts: list[int]
    roles: list[str]
    contents: list[str | None]
    calls: list[str | None]
    names: list[str | None]
    call_ids: list[str | None]

    @classmethod
    def of(cls, turns: Turns) -> Messages:
        """Those of a batch."""
        frame = turns.frame
        columns = [frame[name].to_list() for name in ("content", "tool_calls", "name", "tool_call_id")]
        return cls(
            [*turns.starts.tolist(), len(turns.roles)],
            [ROLES[code] for code in turns.roles.tolist()],
            *columns,
        )

    def span(self, i: int) -> range:
        """The turns of a conversation."""
        return range(self.starts[i], self.starts[i + 1])

    def texts(self, i: int) -> list[str]:
        """The contents of a conversation, "" where there is none."""
        return [self.contents[t] or "" for t in self.span(i)]

    def messages(self, i: int) -> list[dict[str, Any]]:
        """The messages of a conversation. Keys without a value are left out; a call without a text has "" there."""
        found: list[dict[str, Any]] = []
        for t in self.span(i):
            message: dict[str, Any] = {"role": self.roles[t]}
            if (content := self.contents[t]) is not None:
                message["content"] = content
            if (calls := self.calls[t]) is not None:
                message["tool_calls"] = msgspec.json.decode(calls)
                message.setdefault("content", "")
            if (name := self.names[t]) is not None:
                message["name"] = name
            if (call_id := self.call_ids[t]) is not None:
                message["tool_call_id"] = call_id
            found.append(message)
        return found
