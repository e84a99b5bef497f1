"""Mutants of valid files: bytes flipped, lost, doubled, moved, cut, and tokens of the format put in anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

# fmt: off
TOKENS = (
    b'"', b'""', b",", b"\n", b"\r", b"\r\n", b"\\", b"\\u", b"\\ud83d", b"[", b"]", b"{", b"}", b":", b"null", b"NaN",
    b"-Infinity", b"1e999", b"99999999999999999999", b"\x00", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\xed\xa0\x80", b" ",
    b"\t", b"0", b".5", b"true", b'{"id":"x"}', b'"id":"y",', b"\xef\xbf\xbd", b"'", b";",
)
# fmt: on


def mutants(seed: bytes, random: Random, count: int) -> Iterator[bytes]:
    """So many mutants, each one to three mutations away from the seed."""
    for _ in range(count):
        data = seed
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            data = _mutated(data, random)
        yield data


def _mutated(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.choice((1, 1, 2, 5, 40)))
    match random.randrange(8):
        case 0:
            return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:at] + data[at:end] + data[at:end] + data[end:]
        case 3:
            other = random.randrange(len(data) + 1)
            return data[:at] + data[end:][:other] + data[at:end] + data[end:][other:]
        case 4:
            return data[:at]
        case 5:
            lines = data.splitlines(keepends=True)
            random.shuffle(lines)
            return b"".join(lines)
        case _:
            return data[:at] + random.choice(TOKENS) + data[at:]
