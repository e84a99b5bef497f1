"""The one JSON decoder: raw records, or cells that hold JSON, into the columns of a schema's fields.

A block of records is decoded by the typed decoder in one call. Records it refuses, and those whose keys may repeat
or whose integers may overflow, go through the exact parser one by one, which says everything that is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.batch import Int64s, Mask
from pipeline.cells import counting, exact
from pipeline.cells.columns import column
from pipeline.cells.convert import Converter
from pipeline.cells.hits import Hits
from pipeline.cells.reads import Reading
from pipeline.cells.shape import Shape, shapes
from pipeline.fields import FieldType, Kind
from pipeline.reasons import Policy, Reason

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

BLOCK_BYTES = 2**20
"""Raw bytes decoded at a time: the objects made of them stay in the processor's cache."""

_REFUSED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_DIGITS = 19
"""An integer beyond 64 bits has at least so many digits."""


@dataclass(slots=True)
class Decoder:
    """Decodes JSON for some readings.

    Attributes:
        readings: the values wanted of each record.
        policy: policy of each reason.
        depth: deepest nesting allowed.
        cell: whether the texts are cells, which may hold any JSON value, or whole records, which are objects.
        broken: reason for a text that does not parse.
    """

    readings: Sequence[Reading]
    policy: Callable[[Reason], Policy]
    depth: int
    cell: bool = False
    broken: Reason = Reason.JSON_INVALID
    _shapes: list[Shape] = field(init=False)
    _numbers: bool = field(init=False)

    def __post_init__(self) -> None:
        self._shapes = shapes(self.readings)
        self._numbers = any(_holds_number(reading.type) for reading in self.readings)

    def __call__(self, raw: pa.Array, ids: Int64s, hits: Hits) -> list[pl.Series]:
        """One column a reading. ``raw`` (binary [n], no nulls) are the texts, ``ids`` (int64 [n]) the records'."""
        import polars as pl

        converter = Converter(hits, self.policy, self._shapes[0].structs)
        blocks = [self._block(*block, converter) for block in _blocks(raw, ids)]
        columns = []
        for place, reading in enumerate(self.readings):
            keys = reading.field.message_keys
            parts = [column(values[place], reading.type, keys) for values in blocks]
            columns.append(pl.concat(parts) if parts else pl.Series([], dtype=reading.type.dtype()))
        return columns

    def _block(self, data: bytes, offsets: Int64s, ids: Int64s, converter: Converter) -> list[list[Any]]:
        """Values of each reading for a block of texts."""
        count = len(ids)
        doubtful = np.zeros(count, bool)
        if not data.isascii():
            doubtful |= _not_utf8(data, offsets)
        if self._numbers:
            doubtful |= _long_numbers(data, offsets)
        values: list[list[Any]] = [[] for _ in self.readings]
        place = {id(reading): i for i, reading in enumerate(self.readings)}
        for shape in self._shapes:
            rows, bad = self._typed(shape, data, offsets)
            doubtful |= bad
            for reading, get in zip(shape.readings, shape.getters, strict=True):
                values[place[id(reading)]] = (
                    [None if lost else get(row) for row, lost in zip(rows, bad.tolist(), strict=True)]
                    if bad.any()
                    else list(map(get, rows))
                )
        for i in np.flatnonzero(doubtful).tolist():
            converter.record = int(ids[i])
            self._exact(data[offsets[i] : offsets[i + 1]], i, values, converter)
        return values

    def _typed(self, shape: Shape, data: bytes, offsets: Int64s) -> tuple[list[Any], Mask]:
        """The records by the typed decoder, and those that must be looked at exactly."""
        count = len(offsets) - 1
        array = np.frombuffer(data, np.uint8)
        decoder, unread = shape.decoder, 0
        if not self.cell:
            decoder, unread = shape.for_record(data[offsets[0] : offsets[1]])
        rows = _all_at_once(decoder, data, array, offsets) if not self.cell else None
        if rows is None:
            rows = _one_by_one(decoder, data, offsets)
        bad = np.zeros(count, bool)
        good = rows
        if any(row is None for row in rows):
            bad = np.array([row is None for row in rows], bool)
            good = [row for row in rows if row is not None]
        most = counting.colons(array, offsets)
        bad[~bad] = most[~bad] != counting.keys(shape, good, unread, self.depth)
        return rows, bad

    def _exact(self, text: bytes, place: int, values: list[list[Any]], converter: Converter) -> None:
        """Read one text exactly, with all that is wrong with it."""
        hits, record = converter.hits, converter.record
        name = self.readings[0].field.name if self.cell else ""
        tree: Any = None
        try:
            tree = exact.parse(text.strip(b" \t\r\n"), self.depth)
        except exact.NotJson as fault:
            reason = self.broken if fault.reason is Reason.JSON_INVALID else fault.reason
            hits.add(reason, name, record, "", fault.found, fault.expected or ("JSON" if self.cell else ""))
        else:
            if not self.cell:
                self._record(tree, hits, record)
        for i, reading in enumerate(self.readings):
            lost = tree is None or not (self.cell or isinstance(tree, exact.Object))
            values[i][place] = None if lost else converter.field(reading, tree)

    def _record(self, tree: Any, hits: Hits, record: int) -> None:
        """Findings on a record as a whole."""
        if not isinstance(tree, exact.Object):
            hits.add(Reason.JSON_NOT_OBJECT, "", record, "$", exact.kind(tree).split()[-1])
            return
        for key in tree.repeated:
            hits.add(Reason.JSON_DUPLICATE_KEY, "", record, f"$.{key}", repr(key))
        read = {reading.steps[0].key for reading in self.readings if reading.steps}
        for path, literal in exact.literals({k: v for k, v in tree.items() if k not in read}):
            hits.add(Reason.JSON_NON_FINITE, "", record, path, literal, "JSON")


