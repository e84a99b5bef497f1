"""Message trees (OpenAssistant): a prompt whose replies have replies; each root-to-leaf path is a conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import polars as pl

from pipeline.arrow_lists import within
from pipeline.batch import Batch, Findings
from pipeline.fields import Content, message_dtype
from pipeline.reasons import Policy, Reason
from pipeline.schema.chat import Tree
from pipeline.schema.model import Schema
from pipeline.stages.chat.turns import FIELDS, Turns, role_codes

MAX_PATHS = 10_000
"""Most paths taken of one tree."""
MAX_DEPTH = 1_000

Node = dict[str, Any]


class _NoTree(Exception):
    """A node is not what it should be; the text says how."""


def tree_turns(
    batch: Batch, source: Tree, schema: Schema, aliases: dict[str, str], findings: Findings
) -> Turns:
    """The conversations of each record's tree; ``records`` says which record each belongs to."""
    rows: list[dict[str, str | None]] = []
    counts: list[int] = []
    records: list[int] = []
    present: list[bool] = []
    bad: dict[int, str] = {}
    for i, text in enumerate(batch.frame["@tree"].to_list()):
        paths: list[list[Node]] = []
        if text is not None:
            try:
                paths = list(_paths(_decoded(text), source))
            except _NoTree as problem:
                bad[i] = str(problem)
        for path in paths or [[]]:
            records.append(i)
            present.append(bool(path))
            counts.append(len(path))
            rows.extend(_turn(node, source) for node in path)
    findings.add(
        Reason.VALUE_TYPE,
        Policy.QUARANTINE,
        source.column,
        batch.ids[np.array(list(bad), np.int64)],
        found=list(bad.values()),
        expected="a tree of messages",
    )
    frame = pl.DataFrame(rows, schema={"role": pl.String, "content": pl.String, "content_kind": pl.String})
    others = [f for f in message_dtype().fields if f.name not in frame.columns]
    frame = frame.with_columns(*(pl.lit(None, f.dtype).alias(f.name) for f in others)).select(FIELDS)
    codes, _ = role_codes(frame["role"], aliases)
    lengths = np.array(counts, np.int64)
    return Turns(
        counts=lengths,
        records=np.array(records, np.int64),
        roles=codes,
        frame=frame,
        train=np.ones(len(frame), np.bool_),
        origins=np.zeros(len(frame), np.int16),
        places=within(lengths),
        columns=(source.column,),
        present=np.array(present, np.bool_),
    )


def _decoded(text: str) -> Node:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise _NoTree("no JSON") from None
    if not isinstance(value, dict):
        raise _NoTree("no object")
    return value


def _turn(node: Node, source: Tree) -> dict[str, str | None]:
    role, content = node.get(source.role), node.get(source.text)
    if isinstance(content, str):
        kind = Content.TEXT
    elif content is None:
        kind = Content.NULL if source.text in node else Content.MISSING
    else:
        kind = Content.OBJECT
        content = None
    return {
        "role": role if isinstance(role, str) else None,
        "content": content,
        "content_kind": kind.value,
    }


def _paths(root: Node, source: Tree) -> Iterator[list[Node]]:
    """Each root-to-leaf path, or the one that takes the best-ranked reply everywhere."""
    count = 0
    stack = [(root, [root])]
    while stack:
        node, path = stack.pop()
        replies = _replies(node, source)
        if not replies:
            count += 1
            if count > MAX_PATHS:
                raise _NoTree(f"more than {MAX_PATHS} paths")
            yield path
        elif len(path) >= MAX_DEPTH:
            raise _NoTree(f"deeper than {MAX_DEPTH}")
        else:
            chosen = [min(replies, key=lambda r: _rank(r, source))] if source.paths == "best" else replies
            stack.extend((reply, [*path, reply]) for reply in reversed(chosen))


def _replies(node: Node, source: Tree) -> list[Node]:
    replies = node.get(source.replies)
    if replies is None:
        return []
    if not isinstance(replies, list) or not all(isinstance(reply, dict) for reply in replies):
        raise _NoTree("replies that are no list of messages")
    return replies


def _rank(node: Node, source: Tree) -> float:
    """0 is the best; a reply without a rank comes after all others."""
    rank = node.get(source.rank)
    return float(rank) if isinstance(rank, int | float) and not isinstance(rank, bool) else float("inf")
