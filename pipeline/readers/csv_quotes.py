"""Where the records of delimited text end, and which of them have broken quotes.

A block of text is scanned in columns: where every quote opens at the start of a field and closes before a
delimiter or a line break, whether a line break ends a record is the parity of the quotes before it. Where a quote
stands elsewhere, that one record is read character by character, and the scan goes on behind it.

Grammar: RFC 4180 with any single-byte delimiter; a line ends with LF, CRLF or CR; a quote inside an unquoted field
is plain text (``5" pipe``), as for every common reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.batch import Int64s, Mask
from pipeline.reasons import Reason

LF, CR, QUOTE = 10, 13, 34
_BREAK = re.compile(rb"[\r\n]")


@dataclass(frozen=True, slots=True)
class Broken:
    """A record whose quotes are broken: its place among the records of the block, why, and what was found."""

    index: int
    reason: Reason
    found: str


@dataclass(frozen=True, slots=True)
class RecordEnds:
    """Records of a block.

    Attributes:
        ends: int64 [records], offset behind each record's line break; a record begins where the last one ended.
        breaks: int64, offset behind each physical line break up to the last record's end.
        lines: int64 [records], physical line breaks before each record's start.
        broken: the records with broken quotes.
    """

    ends: Int64s
    breaks: Int64s
    lines: Int64s
    broken: tuple[Broken, ...] = ()


def line_breaks(block: bytes, final: bool) -> Int64s:
    """Offset behind each line break (LF, CRLF, CR). A CR at the end of a block that goes on is left open."""
    array = np.frombuffer(block, np.uint8)
    found = np.flatnonzero(array == LF)
    if b"\r" not in block or not _lone_returns(array, found):
        return found + 1
    return np.flatnonzero(_line_ends(array, final)) + 1


def _lone_returns(array: npt.NDArray[np.uint8], feeds: Int64s) -> bool:
    """Whether a CR has no LF behind it, by their numbers."""
    before = array[feeds - 1] == CR
    if len(feeds) and not feeds[0]:
        before[0] = False
    return bool(np.count_nonzero(array == CR) != np.count_nonzero(before))


def _line_ends(array: npt.NDArray[np.uint8], final: bool) -> Mask:
    """Where a line break ends (bool [bytes])."""
    feeds: Mask = array == LF
    lone = array == CR
    lone[:-1] &= ~feeds[1:]
    lone[-1] &= final
    feeds |= lone
    return feeds


def find_records(block: bytes, delimiter: int, *, final: bool, limit: int) -> RecordEnds:
    """Find the records of a block that starts at the beginning of a record.

    Text behind the last border is an unfinished record (none is left when ``final``). An open quote that reaches
    over more than ``limit`` bytes is taken as never closed.
    """
    array = np.frombuffer(block, np.uint8)
    quoted = array == QUOTE
    # One search for both; whether a line break is within quotes is the parity of the quotes before it.
    quotes, feeds, inside = _split_marks((array == LF) | quoted, quoted)
    if b"\r" in block and _lone_returns(array, feeds):
        quotes, feeds, inside = _split_marks(_line_ends(array, final) | quoted, quoted)
    breaks = feeds + 1
    if final and len(block) and (not len(breaks) or breaks[-1] < len(block)):
        breaks, inside = np.append(breaks, len(block)), np.append(inside, bool(len(quotes) & 1))
    if not len(quotes):
        return RecordEnds(breaks, breaks, np.arange(len(breaks)))
    adjacent = quotes[1:] == quotes[:-1] + 1
    suspects = _suspects(array, delimiter, quotes, adjacent)
    kept = np.flatnonzero(~inside)
    ends = breaks[kept]
    left = len(block) - (int(ends[-1]) if len(ends) else 0)
    if len(suspects[0]) or (left and final) or left > limit:
        ends, broken = _walk(block, delimiter, breaks, quotes, suspects, final, limit)
        breaks = breaks[: np.searchsorted(breaks, ends[-1] if len(ends) else 0, "right")]
        lines = np.searchsorted(breaks, np.concatenate([[0], ends[:-1]]), "right").astype(np.int64)
        return RecordEnds(ends, breaks, lines[: len(ends)], tuple(broken))
    breaks = breaks[: kept[-1] + 1] if len(kept) else breaks[:0]
    lines = np.zeros(len(ends), np.int64)
    np.add(kept[:-1], 1, out=lines[1:])
    return RecordEnds(ends, breaks, lines)


def _split_marks(marks: Mask, quoted: Mask) -> tuple[Int64s, Int64s, Mask]:
    """Of the marked places those of quotes, the others, and which of the others have an odd number of quotes before
    them."""
    events = np.flatnonzero(marks)
    is_quote = quoted[events]
    others = ~is_quote
    parity = np.cumsum(is_quote, dtype=np.uint8)
    parity &= 1
    return events[is_quote], events[others], parity.view(bool)[others]


def _walk(
    block: bytes,
    delimiter: int,
    breaks: Int64s,
    quotes: Int64s,
    suspects: tuple[Int64s, Int64s],
    final: bool,
    limit: int,
) -> tuple[Int64s, list[Broken]]:
    """The ends of the records, and the broken ones: columns of good records and single suspects in turn."""
    before = np.searchsorted(quotes, breaks)  # quotes in front of each line break
    parts: list[Int64s] = []
    broken: list[Broken] = []
    count = start = 0
    while start < len(block):
        first = int(np.searchsorted(quotes, start))
        stop = _next(suspects[first & 1], first)
        here = int(np.searchsorted(breaks, start, "right"))
        there = len(breaks) if stop is None else int(np.searchsorted(breaks, quotes[stop], "right"))
        good = breaks[here:there][((before[here:there] - first) & 1) == 0]
        parts.append(good)
        count += len(good)
        start = int(good[-1]) if len(good) else start
        left = len(block) - start
        if stop is None and not (left and final) and left <= limit:
            break
        # A quote in the wrong place, or one that never closes: its record is read by itself.
        end, reason, found = scan_record(block, start, delimiter, final=final, limit=limit)
        if end is None:
            break
        if reason is not None:
            broken.append(Broken(count, reason, found))
        parts.append(np.array([end], np.int64))
        count, start = count + 1, end
    return np.concatenate(parts), broken


def _suspects(
    array: npt.NDArray[np.uint8], delimiter: int, quotes: Int64s, adjacent: Mask
) -> tuple[Int64s, Int64s]:
    """Indexes of quotes that stand where they cannot when quotes alternate between opening and closing: when the
    even ones open, and when the odd ones do."""
    edge = np.zeros(256, bool)
    edge[[delimiter, LF, CR]] = True
    opens = edge[array[quotes - 1]]
    opens[0] |= quotes[0] == 0
    closes = edge[array[np.minimum(quotes + 1, len(array) - 1)]]
    closes[-1] |= quotes[-1] == len(array) - 1
    opens[1:] |= adjacent
    closes[:-1] |= adjacent
    odd = (np.arange(len(quotes)) & 1).astype(bool)
    return np.flatnonzero(np.where(odd, ~closes, ~opens)), np.flatnonzero(np.where(odd, ~opens, ~closes))


def _next(suspects: Int64s, first: int) -> int | None:
    at = int(np.searchsorted(suspects, first))
    return int(suspects[at]) if at < len(suspects) else None


def scan_record(
    block: bytes, start: int, delimiter: int, *, final: bool, limit: int, fields: list[bytes] | None = None
) -> tuple[int | None, Reason | None, str]:
    """Read one record: the offset behind it (None: unfinished), and what is wrong with its quotes.

    ``fields``, when given, receives the fields, unquoted. A quote that never closes costs its own line only, and
    so does one that closes lines below right where another field's quote opens.
    """
    mark = bytes([delimiter])
    stop = re.compile(b"[\r\n" + re.escape(mark) + b"]")
    fault: Reason | None = None
    found = ""
    at, size = start, len(block)
    while True:
        if at < size and block[at] == QUOTE:
            close = _closing(block, at)
            if close is None:
                if not final and size - start <= limit:
                    return None, None, ""
                return _line(block, at), Reason.QUOTE_UNCLOSED, _clip(block, at)
            tail = close + 1
            if tail == size and not final:
                return None, None, ""
            if tail < size and block[tail] not in (delimiter, LF, CR):
                if _BREAK.search(block, at, close) and block[close - 1] in (delimiter, LF, CR):
                    return _line(block, at), Reason.QUOTE_UNCLOSED, _clip(block, at)
                if fault is None:
                    fault, found = Reason.QUOTE_STRAY, _clip(block, tail)
            head = block[at + 1 : close].replace(b'""', b'"')
        else:
            tail, head = at, b""
        match = stop.search(block, tail)
        if match is None:
            if not final:
                return None, None, ""
            if fields is not None:
                fields.append(head + block[tail:])
            return size, fault, found
        if fields is not None:
            fields.append(head + block[tail : match.start()])
        if match[0] == mark:
            at = match.end()
            continue
        if match[0] == b"\r":
            if match.end() == size and not final:
                return None, None, ""
            return match.end() + block.startswith(b"\n", match.end()), fault, found
        return match.end(), fault, found


def _closing(block: bytes, opening: int) -> int | None:
    """Offset of the quote that closes the one at ``opening``; doubled quotes are text."""
    at = block.find(b'"', opening + 1)
    while at >= 0:
        if not block.startswith(b'"', at + 1):
            return at
        at = block.find(b'"', at + 2)
    return None


def _line(block: bytes, at: int) -> int:
    """Offset behind the first line break from ``at``."""
    match = _BREAK.search(block, at)
    if match is None:
        return len(block)
    return match.end() + (match[0] == b"\r" and block.startswith(b"\n", match.end()))


def _clip(block: bytes, at: int) -> str:
    """The text from ``at`` to the end of its line, for a finding."""
    return block[at : min(_line(block, at), at + 80)].decode(errors="replace").rstrip("\r\n")
