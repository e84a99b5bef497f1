"""Turns made of columns, of lists, and of both put together."""

from __future__ import annotations

import numpy as np
import polars as pl

from pipeline.arrays import within
from pipeline.fields import Content, message_dtype
from pipeline.stages.chat.frame import flatten
from pipeline.stages.chat.roles import role_codes
from pipeline.stages.chat.turns import FIELDS, ROLES, UNKNOWN, Mask, Turns


def single(role: int, contents: pl.Series | str, keep: Mask, column: str, *, train: bool = True) -> Turns:
    """At most one turn a record: its text is a column's, or a constant.

    Args:
        role: code of the role.
        contents: String [n], or one text for all.
        keep: bool [n], which records have the turn.
        column: where the text stands, for findings.
    """
    n = int(keep.sum())
    text = (
        pl.Series("content", [contents] * n, pl.String)
        if isinstance(contents, str)
        else contents.filter(pl.Series(keep)).alias("content")
    )
    frame = text.to_frame().select(
        pl.lit(ROLES[role]).alias("role"),
        "content",
        pl.when(pl.col("content").is_null())
        .then(pl.lit(Content.NULL.value))
        .otherwise(pl.lit(Content.TEXT.value))
        .alias("content_kind"),
        *(
            pl.lit(None, field.dtype).alias(field.name)
            for field in message_dtype().fields
            if field.name not in FIELDS[:3]
        ),
    )
    return Turns(
        counts=keep.astype(np.int64),
        records=np.arange(len(keep), dtype=np.int64),
        roles=np.full(n, role, np.int8),
        frame=frame,
        train=np.full(n, train, np.bool_),
        origins=np.zeros(n, np.int16),
        places=np.full(n, -1, np.int64),
        columns=(column,),
        present=np.ones(len(keep), np.bool_),
    )


def listed(
    series: pl.Series, column: str, aliases: dict[str, str], *, plain: int = UNKNOWN, train: bool = True
) -> Turns:
    """The turns of lists, List(message_dtype()).

    Args:
        plain: role of a text that stands where a list could: one turn without a role.
        train: whether the turns may be trained on; a turn's own ``train: false`` or weight 0 always holds.
    """
    frame, counts, present = flatten(series)
    codes, calling = role_codes(frame["role"], aliases)
    if plain != UNKNOWN:
        alone = np.repeat(counts == 1, counts) & frame["role"].is_null().to_numpy()
        codes = np.where(alone, plain, codes).astype(np.int8)
    if calling.any():
        frame = _written_calls(frame, calling)
    learned = frame["train"].fill_null(True) & (frame["weight"].fill_null(1.0) != 0)
    return Turns(
        counts=counts,
        records=np.arange(len(series), dtype=np.int64),
        roles=codes,
        frame=frame.select(FIELDS),
        train=learned.to_numpy() & train,
        origins=np.zeros(len(frame), np.int16),
        places=within(counts),
        columns=(column,),
        present=present,
    )


def _written_calls(frame: pl.DataFrame, calling: Mask) -> pl.DataFrame:
    """Turns of the role ``assistant_call`` hold their call as text: it moves to ``tool_calls``."""
    is_call = pl.Series(calling) & frame["tool_calls"].is_null()
    wrapped = pl.concat_str(pl.lit("["), pl.col("content").fill_null(""), pl.lit("]"))
    text = pl.col("content").str.strip_chars()
    return frame.with_columns(
        pl.when(is_call)
        .then(pl.when(text.str.starts_with("[")).then(text).otherwise(wrapped))
        .otherwise(pl.col("tool_calls"))
        .alias("tool_calls"),
        pl.when(is_call).then(None).otherwise(pl.col("content")).alias("content"),
        pl.when(is_call)
        .then(pl.lit(Content.NULL.value))
        .otherwise(pl.col("content_kind"))
        .alias("content_kind"),
    )


def join(*parts: Turns) -> Turns:
    """The turns of several parts of the same conversations, one part after the other."""
    given = [part for part in parts if len(part.roles)] or [parts[0]]
    columns = tuple(dict.fromkeys(name for part in given for name in part.columns))
    counts = sum((part.counts for part in given), np.zeros(len(parts[0].counts), np.int64))
    present = np.logical_and.reduce([part.present for part in parts])
    owner = np.concatenate([part.owner for part in given])
    order = np.argsort(owner, kind="stable")
    origins = [np.array([columns.index(c) for c in p.columns], np.int16)[p.origins] for p in given]
    frame = pl.concat([part.frame for part in given])
    return Turns(
        counts=counts,
        records=parts[0].records,
        roles=np.concatenate([part.roles for part in given])[order],
        frame=frame[order] if len(given) > 1 else frame,
        train=np.concatenate([part.train for part in given])[order],
        origins=np.concatenate(origins)[order],
        places=np.concatenate([part.places for part in given])[order],
        columns=columns,
        present=present,
    )
