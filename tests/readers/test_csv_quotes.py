"""Where records end, and on which line each begins."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.readers.csv_quotes import find_records, line_breaks

TEXTS = st.text(st.sampled_from('ab,"\n\r'), max_size=40).map(str.encode)
BREAK = re.compile(rb"\r\n|\n|\r")


@settings(max_examples=600)
@given(TEXTS, st.booleans())
def test_line_breaks_are_lf_crlf_and_cr(text: bytes, final: bool) -> None:
    ends = [match.end() for match in BREAK.finditer(text)]
    if not final and text.endswith(b"\r"):
        ends.pop()  # a LF may follow
    assert line_breaks(text, final).tolist() == ends


@settings(max_examples=600)
@given(TEXTS, st.booleans())
def test_each_record_knows_its_line(text: bytes, final: bool) -> None:
    borders = find_records(text, ord(","), final=final, limit=2**20)
    starts = [0, *borders.ends.tolist()][: len(borders.ends)]
    before = [sum(match.end() <= start for match in BREAK.finditer(text)) for start in starts]
    assert borders.lines.tolist() == before
    last = int(borders.ends[-1]) if len(borders.ends) else 0
    ends = [end for end in line_breaks(text, final).tolist() if end <= last]
    assert borders.breaks.tolist() == ends + [last] * (bool(last) and last not in ends)
