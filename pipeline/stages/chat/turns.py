"""The turns of a batch of conversations, flat: one array a property, one entry a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipeline.arrays import Int64s, offsets, owners, within
from pipeline.fields import message_dtype

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


def to_series(turns: Turns, name: str) -> pl.Series:
    """One list of turns a conversation, List(message_dtype()); null where nothing could be read. Roles are written
    canonically, ``train`` as resolved."""
    roles = pl.Series(np.where(turns.roles == UNKNOWN, len(ROLES), turns.roles)).replace_strict(
        list(range(len(ROLES) + 1)), [*ROLES, None], return_dtype=pl.String
    )
    frame = turns.frame.with_columns(roles.alias("role"), pl.Series("train", turns.train))
    inner = frame.select(FIELDS).to_struct("turn").cast(message_dtype())
    chunk = inner.to_arrow(compat_level=pl.CompatLevel.oldest())
    mask = pa.array(~turns.present) if not turns.present.all() else None
    lists = pa.LargeListArray.from_arrays(pa.array(offsets(turns.counts).astype(np.int64)), chunk, mask=mask)
    return pl.Series(name, pl.from_arrow(lists))


def flatten(series: pl.Series) -> tuple[pl.DataFrame, Int64s, Mask]:
    """The structs of a List(Struct) column, the count of each list, and whether it is there at all."""
    counts = series.list.len().fill_null(0).to_numpy().astype(np.int64)
    filled = series.filter(pl.Series(counts > 0)).explode()
    frame = filled.struct.unnest() if len(filled) else pl.DataFrame(schema=_schema(series))
    return frame, counts, series.is_not_null().to_numpy()


def _schema(series: pl.Series) -> Any:
    inner = series.dtype.inner  # type: ignore[attr-defined]
    return {field.name: field.dtype for field in inner.fields}


def from_series(series: pl.Series) -> Turns:
    """The turns of canonical lists, as ``to_series`` made them."""
    frame, counts, present = flatten(series)
    codes = frame["role"].replace_strict(
        ROLES, list(range(len(ROLES))), default=UNKNOWN, return_dtype=pl.Int8
    )
    n = len(frame)
    return Turns(
        counts=counts,
        records=np.arange(len(series), dtype=np.int64),
        roles=codes.fill_null(UNKNOWN).to_numpy(),
        frame=frame,
        train=frame["train"].fill_null(True).to_numpy(),
        origins=np.zeros(n, np.int16),
        places=within(counts),
        columns=("messages",),
        present=present,
    )


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
