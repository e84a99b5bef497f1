"""The one JSON decoder: raw records, or cells that hold JSON, into the columns of a schema's fields.

A block of records is decoded by the typed decoder in one call. Records it refuses, and those whose keys may repeat
or whose integers may overflow, go through the exact parser one by one, which says everything that is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Raw

from pipeline.batch import Int64s, Mask
from pipeline.fields import FieldType, Kind
from pipeline.findings import FindingCollector
from pipeline.reasons import Policy, Reason
from pipeline.values import json_keys, json_strict, json_typed
from pipeline.values.json_convert import MISSING, Converter
from pipeline.values.json_keys import hides_null, may_hide_null
from pipeline.values.json_typed import MessageKeys, RecordShape, record_shapes
from pipeline.values.paths import FieldPath, element_of
from pipeline.values.text_checks import is_utf8

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


# Decoded values become columns: lists laid flat, structs member by member, in the types of ``fields.py``.


def column_of(values: list[Any], reading: FieldPath) -> pl.Series:
    """The values of a reading, one a record (None or UNSET: none), as a column of its type."""
    import polars as pl

    type_ = reading.type
    dtype = type_.dtype()
    if not dtype.is_nested():
        absent = not reading.field.required or type_.kind is Kind.JSON
        return pl.Series(_plain(values, type_) if absent else values, dtype=dtype)
    series = pl.Series(pl.from_arrow(_array(values, type_, reading.field.message_keys)))
    return series if series.dtype == dtype else series.cast(dtype)


def _plain(values: list[Any], type_: FieldType) -> list[Any]:
    """The values with None for what is not there; raw JSON as text."""
    if type_.kind is Kind.JSON:
        return [_json(value) for value in values]
    # ``in`` compares by identity first: cheap where the first value is UNSET, and rare otherwise.
    return [None if value is UNSET else value for value in values] if UNSET in values else values


def _json(value: Any) -> str | None:
    if not isinstance(value, Raw):
        return None if value is UNSET else value
    text = bytes(value)
    if text in (b"", b"null"):
        return None
    return (
        json_strict.written_number(json_strict.parse_strict(text, json_keys.MOST_DEPTH))
        if text[:1] in b"[{"
        else text.decode()
    )


def _array(values: list[Any], type_: FieldType, keys: MessageKeys) -> pa.Array:
    import pyarrow as pa

    match type_.kind:
        case Kind.STRUCT:
            return _structs(values, type_, keys)
        case Kind.BOXES:
            return _lists(values, lambda boxes: _lists(boxes, _doubles))
        case Kind.MESSAGES:
            return _messages(values, keys)
        case Kind.INTEGER:
            return pa.array(_plain(values, type_), pa.int64())
        case Kind.NUMBER:
            return pa.array(_plain(values, type_), pa.float64())
        case Kind.BOOLEAN:
            return pa.array(_plain(values, type_), pa.bool_())
        case _:
            item = element_of(type_)
            if item is None:
                return pa.array(_plain(values, type_), pa.large_string())
            return _lists(values, lambda flat: _array(flat, item, keys))


def _lists(values: list[Any], build: Any) -> pa.Array:
    """A list array; ``build`` makes the array of all elements."""
    import pyarrow as pa

    present = [isinstance(value, list) for value in values]
    whole = all(present)
    lists = values if whole else [value for value, there in zip(values, present, strict=True) if there]
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    offsets = np.zeros(len(values) + 1, np.int64)
    if whole:
        np.cumsum(lengths, out=offsets[1:])
    else:
        offsets[1:][np.array(present, bool)] = lengths
        np.cumsum(offsets, out=offsets)
    inner = build(list(chain.from_iterable(lists)))
    mask = None if whole else pa.array([not there for there in present])
    return pa.LargeListArray.from_arrays(pa.array(offsets), inner, mask=mask)


def _doubles(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.array(values, np.float64))


def _structs(values: list[Any], type_: FieldType, keys: MessageKeys) -> pa.Array:
    import pyarrow as pa

    present = [isinstance(value, msgspec.Struct) for value in values]
    arrays = []
    for i, (_, member) in enumerate(type_.fields):
        name = f"m{i}"
        inner = [
            getattr(value, name) if there else None for value, there in zip(values, present, strict=True)
        ]
        arrays.append(_array(inner, member, keys))
    mask = None if all(present) else pa.array([not there for there in present])
    return pa.StructArray.from_arrays(arrays, [name for name, _ in type_.fields], mask=mask)


def _messages(values: list[Any], keys: MessageKeys) -> pa.Array:
    lists = [
        [json_typed.Turn(content=value, content_kind="text")] if isinstance(value, str) else value
        for value in values
    ]
    return _lists(lists, lambda flat: json_typed.turn_columns(flat, keys))


# The one JSON decoder: raw records, or cells that hold JSON, into the columns of a schema's fields.


BLOCK_BYTES = 2**20
"""Raw bytes decoded at a time: the objects made of them stay in the processor's cache."""

