"""Chats: from fields to turns, from turns to certified tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings
from pipeline.errors import SchemaError
from pipeline.models.chat_template import load_template
from pipeline.models.template_check import TemplateProof, check_template
from pipeline.reasons import Reason
from pipeline.schema.chat import Chat, Messages, Preference, Tree
from pipeline.schema.model import ChatSchema
from pipeline.shards import schemas
from pipeline.stages.chat.content import ContentJudge, RenderedText
from pipeline.stages.chat.encode import Encode
from pipeline.stages.chat.order import Grammar, compile_grammar, judge_order, judge_roles
from pipeline.stages.chat.pack import Pack, is_packed, unpacked
from pipeline.stages.chat.read import read_turns
from pipeline.stages.chat.tools import judge_tools, tool_definitions
from pipeline.stages.chat.turns import REJECTED, ROLES, TOOLS, TURNS, Turns, aliases_of, nested, to_series
from pipeline.stages.context import Context
from pipeline.stages.kind import KindStages, SampleRules, as_they_are, one_a_sample

# The record stage of chats: fields become turns; roles, contents, tool calls and order are judged.


@dataclass(slots=True)
class JudgeTurns:
    """Adds the column ``@turns`` (and ``@rejected_turns``), lists of canonical turns, to the frame."""

    context: Context[ChatSchema]
    rendered: RenderedText
    control: tuple[str, ...]
    name: str = "chat"
    _grammar: Grammar = field(init=False)
    _contents: ContentJudge = field(init=False)
    _names: str = field(init=False)

    def __post_init__(self) -> None:
        chat = self.context.schema.chat
        self._grammar = compile_grammar(chat.grammar)
        self._contents = ContentJudge(self.context.schema, self.control, self.rendered)
        self._names = ", ".join(aliases_of(chat))

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        schema, frame = self.context.schema, batch.frame
        chat = schema.chat
        turns, rejected = read_turns(batch, schema, findings)
        turns = self._judged(batch, turns, findings)
        several = isinstance(chat.source, Tree)
        columns = [nested(turns, len(batch), TURNS) if several else to_series(turns, TURNS)]
        if rejected is not None and isinstance(chat.source, Preference):
            skip = tuple(name for name in turns.columns if name != chat.source.chosen)
            rejected = self._judged(batch, rejected, findings, skip)
            self._identical(batch, turns, rejected, findings)
            columns.append(to_series(rejected, REJECTED))
        if isinstance(chat.source, Messages) and chat.source.tools is not None:
            columns.append(tool_definitions(batch, chat.source.tools, schema, findings).alias(TOOLS))
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


# Chats: from fields to turns, from turns to certified tokens.


class ChatKind:
    """Conversations, as a ``Kind``."""

    def check(self, schema: ChatSchema) -> None:
        """Grammar, aliases, role limits and packing are valid."""
        _check(schema.chat)

    def label_names(self, schema: ChatSchema) -> tuple[str, ...]:
        """None: labels are token ids."""
        return ()

    def sample_rules(self, schema: ChatSchema) -> SampleRules:
        """What is learned of a conversation is its own tokens."""
        return SampleRules(labels_copy_tokens=True)

    def stages(self, context: Context[ChatSchema]) -> KindStages:
        """Turns judged, then encoded by the template, which is probed here, once.

        Raises:
            TokenizerError: the template fails a probe.
        """
        chat = context.schema.chat
        proof = _probed(context)
        rendered = RenderedText(proof.headers, proof.bos)
        shard = schemas.chat(
            context.columns,
            record=context.schema.output.keep_record,
            packed=chat.packing is not None,
            preference=isinstance(chat.source, Preference),
        )
        return KindStages(
            records=(JudgeTurns(context, rendered, tuple(proof.tokenizer.control)),),
            encode=Encode(context, proof, shard),
            shard=shard,
            template=proof.template.source,
            finish=as_they_are if chat.packing is None else Pack(chat.packing.capacity),
        )

    def contents(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One record a sample; in a packed sequence, those of each conversation."""
        return unpacked(batch) if is_packed(batch.schema) else one_a_sample(batch)


def _probed(context: Context[ChatSchema]) -> TemplateProof:
    chat, tokenizer = context.schema.chat, context.needed_tokenizer()
    grammar = compile_grammar(chat.grammar)
    always = () if isinstance(chat.source, Tree) or not isinstance(chat.source.system, str) else ("system",)
    return check_template(
        load_template(chat.template, context.schema_dir, tokenizer),
        tokenizer,
        shapes=grammar.examples(),
        requires=(*grammar.required(), *always),
        tools=grammar.tools,
    )


def _check(chat: Chat) -> None:
    """Names of roles in aliases and limits."""
    aliases_of(chat)
    compile_grammar(chat.grammar)
    if chat.packing is not None and chat.packing.capacity < chat.max_tokens:
        raise SchemaError(
            "a packed sequence cannot hold the longest conversation",
            where="chat: packing: capacity",
            found=str(chat.packing.capacity),
            expected=f"at least `max_tokens`, {chat.max_tokens}",
        )
    if chat.packing is not None and isinstance(chat.source, Preference):
        raise SchemaError("preference pairs are not packed", where="chat: packing")
    if unknown := sorted(set(chat.role_limits) - set(ROLES)):
        raise SchemaError(
            "`role_limits` names no role",
            where="chat: role_limits",
            found=unknown[0],
            expected=", ".join(ROLES),
        )
