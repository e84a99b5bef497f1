"""Contexts, batches and a run over the chat stages, for the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings, Samples, split
from pipeline.fields import message_dtype
from pipeline.models.families import limits_for
from pipeline.models.tokenizer import load
from pipeline.reasons import Policy
from pipeline.schema.fields import fields_of
from pipeline.schema.model import ChatSchema, schema_of
from pipeline.stages.certify import Certify, without
from pipeline.stages.chat.stage import ChatKind
from pipeline.stages.context import Context

TINY = Path(__file__).resolve().parents[3] / "data_samples" / "tokenizers"
MESSAGES = pl.List(message_dtype())


def context(
    chat: dict[str, Any], *, tokenizer: str = "tiny-llama3", folder: Path = TINY, **schema: Any
) -> Context[ChatSchema]:
    """A context as a schema file with this ``chat:`` section would give."""
    written = {
        "version": 1,
        "name": "chats",
        "kind": "chat",
        "files": ["*"],
        "tokenizer": {"path": tokenizer},
        "chat": {"max_tokens": 4096, **chat},
        **schema,
    }
    model = schema_of(written)
    assert isinstance(model, ChatSchema)
    ChatKind().check(model)
    loaded = load(model.tokenizer, folder)
    limits = limits_for(model.model, folder, loaded.size, loaded.pad_id, None)
    return Context(model, folder, folder, fields_of(model), [], loaded, limits=limits)


def message(turn: dict[str, Any]) -> dict[str, Any]:
    """A turn as the cast stage writes it."""
    kinds = {
        str: "text",
        type(None): "null",
        bool: "boolean",
        int: "number",
        float: "number",
        list: "parts",
        dict: "object",
    }
    out = dict.fromkeys((field.name for field in message_dtype().fields), None)
    out["content_kind"] = "missing"
    for key, value in turn.items():
        if key == "content":
            out["content_kind"] = kinds[type(value)]
            out["content"] = value if isinstance(value, str | None) else json.dumps(value)
        else:
            out[key] = json.dumps(value) if key == "tool_calls" and value is not None else value
    return out


def lists(rows: Sequence[Sequence[dict[str, Any]] | None]) -> pl.Series:
    """A column of lists of turns."""
    return pl.Series([None if r is None else [message(t) for t in r] for r in rows], dtype=MESSAGES)


def batch(**columns: Any) -> Batch:
    """A batch of records with these ``@`` columns."""
    frame = pl.DataFrame({f"@{name}": column for name, column in columns.items()})
    frame = frame.with_columns(pl.col(pl.Null).cast(pl.String))
    n = len(frame)
    return Batch(
        "chats.jsonl", None, np.arange(n, dtype=np.int64), np.arange(1, n + 1, dtype=np.int64), frame
    )


def messages(*rows: Sequence[dict[str, Any]] | None) -> Batch:
    """A batch of lists of turns."""
    return batch(messages=lists(rows))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch."""

    samples: Samples
    findings: Findings
    encode: Any

    def reasons(self, record: int, policy: Policy = Policy.QUARANTINE) -> set[str]:
        """Slugs found on one record with a policy."""
        return {f.reason.slug for f in self.findings.items if f.policy is policy and record in f.ids}

    @property
    def certified(self) -> list[int]:
        """Records that gave samples, one entry a sample."""
        return self.samples.ids.tolist()

    def rows(self) -> list[dict[str, Any]]:
        return self.samples.table.to_pylist()

    def texts(self, sample: int = 0) -> tuple[str, str]:
        """The whole text of a sample, and the text that is learned."""
        row, tokenizer = self.rows()[sample], self.encode.codec.tokenizer
        learned = [label for label in row["labels"] if label != -100]
        return tokenizer.decode(row["input_ids"]), tokenizer.decode(learned)


def run(ctx: Context[ChatSchema], given: Batch) -> Outcome:
    """A batch through the stages of the kind, and the last look."""
    findings, kind = Findings(), ChatKind()
    stages = kind.stages(ctx)
    for step in stages.records:
        given, found = step(given)
        findings.extend(found)
    good, _ = split(given, findings)
    samples, found = stages.encode(good)
    findings.extend(found)
    samples, found = Certify(ctx, kind.sample_rules(ctx.schema))(without(samples, found))
    findings.extend(found)
    return Outcome(without(samples, found), findings, stages.encode)


def user(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def assistant(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def system(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "system", "content": text, **more}


def tool(text: Any, call: str | None = None) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call}


def call(name: str, arguments: Any, identity: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return found | ({"id": identity} if identity else {})
