"""A plan: rendered text cut at its control tokens into constant ids and pieces to be tokenized.

A control token that the template writes becomes its id; the text between two of them is tokenized as plain text, in
one piece, so that a control token spelled in a content can never become one. Pieces without a content are the same in
every conversation of the shape: their ids are looked up once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from pipeline.models.template_pattern import Place
from pipeline.models.tokenizer import Tokenizer
from pipeline.models.tokenizer_engines import Int32s, Int64s


class Side(IntEnum):
    """Which token a place inside a token means: the token itself, or the one after it."""

    FIRST = 0  # the first token that ends after the place
    PAST = 1  # one past the last token that starts before the place


@dataclass(frozen=True, slots=True)
class TextSegment:
    """Text tokenized as one: literals with the contents of turns between them."""

    literals: tuple[str, ...]
    slots: tuple[int, ...]
    trims: tuple[tuple[bool, bool], ...]


@dataclass(frozen=True, slots=True)
class TokenMark:
    """A place in the tokens of a conversation.

    Attributes:
        segment: index of the segment.
        token: index within a constant segment.
        literal: bytes of literals before the place, within a piece.
        slots: number of the piece's contents before the place.
        side: see ``Side``.
    """

    segment: int
    token: int = 0
    literal: int = 0
    slots: int = 0
    side: Side = Side.FIRST


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments in order: a constant (its index in ``Constants``) or a piece; and marks in them."""

    segments: tuple[int | TextSegment, ...]
    marks: tuple[TokenMark, ...]


class Constants:
    """Ids of constant texts, each looked up once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[int, ...], int] = {}
        self._texts: dict[str, tuple[tuple[int, ...], Int64s, Int64s]] = {}
        self.ids: list[Int32s] = []

    def add(self, ids: tuple[int, ...]) -> int:
        """Index of a run of ids."""
        if ids not in self._known:
            self._known[ids] = len(self.ids)
            self.ids.append(np.array(ids, np.int32))
        return self._known[ids]

    def text(self, text: str) -> tuple[tuple[int, ...], Int64s, Int64s]:
        """Ids of a plain text, and first and one past the last byte of each."""
        if text not in self._texts:
            ids, _, starts, ends = self._tokenizer.encode_bytes([text])
            self._texts[text] = (tuple(ids.tolist()), starts, ends)
        return self._texts[text]

    def pool(self) -> tuple[Int32s, Int64s, Int64s]:
        """All constants one after the other, first index and length of each."""
        lengths = np.fromiter(map(len, self.ids), np.int64, len(self.ids))
        flat = np.concatenate(self.ids) if self.ids else np.empty(0, np.int32)
        return flat, np.cumsum(lengths) - lengths, lengths


@dataclass(frozen=True, slots=True)
class ControlTokens:
    """The control tokens of a tokenizer, as a plan needs them.

    Attributes:
        ids: id by text.
        pattern: matches any of them, the longest first.
        eats_after, eats_before: those that swallow the white space after, or before, them (``rstrip``, ``lstrip``).
    """

    ids: dict[str, int]
    pattern: re.Pattern[str]
    eats_after: frozenset[str]
    eats_before: frozenset[str]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> ControlTokens:
        """Those of a tokenizer."""
        longest = sorted(tokenizer.control, key=lambda text: (-len(text), text))
        pattern = re.compile("|".join(map(re.escape, longest)) if longest else "(?!)")
        return cls(
            dict(tokenizer.control),
            pattern,
            frozenset(tokenizer.eating("rstrip")),
            frozenset(tokenizer.eating("lstrip")),
        )

    def spelled(self, value: Any) -> bool:
        """Whether a text anywhere in a value of JSON spells a control token."""
        return any(self.pattern.search(text) for text in json_texts(value))


def json_texts(value: Any) -> Iterator[str]:
    """Every text in a value of JSON, keys of objects included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield str(key)
            yield from json_texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from json_texts(member)


@dataclass(slots=True)
class _Chunk:
    """A part of one literal, and the segment it went to."""

    literal: int
    begin: int
    end: int
    segment: int
    text: str
    before: int  # bytes of the piece's literals before it
    slots: int


