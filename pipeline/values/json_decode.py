"""The JSON decoder: raw records, or cells that hold JSON, become the columns of a schema's fields.

The typed decoder (``json_typed``) reads a block of records in one call. The strict parser (``json_strict``) then reads,
one by one, the records that the typed decoder refuses and those whose keys may repeat or whose integers may overflow;
``json_convert`` reports everything that is wrong with them.
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
import pyarrow as pa
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


# Decoded values become Arrow columns


def column_of(values: list[Any], field_path: FieldPath) -> pl.Series:
    """The values at a path, one a record (None or UNSET: none), as a column of the path's type."""
    import polars as pl

    type_ = field_path.type
    dtype = type_.dtype()
    if not dtype.is_nested():
        absent = not field_path.field.required or type_.kind is Kind.JSON
        return pl.Series(_without_unset(values, type_) if absent else values, dtype=dtype)
    series = pl.Series(pl.from_arrow(_arrow_array(values, type_, field_path.field.message_keys)))
    return series if series.dtype == dtype else series.cast(dtype)


def _without_unset(values: list[Any], type_: FieldType) -> list[Any]:
    """The values with None in place of UNSET; raw JSON as text."""
    if type_.kind is Kind.JSON:
        return [_raw_as_text(value) for value in values]
    # ``in`` compares by identity first, so that the test is cheap.
    return [None if value is UNSET else value for value in values] if UNSET in values else values


def _raw_as_text(value: Any) -> str | None:
    if not isinstance(value, Raw):
        return None if value is UNSET else value
    text = bytes(value)
    if text in (b"", b"null"):
        return None
    return (
        json_strict.json_text(json_strict.parse_strict(text, json_keys.MOST_DEPTH))
        if text[:1] in b"[{"
        else text.decode()
    )


def _arrow_array(values: list[Any], type_: FieldType, keys: MessageKeys) -> pa.Array:
    match type_.kind:
        case Kind.STRUCT:
            return _struct_array(values, type_, keys)
        case Kind.BOXES:
            return _list_array(values, lambda boxes: _list_array(boxes, _double_array))
        case Kind.MESSAGES:
            return _message_array(values, keys)
        case Kind.INTEGER:
            return pa.array(_without_unset(values, type_), pa.int64())
        case Kind.NUMBER:
            return pa.array(_without_unset(values, type_), pa.float64())
        case Kind.BOOLEAN:
            return pa.array(_without_unset(values, type_), pa.bool_())
        case _:
            item = element_of(type_)
            if item is None:
                return pa.array(_without_unset(values, type_), pa.large_string())
            return _list_array(values, lambda flat: _arrow_array(flat, item, keys))


def _list_array(values: list[Any], build: Any) -> pa.Array:
    """A list array; ``build`` makes the array of all elements."""
    present = [isinstance(value, list) for value in values]
    all_present = all(present)
    lists = (
        values
        if all_present
        else [value for value, is_there in zip(values, present, strict=True) if is_there]
    )
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    offsets = np.zeros(len(values) + 1, np.int64)
    if all_present:
        np.cumsum(lengths, out=offsets[1:])
    else:
        offsets[1:][np.array(present, bool)] = lengths
        np.cumsum(offsets, out=offsets)
    inner = build(list(chain.from_iterable(lists)))
    mask = None if all_present else pa.array([not is_there for is_there in present])
    return pa.LargeListArray.from_arrays(pa.array(offsets), inner, mask=mask)


def _double_array(values: list[Any]) -> pa.Array:
    return pa.array(np.array(values, np.float64))


def _struct_array(values: list[Any], type_: FieldType, keys: MessageKeys) -> pa.Array:
    present = [isinstance(value, msgspec.Struct) for value in values]
    arrays = []
    for i, (_, member) in enumerate(type_.fields):
        name = f"m{i}"
        inner = [
            getattr(value, name) if is_there else None
            for value, is_there in zip(values, present, strict=True)
        ]
        arrays.append(_arrow_array(inner, member, keys))
    mask = None if all(present) else pa.array([not is_there for is_there in present])
    return pa.StructArray.from_arrays(arrays, [name for name, _ in type_.fields], mask=mask)


def _message_array(values: list[Any], keys: MessageKeys) -> pa.Array:
    lists = [
        [json_typed.Turn(content=value, content_kind="text")] if isinstance(value, str) else value
        for value in values
    ]
    return _list_array(lists, lambda flat: json_typed.turn_columns(flat, keys))


# The decoder


BLOCK_BYTES = 2**20
"""Bytes decoded at a time: the objects made from them stay in the processor's cache."""

_DECODE_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


