"""Preference pairs: one prompt, two answers; or two whole conversations that begin alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from pipeline.arrays import Int64s, within
from pipeline.schema.chat import Preference
from pipeline.stages.chat.join import join, listed
from pipeline.stages.chat.turns import ASSISTANT, USER, Turns


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