def _blocks(raw: pa.Array, ids: Int64s) -> list[tuple[bytes, Int64s, Int64s]]:
    """The texts in blocks: bytes, offsets [n + 1], ids [n]."""
    if not len(raw):
        return []
    _, borders, values = raw.buffers()
    offsets = np.frombuffer(borders, np.int32)[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
    data = memoryview(values) if values is not None else memoryview(b"")
    found = []
    at = 0
    while at < len(raw):
        stop = int(np.searchsorted(offsets, offsets[at] + BLOCK_BYTES, "right")) - 1
        stop = min(max(stop, at + 1), len(raw))
        part = offsets[at : stop + 1]
        found.append((bytes(data[part[0] : part[-1]]), part - part[0], ids[at:stop]))
        at = stop
    return found


def _all_at_once(
    decoder: msgspec.json.Decoder[Any], data: bytes, array: npt.NDArray[np.uint8], offsets: Int64s
) -> list[Any] | None:
    """All records in one call, or None when one of them is refused.

    The decoder takes a stream of values; each text is one value because each begins with a brace and ends with
    one: an object that went on over the border would need a comma there.
    """
    last = offsets[1:] - 1
    last = last - (array[last] == ord("\n"))
    last = last - (array[last] == ord("\r"))
    if not ((array[offsets[:-1]] == ord("{")) & (array[last] == ord("}"))).all():
        return None
    try:
        rows: list[Any] = decoder.decode_lines(data)
    except _REFUSED:
        return None
    return rows if len(rows) == len(offsets) - 1 else None


def _one_by_one(decoder: msgspec.json.Decoder[Any], data: bytes, offsets: Int64s) -> list[Any]:
    rows: list[Any] = [None] * (len(offsets) - 1)
    borders = offsets.tolist()
    for i in range(len(rows)):
        with suppress(*_REFUSED):
            rows[i] = decoder.decode(data[borders[i] : borders[i + 1]])
    return rows


def _not_utf8(data: bytes, offsets: Int64s) -> Mask:
    """Texts that are not UTF-8."""
    bad = np.zeros(len(offsets) - 1, bool)
    try:
        data.decode()
    except UnicodeDecodeError:
        for i, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            try:
                data[start:end].decode()
            except UnicodeDecodeError:
                bad[i] = True
    return bad


def _long_numbers(data: bytes, offsets: Int64s) -> Mask:
    """Texts with a run of digits as long as an integer beyond 64 bits."""
    bad = np.zeros(len(offsets) - 1, bool)
    run = (np.frombuffer(data, np.uint8) - np.uint8(ord("0"))) < 10
    for step in (1, 2, 4, 8, 3):  # runs of 2, 4, 8, 16, and 19 digits
        if len(run) <= step:
            return bad
        run = run[:-step] & run[step:]
    hits = np.flatnonzero(run)
    bad[np.searchsorted(offsets, hits, "right") - 1] = True
    return bad


def _holds_number(type_: FieldType) -> bool:
    """Whether a value of the type holds numbers that the typed decoder takes as doubles."""
    if type_.kind in (Kind.NUMBER, Kind.BOXES, Kind.MESSAGES):
        return True
    return any(
        _holds_number(t) for t in (*([type_.item] if type_.item else []), *(t for _, t in type_.fields))
    )