class SegmentBuilder:
    """Cuts a rendered text, given as literals with slots between them, into a plan."""

    def __init__(self, control: ControlTokens, constants: Constants) -> None:
        self._control, self._constants = control, constants

    def build(
        self,
        literals: Sequence[str],
        slots: Sequence[int],
        trims: Sequence[tuple[bool, bool]],
        places: Sequence[tuple[Place, Side]],
        *,
        keep_texts: bool = True,
    ) -> Segments:
        """The plan, with a mark for each place.

        Args:
            keep_texts: whether texts without a slot are constants; false for texts of one conversation only.
        """
        raw, chunks = self._cut(literals, slots, trims)
        by_literal: dict[int, list[_Chunk]] = {}
        for chunk in chunks:
            by_literal.setdefault(chunk.literal, []).append(chunk)
        segments: list[int | TextSegment] = []
        run: list[int] = []
        at: list[tuple[int, int]] = []  # of each raw segment: final segment, tokens before it there
        spans: dict[int, tuple[Int64s, Int64s]] = {}
        for i, item in enumerate(raw):
            if isinstance(item, int):
                ids: tuple[int, ...] = (item,)
            elif not item.slots and keep_texts:
                ids, starts, ends = self._constants.text(item.literals[0])
                spans[i] = (starts, ends)
            else:
                if run:
                    segments.append(self._constants.add(tuple(run)))
                    run = []
                at.append((len(segments), 0))
                segments.append(item)
                continue
            at.append((len(segments), len(run)))
            run.extend(ids)
        if run:
            segments.append(self._constants.add(tuple(run)))
        marks = tuple(self._mark(place, side, by_literal, raw, at, spans) for place, side in places)
        return Segments(tuple(segments), marks)

    def _mark(
        self,
        place: Place,
        side: Side,
        by_literal: dict[int, list[_Chunk]],
        raw: list[int | TextSegment],
        at: list[tuple[int, int]],
        spans: dict[int, tuple[Int64s, Int64s]],
    ) -> TokenMark:
        chunks = by_literal[place.literal]
        chunk = next((c for c in chunks if c.begin <= place.offset < c.end), None)
        if chunk is None:
            # The end of a chunk; or white space that a control token swallows, which is no part of any.
            ended = (c for c in reversed(chunks) if c.begin <= place.offset <= c.end)
            later = next((c for c in chunks if c.begin > place.offset), chunks[-1])
            chunk = next(ended, later)
        segment, before = at[chunk.segment]
        item = raw[chunk.segment]
        inside = min(max(place.offset - chunk.begin, 0), len(chunk.text))
        if isinstance(item, int):
            past = inside > 0 if side is Side.PAST else inside >= len(chunk.text)
            return TokenMark(segment, before + int(past), side=side)
        offset = chunk.before + len(chunk.text[:inside].encode())
        if chunk.segment in spans:
            starts, ends = spans[chunk.segment]
            token = int((starts < offset).sum() if side is Side.PAST else (ends <= offset).sum())
            return TokenMark(segment, before + token, side=side)
        return TokenMark(segment, 0, offset, chunk.slots, side)

    def _cut(
        self, literals: Sequence[str], slots: Sequence[int], trims: Sequence[tuple[bool, bool]]
    ) -> tuple[list[int | TextSegment], list[_Chunk]]:
        """Control ids and pieces in order, and the chunks of the literals in them."""
        raw: list[int | TextSegment] = []
        chunks: list[_Chunk] = []
        piece = _OpenSegment()
        for i, literal in enumerate(literals):
            begin = 0
            for match in [*self._control.pattern.finditer(literal), None]:
                end = match.start() if match else len(literal)
                piece.write(i, begin, literal[begin:end])
                if match is None:
                    break
                text = match.group()
                piece.close(raw, chunks, eaten=text in self._control.eats_before)
                chunks.append(_Chunk(i, match.start(), match.end(), len(raw), text, 0, 0))
                raw.append(self._control.ids[text])
                piece = _OpenSegment(eats=text in self._control.eats_after)
                begin = match.end()
            if i < len(slots):
                piece.slot(slots[i], trims[i])
        piece.close(raw, chunks, eaten=False)
        return raw, chunks


class _OpenSegment:
    """A piece while it is written."""

    def __init__(self, *, eats: bool = False) -> None:
        self.literals, self.slots = [""], list[int]()
        self.trims: list[tuple[bool, bool]] = []
        self.chunks: list[_Chunk] = []
        self.eats = eats  # white space at the head belongs to the control token before

    def write(self, literal: int, begin: int, text: str) -> None:
        kept = text.lstrip() if self.eats and not self.slots and not self.literals[0] else text
        begin += len(text) - len(kept)
        before = sum(len(part.encode()) for part in self.literals)
        self.chunks.append(_Chunk(literal, begin, begin + len(kept), -1, kept, before, len(self.slots)))
        self.literals[-1] += kept

    def slot(self, turn: int, trims: tuple[bool, bool]) -> None:
        left = trims[0] or (self.eats and not self.slots and not self.literals[0])
        self.slots.append(turn)
        self.trims.append((left, trims[1]))
        self.literals.append("")

    def close(self, raw: list[int | TextSegment], chunks: list[_Chunk], *, eaten: bool) -> None:
        if eaten:
            last = self.literals[-1]
            self.literals[-1] = last.rstrip()
            for chunk in self.chunks:
                if chunk.slots == len(self.slots):
                    chunk.text = chunk.text[: max(0, len(self.literals[-1]))]
            if self.slots and not self.literals[-1]:
                self.trims[-1] = (self.trims[-1][0], True)
        if not self.slots and not self.literals[0]:
            return
        for chunk in self.chunks:
            chunk.segment = len(raw)
        chunks.extend(self.chunks)
        raw.append(TextSegment(tuple(self.literals), tuple(self.slots), tuple(self.trims)))
