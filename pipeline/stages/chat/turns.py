"""The turns of a batch of conversations, flat: roles, columns, and findings on turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipeline.arrow_lists import Int64s, offsets, owners, within
from pipeline.batch import Batch, Findings
from pipeline.errors import SchemaError
from pipeline.fields import message_dtype
from pipeline.reasons import Policy, Reason
from pipeline.schema.chat import Chat

# The turns of a batch of conversations, flat: one array a property, one entry a turn.


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


# Names of roles: canonical ones, the documented ones of each format, and the schema's aliases.


FORMAT_ALIASES: dict[str, dict[str, str]] = {
    "sharegpt": {"human": "user", "gpt": "assistant", "function_call": CALL, "observation": "tool"},
    "openai": {"developer": "system", "function": "tool"},
    "tree": {"prompter": "user"},
}
"""Role names that a format's own documentation gives: ShareGPT, OpenAI, OpenAssistant."""


def aliases_of(chat: Chat) -> dict[str, str]:
    """Every accepted role name, folded, with the canonical role it means.

    Raises SchemaError for an alias of a role that does not exist.
    """
    names = {role: role for role in (*ROLES, CALL)}
    names |= FORMAT_ALIASES.get(chat.source.format, {})
    for name, role in chat.aliases.items():
        target = role.strip().casefold()
        if target not in (*ROLES, CALL):
            raise SchemaError(
                "an alias names no role",
                where="chat: aliases",
                found=f"{name!r}: {role!r}",
                expected=", ".join((*ROLES, CALL)),
            )
        names[name.strip().casefold()] = target
    return names


def role_codes(written: pl.Series, aliases: dict[str, str]) -> tuple[Int8s, Mask]:
    """Code of each role as written, ``UNKNOWN`` where it is none; and whether it names a tool-calling turn."""
    codes = {name: ASSISTANT if role == CALL else ROLES.index(role) for name, role in aliases.items()}
    distinct = written.unique(maintain_order=True).drop_nulls().to_list()
    known = {text: codes.get(text.strip().casefold(), UNKNOWN) for text in distinct}
    calling = {text for text in distinct if aliases.get(text.strip().casefold()) == CALL}
    if not known:
        return np.full(len(written), UNKNOWN, np.int8), np.zeros(len(written), np.bool_)
    found = written.replace_strict(list(known), list(known.values()), default=UNKNOWN, return_dtype=pl.Int8)
    is_call = written.is_in(sorted(calling)).fill_null(False) if calling else None
    return (
        found.fill_null(UNKNOWN).to_numpy().astype(np.int8),
        is_call.to_numpy() if is_call is not None else np.zeros(len(written), np.bool_),
    )


# Turns as columns of the frame, between the stage that judges them and the one that encodes them.


TURNS, REJECTED, TOOLS = "@turns", "@rejected_turns", "@tool_definitions"
"""Columns: the turns; those with the rejected answer of a preference pair; tool definitions as JSON."""


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


def from_series(series: pl.Series, column: str = "") -> Turns:
    """The turns of canonical lists, as ``to_series`` made them.

    Args:
        column: where they were read, for findings; "" where the record as a whole is meant.
    """
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
        columns=(column,),
        present=present,
    )


def nested(turns: Turns, records: int, name: str) -> pl.Series:
    """Lists of conversations, one list a record: of records that hold several."""
    inner = to_series(turns, name).to_arrow(compat_level=pl.CompatLevel.oldest())
    counts = np.bincount(turns.records, minlength=records).astype(np.int64)
    lists = pa.LargeListArray.from_arrays(pa.array(offsets(counts).astype(np.int64)), inner)
    return pl.Series(name, pl.from_arrow(lists))


def conversations(series: pl.Series, column: str = "") -> Turns:
    """The turns of a column made by ``to_series`` or ``nested``; ``column`` as for ``from_series``."""
    if series.dtype.inner == pl.List(message_dtype()):  # type: ignore[attr-defined]
        counts = series.list.len().fill_null(0).to_numpy().astype(np.int64)
        filled = series.filter(pl.Series(counts > 0))
        inner = filled.explode() if len(filled) else pl.Series(series.name, [], pl.List(message_dtype()))
        return replace(from_series(inner, column), records=owners(counts))
    return from_series(series, column)


# Findings on turns: each is written with the column and the place in it where the turn was read.


CLIP = 80
"""Most characters of a value that a finding repeats."""


def clip(text: str) -> str:
    """The text, shortened to what a finding may repeat."""
    return text if len(text) <= CLIP else text[: CLIP - 1] + "…"


def turn_findings(
    findings: Findings,
    batch: Batch,
    turns: Turns,
    hits: Int64s,
    reason: Reason,
    policy: Policy,
    found: Sequence[str] | str = "",
    expected: Sequence[str] | str = "",
    member: str = "content",
) -> None:
    """A finding for each of the turns ``hits`` (int64, indices), grouped by the column they were read from."""
    if not len(hits):
        return
    ids = batch.ids[turns.records[turns.owner[hits]]]
    _, paths = turns.places_of(hits, member)
    origins = turns.origins[hits]
    for origin in np.unique(origins).tolist():
        here = np.flatnonzero(origins == origin)
        picked = [
            found if isinstance(found, str) else [found[i] for i in here.tolist()],
            expected if isinstance(expected, str) else [expected[i] for i in here.tolist()],
        ]
        findings.add(
            reason,
            policy,
            turns.columns[origin],
            ids[here],
            paths=[paths[i] for i in here.tolist()],
            found=picked[0],
            expected=picked[1],
        )


def conversation_findings(
    findings: Findings,
    batch: Batch,
    turns: Turns,
    hits: Int64s,
    reason: Reason,
    policy: Policy,
    found: Sequence[str] | str = "",
    expected: Sequence[str] | str = "",
) -> None:
    """A finding for each of the conversations ``hits`` (int64, indices)."""
    ids = batch.ids[turns.records[hits]]
    column = turns.columns[-1] if len(turns.columns) == 1 else ""
    findings.add(reason, policy, column, ids, found=found, expected=expected)
