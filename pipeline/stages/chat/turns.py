"""The turns of a batch of conversations, flat: one array a property, one entry a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.arrays import Int64s, owners, within

Int8s = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]

ROLES = ("system", "user", "assistant", "tool")
SYSTEM, USER, ASSISTANT, TOOL = range(4)
UNKNOWN = -1
CALL = "assistant_call"
"""Name, in grammars and aliases, of an assistant turn that calls tools."""

FIELDS = ("role", "content", "content_kind", "name", "tool_calls", "tool_call_id", "train", "weight")


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of n conversations.

    Attributes:
        counts: int64 [n], turns of each conversation.
        records: int64 [n], position in the batch of the record each conversation belongs to; sorted.
        roles: int8 [turns], index into ``ROLES``, or ``UNKNOWN``.
        frame: the columns of ``fields.message_dtype()``, one row a turn; ``role`` as written.
        train: bool [turns], false where the source says that a turn is not learned.
        origins: int16 [turns], index into ``columns``: where the turn was read.
        places: int64 [turns], index of the turn in its list; -1 where the column itself is the turn.
        columns: names of the columns that turns were read from.
        present: bool [n], false where nothing could be read (the cast stage has said why).
    """

    counts: Int64s
    records: Int64s
    roles: Int8s
    frame: pl.DataFrame
    train: Mask
    origins: npt.NDArray[np.int16]
    places: Int64s
    columns: tuple[str, ...]
    present: Mask

    @property
    def owner(self) -> Int64s:
        """int64 [turns], the conversation of each turn."""
        return owners(self.counts)

    @property
    def starts(self) -> Int64s:
        """int64 [n], index of the first turn of each conversation."""
        return np.asarray(np.cumsum(self.counts) - self.counts)

    @property
    def calls(self) -> Mask:
        """bool [turns], true where the turn calls tools."""
        return self.frame["tool_calls"].is_not_null().to_numpy()

    @property
    def content(self) -> pl.Series:
        """The contents, String [turns]."""
        return self.frame["content"]

    def with_content(self, content: pl.Series) -> Turns:
        """The same turns with other contents."""
        return replace(self, frame=self.frame.with_columns(content.alias("content")))

    def take(self, keep: Mask) -> Turns:
        """The turns where ``keep`` (bool [turns]) is true; conversations stay, with fewer turns."""
        if keep.all():
            return self
        counts = np.bincount(self.owner[keep], minlength=len(self.counts)).astype(np.int64)
        return replace(
            self,
            counts=counts,
            roles=self.roles[keep],
            frame=self.frame.filter(pl.Series(keep)),
            train=self.train[keep],
            origins=self.origins[keep],
            places=self.places[keep],
        )

    def select(self, conversations: Int64s) -> Turns:
        """Some conversations, in the order given."""
        counts = self.counts[conversations]
        index = np.repeat(self.starts[conversations], counts) + within(counts)
        return replace(
            self,
            counts=counts,
            records=self.records[conversations],
            roles=self.roles[index],
            frame=self.frame[index],
            train=self.train[index],
            origins=self.origins[index],
            places=self.places[index],
            present=self.present[conversations],
        )

    def places_of(self, turns: Int64s, member: str = "content") -> tuple[list[str], list[str]]:
        """Column and JSON path of each of the turns, for findings."""
        columns = [self.columns[i] for i in self.origins[turns].tolist()]
        paths = ["" if place < 0 else f"[{place}].{member}" for place in self.places[turns].tolist()]
        return columns, paths


def role_strings(turns: Turns) -> list[str]:
    """The roles of each conversation as letters: s, u, a, t; c for an assistant turn that calls tools."""
    letters = np.frombuffer(b"suat", np.uint8)[np.maximum(turns.roles, 0)]
    letters = np.where(turns.roles == UNKNOWN, ord("?"), letters).astype(np.uint8)
    letters[(turns.roles == ASSISTANT) & turns.calls] = ord("c")
    text = letters.tobytes().decode("ascii")
    ends = np.cumsum(turns.counts).tolist()
    return [text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if ends else []


def spelled(letters: str) -> str:
    """Roles in words, clipped: ``user user assistant``."""
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "c": CALL, "?": "unknown"}
    words = [names[letter] for letter in letters[:12]]
    return " ".join(words) + (" …" if len(letters) > 12 else "")
