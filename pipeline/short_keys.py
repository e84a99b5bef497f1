"""Short keys of the records of shards, kept from run to run: a shard that did not change is not read for them again.

They are kept by the shard's digest, so they cannot be stale; what of a kept file is trusted, ``certificate/notes.py``
says. 8 bytes a record: of runs with more than ``repeats.KEYS_AT_ONCE`` records nothing is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.certificate.notes import Notes

Keys = npt.NDArray[np.uint64]
SUFFIX = ".keys"


class ShortKeys:
    """Short keys by shard.

    Args:
        clean: the output folder that the shards lie in; None: nothing is kept.
        place: where they are kept; default: the user's cache folder.
    """

    def __init__(self, clean: Path | None = None, place: Path | None = None) -> None:
        self._notes = None if clean is None else Notes(clean, SUFFIX, place)
        self._known = {} if self._notes is None else _parsed(self._notes.read_bytes())
        self._fresh: dict[str, Keys] = {}

    def of(self, digest: str, read: Callable[[], Iterable[Keys]]) -> Keys:
        """The keys of the shard with this digest, read only where they are not known; "" is no shard."""
        keys = self._known.get(digest)
        if keys is None:
            keys = np.concatenate([np.empty(0, np.uint64), *read()])
        if digest:
            self._fresh[digest] = keys
        return keys

    def save(self) -> None:
        """Keep the keys asked for, and no others."""
        if self._notes is not None and self._fresh.keys() != self._known.keys():
            head = json.dumps({digest: len(keys) for digest, keys in self._fresh.items()}).encode()
            body = np.concatenate([np.empty(0, np.uint64), *self._fresh.values()]).astype("<u8").tobytes()
            self._notes.write_bytes(head + b"\n" + body)


def _parsed(content: bytes | None) -> dict[str, Keys]:
    """Keys by digest; none where they have not the form."""
    head, _, body = (content or b"{}").partition(b"\n")
    try:
        counts = {str(digest): int(count) for digest, count in json.loads(head).items()}
        ends = np.cumsum([0, *counts.values()])
        keys = np.frombuffer(body, "<u8").astype(np.uint64)
    except (ValueError, TypeError, AttributeError):
        return {}
    if len(keys) != ends[-1] or min(counts.values(), default=0) < 0:
        return {}
    return {digest: keys[a:b] for digest, a, b in zip(counts, ends[:-1], ends[1:], strict=True)}
