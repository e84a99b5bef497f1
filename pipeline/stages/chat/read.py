"""From the fields of each format to turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings
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
from pipeline.schema.model import Schema
from pipeline.stages.chat.blank import visible
from pipeline.stages.chat.history import history_turns
from pipeline.stages.chat.join import join, listed, single
from pipeline.stages.chat.pair import pair_turns
from pipeline.stages.chat.roles import aliases_of
from pipeline.stages.chat.tree import tree_turns
from pipeline.stages.chat.turns import ASSISTANT, SYSTEM, USER, Mask, Turns


def read_turns(batch: Batch, schema: Schema, findings: Findings) -> tuple[Turns, Turns | None]:
    """The conversations of a batch; and, for preference pairs, those with the rejected answer.

    A record whose fields are missing gives no turns: the cast stage has found that.
    """
    chat = schema.chat
    assert chat is not None  # noqa: S101 - the schema model proves it
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
