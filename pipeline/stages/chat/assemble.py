"""Put constants and tokenized pieces together into the ids of each conversation, in numpy, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pipeline.arrow_lists import Int64s, owners, within
from pipeline.models.tokenizer import Tokenizer
from pipeline.models.tokenizer_engines import Int32s
from pipeline.reasons import Reason
from pipeline.stages.chat.segments import Constants, Segments, Side

Mask = npt.NDArray[np.bool_]
MARKS = 4
"""Marks a turn: end of the turn; first and past the last of what is trained; the stop token."""
END, FIRST, PAST, STOP = range(MARKS)


@dataclass(slots=True)
class Encoded:
    """Tokens of conversations.

    Attributes:
        ids: int32 [tokens]. lengths: int64 [n], 0 for those that gave none.
        learned: bool [tokens], true for what is trained.
        marks: int64 [turns, MARKS], token positions within the conversation, -1 where there is none.
        plain: bool [tokens], true for tokenized text.
        problems: conversation, reason and what was found, for those that gave no tokens.
    """

    ids: Int32s
    lengths: Int64s
    learned: Mask
    marks: Int64s
    plain: Mask
    problems: list[tuple[int, Reason, str]] = field(default_factory=list)


@dataclass(slots=True)
class SegmentBatch:
    """Segments and marks of a batch, collected before anything is tokenized.

    Rows stand in the order they were added; ``order`` says which conversation each is. References are piece indices,
    or ``-1 - constant``.
    """

    texts: list[str] = field(default_factory=list)
    order: list[Int64s] = field(default_factory=list)
    counts: list[Int64s] = field(default_factory=list)
    references: list[Int64s] = field(default_factory=list)
    mark_segments: list[Int64s] = field(default_factory=list)
    mark_tokens: list[Int64s] = field(default_factory=list)
    mark_bytes: list[Int64s] = field(default_factory=list)
    mark_sides: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    mark_targets: list[Int64s] = field(default_factory=list)
    _segments: int = 0
    _ones: list[tuple[int, Segments, list[int]]] = field(default_factory=list)

    def add(
        self,
        rows: Int64s,
        plan: Segments,
        texts: Sequence[Sequence[str]],
        sizes: Sequence[Sequence[Int64s]],
        targets: Int64s,
    ) -> None:
        """Add conversations that share a plan.

        Args:
            rows: int64 [r], the conversations.
            texts: for each piece of the plan, its text in each of the r conversations.
            sizes: for each piece, for each of its contents, the bytes of it in each of the r conversations.
            targets: int64 [r, marks], where the position of each mark is to be written.
        """
        r, base = len(rows), len(self.texts)
        columns: list[Int64s] = []
        piece_of: dict[int, int] = {}
        for i, segment in enumerate(plan.segments):
            if isinstance(segment, int):
                columns.append(np.full(r, -1 - segment, np.int64))
            else:
                number = piece_of[i] = len(piece_of)
                columns.append(base + number * r + np.arange(r, dtype=np.int64))
        for column in texts:
            self.texts.extend(column)
        width = len(plan.segments)
        self.order.append(rows)
        self.counts.append(np.full(r, width, np.int64))
        self.references.append(np.stack(columns, axis=1).reshape(-1) if columns else np.empty(0, np.int64))
        heads = self._segments + width * np.arange(r, dtype=np.int64)
        for k, mark in enumerate(plan.marks):
            place = np.full(r, mark.literal, np.int64)
            for size in sizes[piece_of[mark.segment]][: mark.slots] if mark.slots else ():
                place = place + size
            self.mark_segments.append(heads + mark.segment)
            self.mark_tokens.append(np.full(r, mark.token, np.int64))
            self.mark_bytes.append(place)
            self.mark_sides.append(np.full(r, mark.side is Side.PAST, np.bool_))
            self.mark_targets.append(targets[:, k])
        self._segments += width * r

    def add_one(self, row: int, plan: Segments, targets: list[int]) -> None:
        """Add a conversation with a plan of its own: its pieces are literal texts."""
        self._ones.append((row, plan, targets))

    def close(self) -> None:
        """Take in the conversations added one by one."""
        if not self._ones:
            return
        references: list[int] = []
        marks: list[tuple[int, int, int, bool, int]] = []
        for _, plan, targets in self._ones:
            head = self._segments + len(references)
            for segment in plan.segments:
                if isinstance(segment, int):
                    references.append(-1 - segment)
                else:
                    references.append(len(self.texts))
                    self.texts.append(segment.literals[0])
            marks += [
                (head + mark.segment, mark.token, mark.literal, mark.side is Side.PAST, target)
                for mark, target in zip(plan.marks, targets, strict=True)
            ]
        self.order.append(np.array([row for row, _, _ in self._ones], np.int64))
        self.counts.append(np.array([len(plan.segments) for _, plan, _ in self._ones], np.int64))
        self.references.append(np.array(references, np.int64))
        table = np.array(marks, np.int64).reshape(-1, 5)
        for column, place in zip(
            (self.mark_segments, self.mark_tokens, self.mark_bytes), (0, 1, 2), strict=True
        ):
            column.append(table[:, place])
        self.mark_sides.append(table[:, 3].astype(np.bool_))
        self.mark_targets.append(table[:, 4])
        self._segments += len(references)
        self._ones = []


@dataclass(frozen=True, slots=True)
class AssembledTokens:
    """Tokens of conversations, in the order of the conversations.

    Attributes:
        ids: int32 [tokens]. lengths: int64 [n].
        marks: int64 [targets], position of each mark within its conversation; -1 where none was asked for.
        plain: bool [tokens], true for tokens of pieces: tokenized text, in which no control token may stand.
    """

    ids: Int32s
    lengths: Int64s
    marks: Int64s
    plain: Mask


def assemble(
    assembly: SegmentBatch, constants: Constants, tokenizer: Tokenizer, n: int, targets: int
) -> AssembledTokens:
    """Tokenize all pieces in one call, and put everything in its place.

    Args:
        n: number of conversations; those that were not added have no tokens.
        targets: number of mark positions.
    """
    ids, lengths, starts, ends = tokenizer.encode_bytes(assembly.texts)
    pool, constant_starts, constant_lengths = constants.pool()
    references = _joined(assembly.references)
    constant = references < 0
    piece = np.where(constant, 0, references)
    number = np.where(constant, -1 - references, 0)
    piece_starts = np.cumsum(lengths) - lengths
    if not len(piece_starts):
        piece_starts = lengths = np.zeros(1, np.int64)
    if not len(constant_starts):
        constant_starts = constant_lengths = np.zeros(1, np.int64)
    source = np.where(constant, constant_starts[number], len(pool) + piece_starts[piece])
    sizes = np.where(constant, constant_lengths[number], lengths[piece])
    marks = _marks(assembly, sizes, constant, piece, lengths, starts, ends, targets)
    rows, counts = _joined(assembly.order), _joined(assembly.counts)
    # Segments in the order of the conversations; each is then copied from the pool in one gather.
    heads = np.cumsum(counts) - counts
    order = np.argsort(rows, kind="stable")
    index = np.repeat(heads[order], counts[order]) + within(counts[order])
    source, sizes = source[index], sizes[index]
    plain = np.repeat(~constant[index], sizes)
    everything = np.concatenate([pool, ids])
    gathered = everything[np.repeat(source, sizes) + within(sizes)]
    totals = np.zeros(n, np.int64)
    np.add.at(totals, np.repeat(rows[order], counts[order]), sizes)
    return AssembledTokens(gathered, totals, marks, plain)


def _marks(
    assembly: SegmentBatch,
    sizes: Int64s,
    constant: Mask,
    piece: Int64s,
    lengths: Int64s,
    starts: Int64s,
    ends: Int64s,
    targets: int,
) -> Int64s:
    """Position of each mark within its conversation."""
    out = np.full(targets, -1, np.int64)
    segment = _joined(assembly.mark_segments)
    if not len(segment):
        return out
    counts = _joined(assembly.counts)
    row = owners(counts)
    begin = np.cumsum(sizes) - sizes
    begin = begin - begin[(np.cumsum(counts) - counts)[row]]
    place = _joined(assembly.mark_tokens)
    inside = ~constant[segment]
    if inside.any():
        # Byte places of all pieces on one line, a byte apart, so that one search serves them all.
        texts = len(assembly.texts)
        last = np.zeros(texts, np.int64)
        filled = lengths[:texts] > 0
        last[filled] = ends[np.cumsum(lengths[:texts])[filled] - 1]
        line = np.cumsum(last + 1) - (last + 1)
        owner = owners(lengths[:texts])
        first_byte, past_byte = line[owner] + starts, line[owner] + ends
        which = piece[segment[inside]]
        target = line[which] + _joined(assembly.mark_bytes)[inside]
        past = _joined(assembly.mark_sides)[inside]
        found = np.where(
            past,
            np.searchsorted(first_byte, target, side="left"),
            np.searchsorted(past_byte, target, side="right"),
        )
        head = (np.cumsum(lengths[:texts]) - lengths[:texts])[which]
        place[inside] = np.clip(found - head, 0, lengths[which])
    into = _joined(assembly.mark_targets)
    out[into] = begin[segment] + place
    return out


def _joined(parts: list[Int64s] | list[npt.NDArray[np.bool_]]) -> Int64s:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
