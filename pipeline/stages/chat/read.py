"""From the fields of each format to turns."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import polars as pl

from pipeline.arrow_lists import Int64s, within
from pipeline.batch import Batch, Findings, Mask
from pipeline.fields import Content, message_dtype
from pipeline.reasons import Policy, Reason
from pipeline.schema.chat import (
    Alpaca,
    Chat,
    Columns,
    FromColumn,
    Messages,
    Preference,
    PromptCompletion,
    Tree,
)
from pipeline.schema.model import ChatSchema, Schema
from pipeline.stages.chat.content import visible
from pipeline.stages.chat.tree import tree_turns
from pipeline.stages.chat.turns import (
    ASSISTANT,
    FIELDS,
    ROLES,
    SYSTEM,
    UNKNOWN,
    USER,
    Turns,
    aliases_of,
    flatten,
    role_codes,
)

# Alpaca's optional history: a list of earlier exchanges, each a pair of texts.


_PAIRS = msgspec.json.Decoder(list[tuple[str, str]])


def history_turns(batch: Batch, column: str, schema: Schema, findings: Findings) -> Turns:
    """The turns of each record's history; a history that is no list of pairs is a finding."""
    texts: list[str] = []
    counts = np.zeros(len(batch), np.int64)
    present = np.ones(len(batch), np.bool_)
    written = batch.frame["@history"]
    given = np.flatnonzero(written.str.contains(r"[^\s\[\]]").fill_null(False).to_numpy())
    for i in given.tolist():
        try:
            pairs = _PAIRS.decode(written[i])
        except (msgspec.DecodeError, UnicodeEncodeError):
            present[i] = False
            continue
        texts.extend(text for pair in pairs for text in pair)
        counts[i] = 2 * len(pairs)
    bad = np.flatnonzero(~present)
    findings.add(
        Reason.VALUE_TYPE,
        Policy.QUARANTINE,
        column,
        batch.ids[bad],
        found="another value",
        expected="a list of pairs of texts",
    )
    return turns_of_pairs(texts, counts, present, column)


def turns_of_pairs(texts: list[str], counts: Int64s, present: Mask, column: str) -> Turns:
    """User and assistant turns by turns."""
    place = within(counts)
    data = pl.DataFrame({"content": pl.Series(texts, dtype=pl.String)}).with_columns(
        pl.lit(Content.TEXT.value).alias("content_kind"),
        pl.Series("role", np.where(place % 2, "assistant", "user"), dtype=pl.String),
    )
    others = [f for f in message_dtype().fields if f.name not in data.columns]
    frame = data.with_columns(*(pl.lit(None, f.dtype).alias(f.name) for f in others))
    return Turns(
        counts=counts,
        records=np.arange(len(counts), dtype=np.int64),
        roles=np.where(place % 2, ASSISTANT, USER).astype(np.int8),
        frame=frame.select(FIELDS),
        train=np.ones(len(texts), np.bool_),
        origins=np.zeros(len(texts), np.int16),
        places=place,
        columns=(column,),
        present=present,
    )


# Turns made of columns, of lists, and of both put together.


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


# Preference pairs: one prompt, two answers; or two whole conversations that begin alike.


def pair_turns(frame: pl.DataFrame, source: Preference, aliases: dict[str, str]) -> tuple[Turns, Turns]:
    """The conversations with the chosen and with the rejected answer; only the answers are learned."""
    chosen = listed(frame["@chosen"], source.chosen, aliases, plain=ASSISTANT)
    rejected = listed(frame["@rejected"], source.rejected, aliases, plain=ASSISTANT)
    if source.prompt is None:
        shared = common_turns(chosen, rejected)
        return _learned_after(chosen, shared), _learned_after(rejected, shared)
    prompt = listed(frame["@prompt"], source.prompt, aliases, plain=USER, train=False)
    return _after(prompt, chosen), _after(prompt, rejected)


def _after(prompt: Turns, answer: Turns) -> Turns:
    """Prompt and answer as one conversation. An answer that begins with the whole prompt holds it already."""
    repeats = (common_turns(prompt, answer) == prompt.counts) & (prompt.counts > 0)
    own = _learned_after(answer, np.where(repeats, prompt.counts, 0))
    missing = prompt.take(np.repeat(~repeats, prompt.counts))
    return replace(join(missing, own), present=prompt.present & answer.present)


