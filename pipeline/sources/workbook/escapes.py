"""``_x000D_`` and the like (ECMA-376 part 1, 22.9.2.19, ST_Xstring): how workbooks write characters that XML cannot."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from pipeline.sources.workbook.cells import Int64s, Mask
from pipeline.sources.workbook.flat import flat, owners, replaced

_RETURN, _LINE, _X = b"\r_x"
_ESCAPES = re.compile(r"(?:_x[0-9A-Fa-f]{4}_)+")


def decode(texts: pa.StringArray) -> tuple[pa.StringArray, Mask]:
    """Texts with escapes decoded and line ends as plain line feeds, and which texts had any of these (bool [n]).

    A surrogate without its other half becomes U+FFFD, which a later check finds.
    """
    changed = np.zeros(len(texts), np.bool_)
    places = escaped(texts)
    if not len(places):
        return texts, changed
    before = texts.take(pa.array(places)).to_pylist()
    after = [plain(text) for text in before]
    changed[places] = [old != new for old, new in zip(before, after, strict=True)]
    return replaced(texts, places, after), changed


def escaped(texts: pa.StringArray) -> Int64s:
    """Indices of the texts that have what may be an escape, or a carriage return."""
    data, offsets = flat(texts)
    marks = data == _RETURN
    marks[:-1] |= (data[:-1] == _LINE) & (data[1:] == _X)
    return owners(offsets, np.flatnonzero(marks))


def plain(text: str) -> str:
    """One text with its escapes decoded. ``_x005F_`` is an escaped underscore: ``_x005F_x000D_`` is the plain text
    ``_x000D_``."""
    decoded = _ESCAPES.sub(_run, text)
    return decoded.replace("\r\n", "\n").replace("\r", "\n")


def _run(match: re.Match[str]) -> str:
    """A run of escapes: UTF-16 code units, so that two may make one character."""
    units = bytes.fromhex(match[0].replace("_x", "").replace("_", ""))
    return units.decode("utf-16-be", "replace")