@dataclass(slots=True)
class Decoder:
    """Decodes JSON into one column a path.

    Attributes:
        paths: the values to read from each record.
        policy: policy of each reason.
        depth: deepest nesting allowed.
        cell: whether the texts are cells, which may hold any JSON value, or records, which must be objects.
        broken: reason for a text that does not parse.
    """

    paths: Sequence[FieldPath]
    policy: Callable[[Reason], Policy]
    depth: int
    cell: bool = False
    broken: Reason = Reason.JSON_INVALID
    _shapes: list[RecordShape] = field(init=False)
    _nested_numbers: bool = field(init=False)

    def __post_init__(self) -> None:
        self._shapes = record_shapes(self.paths)
        plain = (Kind.NUMBER,)
        self._nested_numbers = any(
            _holds_number(r.leaf) and (r.leaf.kind not in plain or r.element is not None) for r in self.paths
        )

    def __call__(self, raw: pa.Array, ids: Int64s, collector: FindingCollector) -> list[pl.Series]:
        """One column a path. ``raw`` (binary [n], no nulls) holds the texts, ``ids`` (int64 [n]) their record ids."""
        import polars as pl

        converter = Converter(collector, self.policy, self._shapes[0].structs)
        parts: list[list[pl.Series]] = [[] for _ in self.paths]
        for data, offsets, part in _split_blocks(raw, ids):
            # Each block becomes columns at once, so that its objects are freed while they are in the cache.
            values = self._decode_block(data, offsets, part, converter)
            for field_path, column, found in zip(self.paths, parts, values, strict=True):
                column.append(column_of(found, field_path))
        none = [pl.Series([], dtype=field_path.type.dtype()) for field_path in self.paths]
        return [pl.concat(part) if part else empty for part, empty in zip(parts, none, strict=True)]

    def _decode_block(
        self, data: bytes, offsets: Int64s, ids: Int64s, converter: Converter
    ) -> list[list[Any]]:
        """Values at each path for a block of texts."""
        count = len(ids)
        uncertain = np.zeros(count, bool)
        uncertain |= _not_utf8(data, offsets)
        if self._nested_numbers:
            uncertain |= _long_numbers(data, offsets)
        values: list[list[Any]] = [[] for _ in self.paths]
        position_of = {id(field_path): i for i, field_path in enumerate(self.paths)}
        for shape in self._shapes:
            rows, refused, unproven = self._decode_typed(shape, data, offsets)
            uncertain |= unproven
            for field_path, get in zip(shape.paths, shape.getters, strict=True):
                found = get(rows)
                if field_path.leaf.kind is Kind.NUMBER and field_path.element is None:
                    uncertain[~refused] |= _beyond_int64(found, field_path)
                if may_hide_null(field_path):
                    uncertain[~refused] |= np.array(
                        [hides_null(value, field_path.type) for value in found], bool
                    )
                values[position_of[id(field_path)]] = _with_none(found, refused)
        for i in np.flatnonzero(uncertain).tolist():
            converter.record = int(ids[i])
            self._decode_strict(data[offsets[i] : offsets[i + 1]], i, values, converter)
        return values

    def _decode_typed(self, shape: RecordShape, data: bytes, offsets: Int64s) -> tuple[list[Any], Mask, Mask]:
        """The records that the typed decoder accepts, which ones it refuses (bool [n]), and which ones the strict
        parser must read (bool [n], the refused ones included)."""
        array = np.frombuffer(data, np.uint8)
        refused = np.zeros(len(offsets) - 1, bool)
        decoder, unread, rows = shape.decoder, 0, None
        if not self.cell:
            decoder, unread = shape.for_record(data[offsets[0] : offsets[1]])
            rows = _decode_all(decoder, data, array, offsets)
        if rows is None:
            decoded = _decode_each(decoder, data, offsets)
            rows = [row for row in decoded if row is not None]
            refused = np.array([row is None for row in decoded], bool)
        expected = json_keys.count_keys(shape, rows, unread, self.depth)
        colons = json_keys.colon_mask(array)
        uncertain = refused.copy()
        # No record has fewer colons than keys: if the sums agree, the counts of every record agree.
        if refused.any() or int(np.count_nonzero(colons)) != int(expected.sum()):
            uncertain[~refused] = json_keys.count_by_record(colons, offsets)[~refused] != expected
        return rows, refused, uncertain

    def _decode_strict(self, text: bytes, index: int, values: list[list[Any]], converter: Converter) -> None:
        """Read one text with the strict parser, and report everything that is wrong with it."""
        collector, record = converter.collector, converter.record
        name = self.paths[0].field.name if self.cell else ""
        value: Any = MISSING  # not None: the text null decodes to None
        try:
            value = json_strict.parse_strict(text.strip(b" \t\r\n"), self.depth)
        except json_strict.NotJson as fault:
            reason = self.broken if fault.reason is Reason.JSON_INVALID else fault.reason
            collector.add(
                reason, name, record, "", fault.found, fault.expected or ("JSON" if self.cell else "")
            )
        else:
            if not self.cell:
                self._report_record(value, collector, record)
        for i, field_path in enumerate(self.paths):
            unread = value is MISSING or not (self.cell or isinstance(value, json_strict.Object))
            values[i][index] = None if unread else converter.convert(field_path, value)

    def _report_record(self, value: Any, collector: FindingCollector, record: int) -> None:
        """Report what is wrong with a record as a whole."""
        if not isinstance(value, json_strict.Object):
            collector.add(Reason.JSON_NOT_OBJECT, "", record, "$", json_strict.json_kind(value).split()[-1])
            for path, literal in json_strict.non_finite_literals(value):
                collector.add(Reason.JSON_NON_FINITE, "", record, path, literal, "JSON")
            return
        for key in value.repeated:
            collector.add(Reason.JSON_DUPLICATE_KEY, "", record, f"$.{key}", repr(key))
        read = {field_path.steps[0].key for field_path in self.paths if field_path.steps}
        for path, literal in json_strict.non_finite_literals(
            {k: v for k, v in value.items() if k not in read}
        ):
            collector.add(Reason.JSON_NON_FINITE, "", record, path, literal, "JSON")


