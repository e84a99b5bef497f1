"""Splits by the hash of a key: a record's split depends on its key alone, so it never moves when rows are added."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pipeline.schema.model import Split

RANGE = 1 << 64


def assign(keys: Sequence[str], split: Split) -> npt.NDArray[np.str_]:
    """Name of the split of each key, str [n].

    The first 8 bytes of blake2b(salt, key), as a fraction of 2^64, fall into the share of one split; shares stand in
    the order of the schema.
    """
    names = np.array(list(split.shares))
    ends = np.cumsum([Fraction(str(share)) for share in split.shares.values()])
    # The last share ends at one, whatever the decimals of the others add up to.
    edges = np.array([min(int(end * RANGE), RANGE - 1) for end in ends[:-1]], np.uint64)
    salt = hashlib.blake2b(split.salt.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    numbers = np.fromiter((_number(key, salt) for key in keys), np.uint64, len(keys))
    chosen: npt.NDArray[np.str_] = names[np.searchsorted(edges, numbers, side="right")]
    return chosen


def _number(key: str, salt: bytes) -> int:
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "big")