def _learned_after(turns: Turns, count: Int64s) -> Turns:
    """The turns, of which the first ``count`` (int64 [n]) of each conversation are not learned."""
    later = within(turns.counts) >= np.repeat(count, turns.counts)
    return replace(turns, train=turns.train & later)


def common_turns(first: Turns, second: Turns) -> Int64s:
    """How many turns, from the head on, two conversations have in common, int64 [n]: same role, content and calls."""
    joined = _keyed(first).join(_keyed(second), on=["conversation", "place"], how="left", suffix="_2")
    other = pl.any_horizontal(
        pl.col(name).ne_missing(pl.col(f"{name}_2")) for name in ("role", "content", "tool_calls")
    )
    differing = joined.filter(other).group_by("conversation").agg(pl.col("place").min())
    common = first.counts.copy()
    common[differing["conversation"].to_numpy()] = differing["place"].to_numpy()
    return common


def _keyed(turns: Turns) -> pl.DataFrame:
    return turns.frame.select("content", "tool_calls").with_columns(
        pl.Series("conversation", turns.owner),
        pl.Series("place", within(turns.counts)),
        pl.Series("role", turns.roles),
    )


# From the fields of each format to turns.


def read_turns(batch: Batch, schema: ChatSchema, findings: Findings) -> tuple[Turns, Turns | None]:
    """The conversations of a batch; and, for preference pairs, those with the rejected answer.

    A record whose fields are missing gives no turns: the cast stage has found that.
    """
    chat = schema.chat
    source, aliases = chat.source, aliases_of(chat)
    frame = batch.frame
    rejected = None
    match source:
        case Columns():
            turns = _exchange(frame["@prompt"], frame["@answer"], source.prompt, source.answer)
        case Alpaca():
            turns = _alpaca(batch, source, schema, findings)
        case Messages():
            turns = listed(frame["@messages"], source.column, aliases)
        case PromptCompletion():
            prompt = listed(frame["@prompt"], source.prompt, aliases, plain=USER, train=False)
            turns = join(prompt, listed(frame["@completion"], source.completion, aliases, plain=ASSISTANT))
        case Preference():
            turns, rejected = pair_turns(frame, source, aliases)
        case Tree():
            return tree_turns(batch, source, schema, aliases, findings), None
    turns = _with_system(turns, frame, chat)
    return turns, _with_system(rejected, frame, chat) if rejected is not None else None


def _exchange(prompt: pl.Series, answer: pl.Series, prompt_column: str, answer_column: str) -> Turns:
    whole = (prompt.is_not_null() & answer.is_not_null()).to_numpy()
    user = single(USER, prompt, whole, prompt_column)
    return replace(join(user, single(ASSISTANT, answer, whole, answer_column)), present=whole)


def _alpaca(batch: Batch, source: Alpaca, schema: Schema, findings: Findings) -> Turns:
    frame = batch.frame
    instruction = frame["@instruction"]
    if source.input is not None:
        # A blank input is legitimate: the instruction then stands alone.
        given = pl.Series(visible(frame["@input"]))
        both = frame.select(pl.concat_str("@instruction", pl.lit(source.joiner), "@input"))
        instruction = both.to_series().zip_with(given, instruction)
    turns = _exchange(instruction, frame["@output"], source.instruction, source.output)
    if source.history is None:
        return turns
    history = history_turns(batch, source.history, schema, findings)
    earlier = history.take(np.repeat(turns.present, history.counts))
    return replace(join(earlier, turns), present=turns.present & history.present)


def _with_system(turns: Turns, frame: pl.DataFrame, chat: Chat) -> Turns:
    """Put the declared system prompt before conversations without a system turn; a blank cell gives none."""
    source = chat.source
    system = None if isinstance(source, Tree) else source.system
    if system is None:
        return turns
    has = np.bincount(turns.owner[turns.roles == SYSTEM], minlength=len(turns.counts)) > 0
    without: Mask = (turns.counts > 0) & ~has
    if isinstance(system, FromColumn):
        without &= visible(frame["@system"])
        first = single(SYSTEM, frame["@system"], without, system.column)
    else:
        first = single(SYSTEM, system, without, "system")
    return join(first, turns) if without.any() else turns