def _split_blocks(raw: pa.Array, ids: Int64s) -> list[tuple[bytes, Int64s, Int64s]]:
    """The texts in blocks: bytes, int64 offsets [n + 1] and record ids [n]."""
    if not len(raw):
        return []
    _, edges, values = raw.buffers()
    offsets = np.frombuffer(edges, np.int32)[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
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


def _decode_all(
    decoder: msgspec.json.Decoder[Any], data: bytes, array: npt.NDArray[np.uint8], offsets: Int64s
) -> list[Any] | None:
    """All records in one call, or None if the decoder refuses one of them.

    The decoder reads a stream of values. Each text is one value, because each begins and ends with a brace: an object
    that continues in the next text would need a comma between them.
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
    except _DECODE_ERRORS:
        return None
    return rows if len(rows) == len(offsets) - 1 else None


def _decode_each(decoder: msgspec.json.Decoder[Any], data: bytes, offsets: Int64s) -> list[Any]:
    rows: list[Any] = [None] * (len(offsets) - 1)
    edges = offsets.tolist()
    for i in range(len(rows)):
        with suppress(*_DECODE_ERRORS):
            rows[i] = decoder.decode(data[edges[i] : edges[i + 1]])
    return rows


def _not_utf8(data: bytes, offsets: Int64s) -> Mask:
    """Texts that are not UTF-8: bool [n]."""
    bad = np.zeros(len(offsets) - 1, bool)
    if not is_utf8(data):
        edges = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        bad[:] = [not is_utf8(data[start:end]) for start, end in edges]
    return bad


def _long_numbers(data: bytes, offsets: Int64s) -> Mask:
    """Texts with a run of digits as long as that of an integer beyond 64 bits."""
    bad = np.zeros(len(offsets) - 1, bool)
    run = (np.frombuffer(data, np.uint8) - np.uint8(ord("0"))) < 10
    for step in (1, 2, 4, 8, 3):  # runs of 2, 4, 8, 16, and 19 digits
        if len(run) <= step:
            return bad
        run = run[:-step] & run[step:]
    hits = np.flatnonzero(run)
    bad[np.searchsorted(offsets, hits, "right") - 1] = True
    return bad


def _beyond_int64(values: list[Any], field_path: FieldPath) -> Mask:
    """Doubles that may be integers beyond 64 bits in the text."""
    if not field_path.field.required:
        values = [0.0 if value is None or value is UNSET else value for value in values]
    return np.asarray(np.abs(np.array(values, np.float64)) >= 2.0**63)


def _with_none(values: list[Any], refused: Mask) -> list[Any]:
    """The values with None for each record that the typed decoder refused."""
    if not refused.any():
        return values
    rest = iter(values)
    return [None if missing else next(rest) for missing in refused.tolist()]


def _holds_number(type_: FieldType) -> bool:
    """Whether values of the type contain numbers that the typed decoder reads as doubles."""
    if type_.kind in (Kind.NUMBER, Kind.BOXES, Kind.MESSAGES):
        return True
    return any(
        _holds_number(t) for t in (*([type_.item] if type_.item else []), *(t for _, t in type_.fields))
    )
