"""Chats: from fields to turns, from turns to certified tokens."""

from __future__ import annotations

import pyarrow as pa

from pipeline.batch import EncodeStage, RecordStage
from pipeline.errors import SchemaError
from pipeline.models.chat_template import load_template
from pipeline.models.probe import Proof, probe
from pipeline.schema.chat import Chat, Preference
from pipeline.shards import arrow
from pipeline.stages.chat.encode import Encode
from pipeline.stages.chat.grammar import compile_grammar
from pipeline.stages.chat.judge import JudgeTurns
from pipeline.stages.chat.rendered import RenderedText
from pipeline.stages.chat.roles import aliases_of
from pipeline.stages.chat.turns import ROLES
from pipeline.stages.context import Context


def record_stages(context: Context) -> list[RecordStage]:
    """The stage that judges turns.

    Raises:
        SchemaError: grammar, aliases or role limits are not valid.
        TokenizerError: the template fails a probe.
    """
    _check(_chat(context))
    proof = _proof(context)
    rendered = RenderedText(proof.headers, proof.bos)
    return [JudgeTurns(context, rendered, tuple(proof.tokenizer.control))]


def encoder(context: Context) -> EncodeStage:
    """The stage that makes samples."""
    return Encode(context, _proof(context))


def shard_schema(context: Context) -> pa.Schema:
    """Arrow schema of the shards."""
    chat = _chat(context)
    return arrow.chat(
        context.columns,
        record=context.schema.output.keep_record,
        packed=chat.packing is not None,
        preference=isinstance(chat.source, Preference),
    )


def _chat(context: Context) -> Chat:
    assert context.schema.chat is not None  # noqa: S101 - the schema model proves it
    return context.schema.chat


_PROOFS: dict[int, tuple[Context, Proof]] = {}


def _proof(context: Context) -> Proof:
    """The probed template of a context, probed once."""
    known = _PROOFS.get(id(context))
    if known is None or known[0] is not context:
        assert context.tokenizer is not None  # noqa: S101 - the schema model proves it
        chat = _chat(context)
        template = load_template(chat.template, context.schema_dir, context.tokenizer)
        grammar = compile_grammar(chat.grammar)
        always = ("system",) if isinstance(getattr(chat.source, "system", None), str) else ()
        proof = probe(
            template,
            context.tokenizer,
            shapes=grammar.examples(),
            requires=(*grammar.required(), *always),
            tools=grammar.tools,
        )
        _PROOFS.clear()
        known = _PROOFS[id(context)] = (context, proof)
    return known[1]


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
