"""What is looked for in every text of a record's columns: NUL, U+FFFD, and text that was encoded twice.

Turns of chats have a judge of their own (``stages/chat/contents.py``), and so have invalid characters in words
(``stages/layout/words.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Int64s
from pipeline.cells import text
from pipeline.cells.hits import clip
from pipeline.cells.leaves import holds, mapped
from pipeline.cells.table import Report
from pipeline.fields import Field, FieldType, Kind
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.stages.mojibake import CANDIDATE, mojibake

if TYPE_CHECKING:
    import polars as pl


def look(frame: pl.DataFrame, fields: Sequence[Field], schema: Schema, report: Report) -> pl.DataFrame:
    """The frame with the repairs that the schema allows; everything found is reported."""
    import polars as pl

    mine = [f for f in fields if _is_mine(f)]
    flat = [f.name for f in mine if f.type.kind is Kind.TEXT]
    suspects = {f.name for f in mine} - set(flat)
    if flat:
        # One pass says for most batches that there is nothing to look at more closely.
        checks = [pl.col(n).str.len_bytes().sum().ne(pl.col(n).str.len_chars().sum()).alias(n) for n in flat]
        zeros = [pl.col(n).str.contains("\0", literal=True).any().alias(f"{n}\0") for n in flat]
        row = frame.select(*checks, *zeros).row(0, named=True)
        suspects |= {n for n in flat if row[n] or row[f"{n}\0"]}
    columns = [
        mapped(frame.get_column(f.name), f.type, (Kind.TEXT,), _Look(f, schema, report)).alias(f.name)
        for f in mine
        if f.name in suspects
    ]
    return frame.with_columns(columns) if columns else frame


def _is_mine(field: Field) -> bool:
    if field.name.startswith("@"):
        return field.type.kind is Kind.WORDS
    return holds(field.type, (Kind.TEXT,))


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks at the texts of one field, wherever they stand in it."""

    field: Field
    schema: Schema
    report: Report

    def __call__(self, texts: pl.Series, type_: FieldType, owners: Int64s) -> pl.Series:
        import polars as pl

        special = (texts.str.len_bytes() != texts.str.len_chars()) | texts.str.contains("\0", literal=True)
        places = np.flatnonzero(special.fill_null(False).to_numpy())
        if not len(places):
            return texts
        few, theirs = texts[pl.Series(places)], owners[places]
        after = few
        if self.field.type.kind is not Kind.WORDS:
            after = self._invalid(after, theirs)
        after = self._twice_encoded(after, theirs)
        return texts if after is few else texts.clone().scatter(pl.Series(places), after)

    def _invalid(self, texts: pl.Series, owners: Int64s) -> pl.Series:
        import polars as pl

        places = np.flatnonzero(text.invalid(texts).to_numpy())
        if not len(places):
            return texts
        shown = [text.described(t) for t in texts[pl.Series(places)].to_list()]
        policy = self._report(Reason.TEXT_INVALID_UNICODE, owners[places], shown)
        return texts.str.replace_all("\0", "", literal=True) if policy is Policy.REPAIR else texts

    def _twice_encoded(self, texts: pl.Series, owners: Int64s) -> pl.Series:
        import polars as pl

        places = np.flatnonzero(texts.str.contains(CANDIDATE).to_numpy())
        found = zip(places.tolist(), texts[pl.Series(places)].to_list(), strict=True)
        proven = {place: pair for place, value in found if (pair := mojibake(value)) is not None}
        if not proven:
            return texts
        at = np.array(list(proven), np.int64)
        shown = [clip(run) for _, run in proven.values()]
        policy = self._report(Reason.MOJIBAKE_SUSPECTED, owners[at], shown)
        if policy is not Policy.REPAIR:
            return texts
        return texts.clone().scatter(
            pl.Series(at), pl.Series([fixed for fixed, _ in proven.values()], dtype=pl.String)
        )

    def _report(self, reason: Reason, owners: Int64s, shown: list[str]) -> Policy:
        policy = self.schema.policy(reason)
        self.report.findings.add(reason, policy, self.field.name, self.report.ids[owners], found=shown)
        return policy
