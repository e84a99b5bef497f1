"""The record stage of chats: fields become turns; roles, contents, tool calls and order are judged."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings
from pipeline.reasons import Reason
from pipeline.schema.chat import Preference, Tree
from pipeline.stages.chat.contents import ContentJudge
from pipeline.stages.chat.frame import REJECTED, TOOLS, TURNS, nested, to_series
from pipeline.stages.chat.grammar import Grammar, compile_grammar
from pipeline.stages.chat.order import judge_order, judge_roles
from pipeline.stages.chat.read import read_turns
from pipeline.stages.chat.rendered import RenderedText
from pipeline.stages.chat.roles import aliases_of
from pipeline.stages.chat.tools import judge_tools, tool_definitions
from pipeline.stages.chat.turns import Turns
from pipeline.stages.context import Context


@dataclass(slots=True)
class JudgeTurns:
    """Adds the column ``@turns`` (and ``@rejected_turns``), lists of canonical turns, to the frame."""

    context: Context
    rendered: RenderedText
    control: tuple[str, ...]
    name: str = "chat"
    _grammar: Grammar = field(init=False)
    _contents: ContentJudge = field(init=False)
    _names: str = field(init=False)

    def __post_init__(self) -> None:
        chat = self.context.schema.chat
        assert chat is not None  # noqa: S101 - the schema model proves it
        self._grammar = compile_grammar(chat.grammar)
        self._contents = ContentJudge(self.context.schema, self.control, self.rendered)
        self._names = ", ".join(aliases_of(chat))

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        schema, frame = self.context.schema, batch.frame
        chat = schema.chat
        assert chat is not None  # noqa: S101
        turns, rejected = read_turns(batch, schema, findings)
        turns = self._judged(batch, turns, findings)
        several = isinstance(chat.source, Tree)
        columns = [nested(turns, len(batch), TURNS) if several else to_series(turns, TURNS)]
        if rejected is not None and isinstance(chat.source, Preference):
            skip = tuple(name for name in turns.columns if name != chat.source.chosen)
            rejected = self._judged(batch, rejected, findings, skip)
            self._identical(batch, turns, rejected, findings)
            columns.append(to_series(rejected, REJECTED))
        if "@tools" in frame.columns:
            columns.append(tool_definitions(batch, schema, findings).alias(TOOLS))
        return batch.with_frame(frame.with_columns(columns)), findings

    def _judged(self, batch: Batch, turns: Turns, findings: Findings, skip: tuple[str, ...] = ()) -> Turns:
        schema = self.context.schema
        judge_roles(batch, turns, schema, self._names, findings, skip)
        turns = self._contents(batch, turns, findings, skip)
        turns = judge_tools(batch, turns, schema, self._grammar, findings)
        return judge_order(batch, turns, schema, self._grammar, findings)

    def _identical(self, batch: Batch, turns: Turns, rejected: Turns, findings: Findings) -> None:
        """Pairs whose two answers are the same teach nothing."""
        same = turns.counts == rejected.counts
        texts = [
            part.frame.select(
                pl.concat_str(pl.col("content").fill_null(""), pl.col("tool_calls").fill_null(""))
            )
            .to_series()
            .to_list()
            for part in (turns, rejected)
        ]
        for i in np.flatnonzero(same & turns.present & (turns.counts > 0)).tolist():
            a, b, n = int(turns.starts[i]), int(rejected.starts[i]), int(turns.counts[i])
            same[i] = texts[0][a : a + n] == texts[1][b : b + n]
        hits = np.flatnonzero(same & turns.present & (turns.counts > 0))
        policy = self.context.schema.policy(Reason.PREFERENCE_IDENTICAL)
        findings.add(Reason.PREFERENCE_IDENTICAL, policy, "", batch.ids[turns.records[hits]])
