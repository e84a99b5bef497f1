"""The judge of final tensors: compare every row of a tokenized batch with the limits of a model.

It takes tokenized data of any origin (Arrow lists of any integer or float type, padded or not) and relies on no
metadata. Its reasons are those of the catalogue (docs/hazards.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrow_lists import flatten, owners
from pipeline.reasons import Reason
from pipeline.shards.schemas import IGNORE
from pipeline.train.model_limits import Target

Numbers = npt.NDArray[Any]
MOST = 1 << 62
"""Bound of an id for a model without a known one."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One hazard in one row.

    Attributes:
        row: index of the row.
        reason: of the catalogue.
        column, place: the column, and the index of the token as "[5]"; "" for the whole row.
        found, expected: in numbers.
    """

    row: int
    reason: Reason
    column: str
    place: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"row {self.row}  {self.reason.slug}  {self.column}{self.place}: {self.found}, expected {self.expected}"


def judge(
    batch: pa.Table | pa.RecordBatch, target: Target, *, causal: bool, first_row: int = 0
) -> Iterator[Hit]:
    """The hazards of some rows: for each row, reason and column only the first.

    Args:
        batch: the column input_ids, and optionally attention_mask, labels, bbox, token_type_ids, position_ids,
            pixel_values.
        target: the model.
        causal: whether labels are token ids shifted by one; otherwise they are classes.
        first_row: index of the first row of the batch.
    """
    rows = _Rows(batch, first_row)
    limits = target.limits
    ids, lengths = rows.numbers("input_ids")
    if ids is None:
        yield from rows.whole(
            Reason.VALUE_MISSING, "input_ids", np.ones(batch.num_rows, bool), lengths, "token ids"
        )
        return
    mask = _mask(rows, lengths)
    yield from rows.ids("input_ids", Reason.TOKEN_OUT_OF_VOCAB, limits.embedding_rows or MOST)
    yield from rows.whole(Reason.SEQUENCE_TOO_SHORT, "input_ids", lengths < 2, lengths, "at least 2 tokens")
    yield from _attention(rows, mask, lengths)
    yield from _lengths(rows, target, ids, lengths)
    yield from rows.ids("token_type_ids", Reason.TOKEN_TYPE_OUT_OF_RANGE, limits.type_vocab)
    yield from _boxes(rows, target, lengths)
    yield from _labels(rows, target, lengths, causal=causal)
    yield from _pixels(rows)


class _Rows:
    """The columns of a batch as flat arrays, and the hazards in them."""

    def __init__(self, batch: pa.Table | pa.RecordBatch, first_row: int) -> None:
        self._batch, self._first = batch, first_row
        self.names = set(batch.schema.names)

    def numbers(self, name: str) -> tuple[Numbers | None, npt.NDArray[np.int64]]:
        """The values of a list column, with NaN for nulls, and the length of each list."""
        if name not in self.names:
            return None, np.zeros(self._batch.num_rows, np.int64)
        column = self._batch.column(name)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
            column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
            column = column.cast(pa.list_(column.type.value_type))
        if not pa.types.is_list(column.type):
            return None, np.zeros(self._batch.num_rows, np.int64)
        values, lengths = flatten(column)
        return np.asarray(values), lengths

    def ids(self, name: str, reason: Reason, bound: int, ignored: int | None = None) -> Iterator[Hit]:
        """Hazards of values that are not whole numbers from 0 to below the bound."""
        values, lengths = self.numbers(name)
        if values is None:
            return
        with np.errstate(invalid="ignore"):
            bad = ~((values >= 0) & (values < bound))
        if ignored is not None:
            bad &= values != ignored
        if values.dtype.kind == "f":
            bad |= values != np.floor(np.where(np.isfinite(values), values, 0.5))
        yield from self.values(reason, name, bad, values, lengths, f"a whole number from 0 to {bound - 1}")

    def values(
        self,
        reason: Reason,
        name: str,
        bad: Numbers,
        values: Numbers,
        lengths: npt.NDArray[np.int64],
        expected: str,
    ) -> Iterator[Hit]:
        """One hazard per row, at its first bad value."""
        hits = np.flatnonzero(bad)
        row, first = np.unique(owners(lengths)[hits], return_index=True)
        starts = np.cumsum(lengths) - lengths
        for at, index in zip(row.tolist(), hits[first].tolist(), strict=True):
            found = str(values[index].tolist())[:80]
            yield Hit(self._first + at, reason, name, f"[{index - starts[at]}]", found, expected)

    def whole(self, reason: Reason, name: str, bad: Numbers, shown: Numbers, expected: str) -> Iterator[Hit]:
        """Hazards of whole rows; ``shown`` holds the number that each row reports."""
        for at in np.flatnonzero(bad).tolist():
            yield Hit(self._first + at, reason, name, "", str(shown[at]), expected)


def _mask(rows: _Rows, lengths: npt.NDArray[np.int64]) -> Numbers:
    """Whether each token is attended to; all are without a mask, or with one of another length."""
    mask, own = rows.numbers("attention_mask")
    return (
        np.ones(int(lengths.sum()), bool) if mask is None or not np.array_equal(own, lengths) else mask != 0
    )


def _attention(rows: _Rows, mask: Numbers, lengths: npt.NDArray[np.int64]) -> Iterator[Hit]:
    _, own = rows.numbers("attention_mask")
    if "attention_mask" not in rows.names:
        return
    yield from rows.whole(Reason.LENGTHS_MISMATCH, "attention_mask", own != lengths, own, "one a token")
    attended = np.bincount(owners(lengths)[mask], minlength=len(lengths))
    yield from rows.whole(Reason.ATTENTION_EMPTY, "attention_mask", attended == 0, attended, "at least one 1")


def _lengths(rows: _Rows, target: Target, ids: Numbers, lengths: npt.NDArray[np.int64]) -> Iterator[Hit]:
    """Rows that are too long. Families that count positions after pads count tokens without pads, the others all."""
    limit, pad = target.limits.max_tokens, target.limits.pad_id
    if limit is None:
        return
    counted = lengths
    if target.limits.family in ("layoutlmv3", "lilt") and pad is not None:
        counted = np.bincount(owners(lengths)[ids != pad], minlength=len(lengths))
    if "position_ids" in rows.names and target.rotary:
        yield from rows.ids("position_ids", Reason.TOO_LONG_FOR_TARGET, limit)
        return
    yield from rows.whole(
        Reason.TOO_LONG_FOR_TARGET, "input_ids", counted > limit, counted, f"at most {limit} tokens"
    )


def _boxes(rows: _Rows, target: Target, lengths: npt.NDArray[np.int64]) -> Iterator[Hit]:
    name = "bbox" if "bbox" in rows.names else "boxes"
    boxes, own = rows.numbers(name)
    if boxes is None or target.limits.family is None:
        return
    yield from rows.whole(Reason.LENGTHS_MISMATCH, name, own != lengths, own, "one a token")
    if boxes.ndim == 1:
        if boxes.dtype != object:
            yield from rows.whole(Reason.BBOX_ARITY, name, own >= 0, own, "four numbers a token")
            return
        arity = np.array([0 if box is None else len(box) for box in boxes])
        yield from rows.values(Reason.BBOX_ARITY, name, arity != 4, boxes, own, "four numbers")
        boxes = np.array(
            [box if n == 4 else (0, 0, 0, 0) for box, n in zip(boxes, arity, strict=True)], float
        )
        boxes = boxes.reshape(-1, 4)
    top = target.limits.box_max
    finite: Numbers = np.asarray(np.isfinite(boxes.astype(np.float64)).all(axis=1))
    yield from rows.values(Reason.BBOX_NOT_FINITE, name, ~finite, boxes, own, "finite numbers")
    with np.errstate(invalid="ignore"):
        outside = finite & ~np.asarray(((boxes >= 0) & (boxes <= top)).all(axis=1))
        inverted = finite & ((boxes[:, 2] < boxes[:, 0]) | (boxes[:, 3] < boxes[:, 1]))
    yield from rows.values(Reason.BBOX_OUT_OF_PAGE, name, outside, boxes, own, f"0 to {top:g}")
    yield from rows.values(Reason.BBOX_INVERTED, name, inverted, boxes, own, "corners in order")


def _labels(rows: _Rows, target: Target, lengths: npt.NDArray[np.int64], *, causal: bool) -> Iterator[Hit]:
    labels, own = rows.numbers("labels")
    if labels is None:
        return
    yield from rows.whole(Reason.LENGTHS_MISMATCH, "labels", own != lengths, own, "one a token")
    bound = (target.limits.embedding_rows if causal else target.limits.num_labels) or MOST
    reason = Reason.TOKEN_OUT_OF_VOCAB if causal else Reason.LABEL_OUT_OF_RANGE
    yield from rows.ids("labels", reason, bound, ignored=IGNORE)
    learned = labels != IGNORE
    if causal:
        learned[(np.cumsum(own) - own)[own > 0]] = False  # position 0 is shifted away
    count = np.bincount(owners(own)[learned], minlength=len(own))
    none = Reason.NO_SUPERVISED_TOKENS if causal else Reason.LABEL_ALL_IGNORED
    yield from rows.whole(none, "labels", count == 0, count, "at least one label: its loss alone is NaN")


def _pixels(rows: _Rows) -> Iterator[Hit]:
    for name in ("pixel_values", "image"):
        column = rows._batch.column(name) if name in rows.names else None
        if column is None or not pa.types.is_list(column.type):
            continue
        lost = []
        for at in range(len(column)):
            values = column[at].values
            while values is not None and not pa.types.is_primitive(values.type):
                values = values.flatten()
            numbers = values.to_numpy(zero_copy_only=False) if values is not None else np.empty(0)
            lost.append(int((~np.isfinite(numbers.astype(np.float64))).sum()))
        counts = np.array(lost, np.int64)
        yield from rows.whole(Reason.PIXELS_NOT_FINITE, name, counts > 0, counts, "finite pixels")
