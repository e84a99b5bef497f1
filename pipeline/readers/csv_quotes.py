"""Where the records of delimited text end, and which of them have broken quotes.

A block is scanned with array operations. If every quote opens at the start of a field or closes before a delimiter or a
line break, a line break ends a record exactly if an even number of quotes precedes it. A record with a quote in any
other place, a suspect, is scanned by itself, and the array scan continues after it.

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
_LINE_BREAK = re.compile(rb"[\r\n]")


@dataclass(frozen=True, slots=True)
class BrokenRecord:
    """A record with broken quotes: its index in the block, the reason, and what was found."""

    index: int
    reason: Reason
    found: str


@dataclass(frozen=True, slots=True)
class RecordEnds:
    """Where the records of a block end.

    Attributes:
        ends: int64 [records], offset after each record's line break; each record begins where the one before ends.
        breaks: int64, offset after each physical line break up to the end of the last record.
        lines: int64 [records], number of physical line breaks before each record.
        broken: the records with broken quotes.
    """

    ends: Int64s
    breaks: Int64s
    lines: Int64s
    broken: tuple[BrokenRecord, ...] = ()


def line_breaks(block: bytes, final: bool) -> Int64s:
    """Offset after each line break (LF, CRLF, CR): int64. A CR at the end of a block counts only if it is final."""
    array = np.frombuffer(block, np.uint8)
    found = np.flatnonzero(array == LF)
    if b"\r" not in block or not _has_lone_returns(array, found):
        return found + 1
    return np.flatnonzero(_line_ends(array, final)) + 1


def _has_lone_returns(array: npt.NDArray[np.uint8], feeds: Int64s) -> bool:
    """Whether some CR has no LF after it."""
    before = array[feeds - 1] == CR
    if len(feeds) and not feeds[0]:
        before[0] = False
    return bool(np.count_nonzero(array == CR) != np.count_nonzero(before))


def _line_ends(array: npt.NDArray[np.uint8], final: bool) -> Mask:
    """The last byte of each line break: bool [bytes]."""
    feeds: Mask = array == LF
    lone = array == CR
    lone[:-1] &= ~feeds[1:]
    lone[-1] &= final
    feeds |= lone
    return feeds


def find_records(block: bytes, delimiter: int, *, final: bool, limit: int) -> RecordEnds:
    """Find the records of a block that starts at the beginning of a record.

    Text after the last end is an unfinished record; ``final`` says that the block ends the text, so that none is left.
    A quote that is still open after more than ``limit`` bytes counts as never closed.
    """
    array = np.frombuffer(block, np.uint8)
    quoted = array == QUOTE
    # One search finds both. A line break is within quotes if an odd number of quotes precedes it.
    quotes, feeds, inside = _split_quotes_and_breaks((array == LF) | quoted, quoted)
    if b"\r" in block and _has_lone_returns(array, feeds):
        quotes, feeds, inside = _split_quotes_and_breaks(_line_ends(array, final) | quoted, quoted)
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
        ends, broken = _scan_with_suspects(block, delimiter, breaks, quotes, suspects, final, limit)
        breaks = breaks[: np.searchsorted(breaks, ends[-1] if len(ends) else 0, "right")]
        lines = np.searchsorted(breaks, np.concatenate([[0], ends[:-1]]), "right").astype(np.int64)
        return RecordEnds(ends, breaks, lines[: len(ends)], tuple(broken))
    breaks = breaks[: kept[-1] + 1] if len(kept) else breaks[:0]
    lines = np.zeros(len(ends), np.int64)
    np.add(kept[:-1], 1, out=lines[1:])
    return RecordEnds(ends, breaks, lines)


def _split_quotes_and_breaks(marked: Mask, quoted: Mask) -> tuple[Int64s, Int64s, Mask]:
    """Offsets of the quotes and of the line breaks among the marked bytes, and which line breaks are within quotes."""
    events = np.flatnonzero(marked)
    is_quote = quoted[events]
    is_other = ~is_quote
    parity = np.cumsum(is_quote, dtype=np.uint8)
    parity &= 1
    return events[is_quote], events[is_other], parity.view(bool)[is_other]


def _scan_with_suspects(
    block: bytes,
    delimiter: int,
    breaks: Int64s,
    quotes: Int64s,
    suspects: tuple[Int64s, Int64s],
    final: bool,
    limit: int,
) -> tuple[Int64s, list[BrokenRecord]]:
    """The ends of the records, and the broken ones: runs of good records and single suspects in turn."""
    before = np.searchsorted(quotes, breaks)  # number of quotes before each line break
    parts: list[Int64s] = []
    broken: list[BrokenRecord] = []
    count = start = 0
    while start < len(block):
        first = int(np.searchsorted(quotes, start))
        suspect = _next_suspect(suspects[first & 1], first)
        first_break = int(np.searchsorted(breaks, start, "right"))
        last_break = (
            len(breaks) if suspect is None else int(np.searchsorted(breaks, quotes[suspect], "right"))
        )
        good = breaks[first_break:last_break][((before[first_break:last_break] - first) & 1) == 0]
        parts.append(good)
        count += len(good)
        start = int(good[-1]) if len(good) else start
        left = len(block) - start
        if suspect is None and not (left and final) and left <= limit:
            break
        # The record with a quote in the wrong place, or one that never closes, is scanned by itself.
        end, reason, found = scan_record(block, start, delimiter, final=final, limit=limit)
        if end is None:
            break
        if reason is not None:
            broken.append(BrokenRecord(count, reason, found))
        parts.append(np.array([end], np.int64))
        count, start = count + 1, end
    return np.concatenate(parts), broken


def _suspects(
    array: npt.NDArray[np.uint8], delimiter: int, quotes: Int64s, adjacent: Mask
) -> tuple[Int64s, Int64s]:
    """Indexes of the quotes in a wrong place if quotes alternate between opening and closing: when the even ones open,
    and when the odd ones open."""
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


def _next_suspect(suspects: Int64s, first: int) -> int | None:
    at = int(np.searchsorted(suspects, first))
    return int(suspects[at]) if at < len(suspects) else None


def scan_record(
    block: bytes, start: int, delimiter: int, *, final: bool, limit: int, fields: list[bytes] | None = None
) -> tuple[int | None, Reason | None, str]:
    """Scan one record: the offset after it (None: unfinished), and what is wrong with its quotes.

    ``fields``, if given, receives the fields without quotes. A quote that never closes costs only its own line, and so
    does one that closes on a later line, right where the quote of another field opens.
    """
    mark = bytes([delimiter])
    stop = re.compile(b"[\r\n" + re.escape(mark) + b"]")
    fault: Reason | None = None
    found = ""
    at, size = start, len(block)
    while True:
        if at < size and block[at] == QUOTE:
            close = _closing_quote(block, at)
            if close is None:
                if not final and size - start <= limit:
                    return None, None, ""
                return _next_line(block, at), Reason.QUOTE_UNCLOSED, _excerpt(block, at)
            tail = close + 1
            if tail == size and not final:
                return None, None, ""
            if tail < size and block[tail] not in (delimiter, LF, CR):
                if _LINE_BREAK.search(block, at, close) and block[close - 1] in (delimiter, LF, CR):
                    return _next_line(block, at), Reason.QUOTE_UNCLOSED, _excerpt(block, at)
                if fault is None:
                    fault, found = Reason.QUOTE_STRAY, _excerpt(block, tail)
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


def _closing_quote(block: bytes, opening: int) -> int | None:
    """Offset of the quote that closes the one at ``opening``; None without one. Doubled quotes are text."""
    at = block.find(b'"', opening + 1)
    while at >= 0:
        if not block.startswith(b'"', at + 1):
            return at
        at = block.find(b'"', at + 2)
    return None


def _next_line(block: bytes, at: int) -> int:
    """Offset after the first line break from ``at``."""
    match = _LINE_BREAK.search(block, at)
    if match is None:
        return len(block)
    return match.end() + (match[0] == b"\r" and block.startswith(b"\n", match.end()))


def _excerpt(block: bytes, at: int) -> str:
    """The text from ``at`` to the end of its line, for a finding."""
    return block[at : min(_next_line(block, at), at + 80)].decode(errors="replace").rstrip("\r\n")