_REFUSED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


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

    readings: Sequence[FieldPath]
    policy: Callable[[Reason], Policy]
    depth: int
    cell: bool = False
    broken: Reason = Reason.JSON_INVALID
    _shapes: list[RecordShape] = field(init=False)
    _nested_numbers: bool = field(init=False)

    def __post_init__(self) -> None:
        self._shapes = record_shapes(self.readings)
        plain = (Kind.NUMBER,)
        self._nested_numbers = any(
            _holds_number(r.leaf) and (r.leaf.kind not in plain or r.element is not None)
            for r in self.readings
        )

    def __call__(self, raw: pa.Array, ids: Int64s, hits: FindingCollector) -> list[pl.Series]:
        """One column a reading. ``raw`` (binary [n], no nulls) are the texts, ``ids`` (int64 [n]) the records'."""
        import polars as pl

        converter = Converter(hits, self.policy, self._shapes[0].structs)
        parts: list[list[pl.Series]] = [[] for _ in self.readings]
        for data, offsets, part in _blocks(raw, ids):
            # Columns are made block by block, so that a block's objects are freed while they are in the cache.
            values = self._block(data, offsets, part, converter)
            for reading, column, found in zip(self.readings, parts, values, strict=True):
                column.append(column_of(found, reading))
        none = [pl.Series([], dtype=reading.type.dtype()) for reading in self.readings]
        return [pl.concat(part) if part else empty for part, empty in zip(parts, none, strict=True)]

    def _block(self, data: bytes, offsets: Int64s, ids: Int64s, converter: Converter) -> list[list[Any]]:
        """Values of each reading for a block of texts."""
        count = len(ids)
        doubtful = np.zeros(count, bool)
        doubtful |= _not_utf8(data, offsets)
        if self._nested_numbers:
            doubtful |= _long_numbers(data, offsets)
        values: list[list[Any]] = [[] for _ in self.readings]
        place = {id(reading): i for i, reading in enumerate(self.readings)}
        for shape in self._shapes:
            rows, lost, doubts = self._typed(shape, data, offsets)
            doubtful |= doubts
            for reading, fetch in zip(shape.readings, shape.fetchers, strict=True):
                found = fetch(rows)
                if reading.leaf.kind is Kind.NUMBER and reading.element is None:
                    doubtful[~lost] |= _large(found, reading)
                if may_hide_null(reading):
                    doubtful[~lost] |= np.array([hides_null(value, reading.type) for value in found], bool)
                values[place[id(reading)]] = _scatter(found, lost)
        for i in np.flatnonzero(doubtful).tolist():
            converter.record = int(ids[i])
            self._exact(data[offsets[i] : offsets[i + 1]], i, values, converter)
        return values

    def _typed(self, shape: RecordShape, data: bytes, offsets: Int64s) -> tuple[list[Any], Mask, Mask]:
        """The records by the typed decoder, which ones it refuses (bool [n]), and which are to be looked at exactly
        (bool [n], those among them)."""
        array = np.frombuffer(data, np.uint8)
        lost = np.zeros(len(offsets) - 1, bool)
        decoder, unread, rows = shape.decoder, 0, None
        if not self.cell:
            decoder, unread = shape.for_record(data[offsets[0] : offsets[1]])
            rows = _all_at_once(decoder, data, array, offsets)
        if rows is None:
            every = _one_by_one(decoder, data, offsets)
            rows = [row for row in every if row is not None]
            lost = np.array([row is None for row in every], bool)
        expected = json_keys.count_keys(shape, rows, unread, self.depth)
        colons = json_keys.colon_mask(array)
        doubts = lost.copy()
        # No record has fewer colons than keys: where the sums agree, each of them does.
        if lost.any() or int(np.count_nonzero(colons)) != int(expected.sum()):
            doubts[~lost] = json_keys.count_by_record(colons, offsets)[~lost] != expected
        return rows, lost, doubts

    def _exact(self, text: bytes, place: int, values: list[list[Any]], converter: Converter) -> None:
        """Read one text exactly, with all that is wrong with it."""
        hits, record = converter.hits, converter.record
        name = self.readings[0].field.name if self.cell else ""
        tree: Any = MISSING  # not None: that is what the text null means
        try:
            tree = json_strict.parse_strict(text.strip(b" \t\r\n"), self.depth)
        except json_strict.NotJson as fault:
            reason = self.broken if fault.reason is Reason.JSON_INVALID else fault.reason
            hits.add(reason, name, record, "", fault.found, fault.expected or ("JSON" if self.cell else ""))
        else:
            if not self.cell:
                self._record(tree, hits, record)
        for i, reading in enumerate(self.readings):
            lost = tree is MISSING or not (self.cell or isinstance(tree, json_strict.Object))
            values[i][place] = None if lost else converter.field(reading, tree)

    def _record(self, tree: Any, hits: FindingCollector, record: int) -> None:
        """Findings on a record as a whole."""
        if not isinstance(tree, json_strict.Object):
            hits.add(Reason.JSON_NOT_OBJECT, "", record, "$", json_strict.json_kind(tree).split()[-1])
            for path, literal in json_strict.literals(tree):
                hits.add(Reason.JSON_NON_FINITE, "", record, path, literal, "JSON")
            return
        for key in tree.repeated:
            hits.add(Reason.JSON_DUPLICATE_KEY, "", record, f"$.{key}", repr(key))
        read = {reading.steps[0].key for reading in self.readings if reading.steps}
        for path, literal in json_strict.literals({k: v for k, v in tree.items() if k not in read}):
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
    if not (np.diff(offsets) > 1).all():
        return None
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
    if not is_utf8(data):
        borders = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        bad[:] = [not is_utf8(data[start:end]) for start, end in borders]
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


def _large(values: list[Any], reading: FieldPath) -> Mask:
    """Doubles that may have been integers beyond 64 bits."""
    if not reading.field.required:
        values = [0.0 if value is None or value is UNSET else value for value in values]
    return np.asarray(np.abs(np.array(values, np.float64)) >= 2.0**63)


def _scatter(values: list[Any], lost: Mask) -> list[Any]:
    """The values with None for each record that the typed decoder refused."""
    if not lost.any():
        return values
    rest = iter(values)
    return [None if gone else next(rest) for gone in lost.tolist()]


def _holds_number(type_: FieldType) -> bool:
    """Whether a value of the type holds numbers that the typed decoder takes as doubles."""
    if type_.kind in (Kind.NUMBER, Kind.BOXES, Kind.MESSAGES):
        return True
    return any(
        _holds_number(t) for t in (*([type_.item] if type_.item else []), *(t for _, t in type_.fields))
    )
