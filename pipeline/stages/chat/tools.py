"""Tool calls and their results: every call answered, every answer called for, arguments that are JSON.

Calls are kept as canonical JSON: a list of ``{"id"?, "type": "function", "function": {"name", "arguments"}}`` with
the arguments as an object, which is what templates expect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings
from pipeline.reasons import Reason
from pipeline.schema.model import Schema
from pipeline.stages.chat.order import Grammar
from pipeline.stages.chat.turns import TOOL, Turns, role_strings, turn_findings
from pipeline.values.json_strict import IntegerText, NotJson, parse_strict, repeated_keys

_NO_CALLS = ("", "[]", "null")
_DEPTH = 200
"""Deepest nesting of arguments; a template that walks through them has one frame of the stack a level."""
_DIGITS = 20
"""Most characters of an integer of 64 bits."""


class InvalidCall(Exception):
    """A call is not what it should be; the text says how."""


def judge_tools(batch: Batch, turns: Turns, schema: Schema, grammar: Grammar, findings: Findings) -> Turns:
    """Turns with canonical calls; an invalid call, and a call and result that do not match, are findings.

    A conversation may end with a call where the grammar lets it: that is what is learned."""
    written = turns.frame["tool_calls"].str.strip_chars()
    calls = written.set(written.is_in(_NO_CALLS).fill_null(False), None)
    hits = np.flatnonzero(calls.is_not_null().to_numpy())
    if not len(hits) and not (turns.roles == TOOL).any():
        return turns if not len(written.drop_nulls()) else _with_calls(turns, calls)
    problems: dict[int, str] = {}
    decoded: dict[int, list[dict[str, Any]]] = {}
    for turn in hits.tolist():
        try:
            decoded[turn] = canonical_calls(calls[turn])
        except InvalidCall as problem:
            problems[turn] = str(problem)
    texts = [msgspec.json.encode(decoded[t]).decode() if t in decoded else calls[t] for t in hits.tolist()]
    if len(hits):
        calls = calls.scatter(pl.Series(hits), pl.Series(texts, dtype=pl.String))
    problems |= _unanswered(turns, decoded, set(problems), _open_ended(turns, grammar))
    at = np.array(sorted(problems), np.int64)
    turn_findings(
        findings,
        batch,
        turns,
        at,
        Reason.TOOL_CALL_INVALID,
        schema.policy(Reason.TOOL_CALL_INVALID),
        [problems[i] for i in at.tolist()],
        member="tool_calls",
    )
    return _with_calls(turns, calls)


def _with_calls(turns: Turns, calls: pl.Series) -> Turns:
    return replace(turns, frame=turns.frame.with_columns(calls.alias("tool_calls")))


def canonical_calls(written: str) -> list[dict[str, Any]]:
    """The calls of one turn.

    Raises:
        InvalidCall: no JSON list of calls, a call without a name, or arguments that are no JSON object.
    """
    calls = _decoded(written, "calls")
    if isinstance(calls, dict):
        calls = [calls]
    if not isinstance(calls, list) or not calls:
        raise InvalidCall("calls that are no list")
    return [_canonical(call) for call in calls]


def _canonical(call: Any) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise InvalidCall("a call that is no object")
    function = call.get("function", call)
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
        raise InvalidCall("a call without a function name")
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _decoded(arguments, "arguments")
    if not isinstance(arguments, dict):
        raise InvalidCall("arguments that are no JSON object")
    identity = {"id": call["id"]} if isinstance(call.get("id"), str) else {}
    return {**identity, "type": "function", "function": {"name": function["name"], "arguments": arguments}}


def _decoded(written: str, what: str) -> Any:
    """The JSON value of a text, where any reader takes it for the same one."""
    try:
        value, exact = msgspec.json.decode(written), parse_strict(written.encode(), _DEPTH)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, NotJson):
        raise InvalidCall(f"{what} that are no JSON") from None
    if any(repeated_keys(exact)):
        raise InvalidCall(f"{what} with a key that stands twice")
    if _overflows(exact):
        raise InvalidCall(f"{what} with an integer beyond 64 bits")
    return value


def _overflows(value: Any) -> bool:
    if isinstance(value, IntegerText):
        return len(value) > _DIGITS or not -(2**63) <= int(value) < 2**64
    if isinstance(value, (dict, list)):
        return any(map(_overflows, value.values() if isinstance(value, dict) else value))
    return False


def _open_ended(turns: Turns, grammar: Grammar) -> set[int]:
    """Last turns that may stay unanswered."""
    letters = role_strings(turns)
    ends = np.cumsum(turns.counts)
    return {
        int(ends[i]) - 1 for i, text in enumerate(letters) if text.endswith("c") and grammar.matches(text)
    }


def _unanswered(
    turns: Turns, decoded: dict[int, list[dict[str, Any]]], broken: set[int], open_ended: set[int]
) -> dict[int, str]:
    """Calls without a result, results without a call, ids that do not match: by turn."""
    problems: dict[int, str] = {}
    owner = turns.owner
    results = np.flatnonzero(turns.roles == TOOL).tolist()
    ids = turns.frame["tool_call_id"].to_list() if results else []
    answering: dict[int, list[int]] = {}
    for turn in results:
        before = turn - 1
        while before >= 0 and owner[before] == owner[turn] and turns.roles[before] == TOOL:
            before -= 1
        if before in broken:
            continue
        if before < 0 or owner[before] != owner[turn] or before not in decoded:
            problems[turn] = "a result without a call"
        else:
            answering.setdefault(before, []).append(turn)
    for turn, calls in decoded.items():
        answers = answering.get(turn, [])
        wanted = [call.get("id") for call in calls]
        given = [ids[answer] for answer in answers]
        if not answers and turn in open_ended:
            continue
        if not answers:
            problems[turn] = "a call without a result"
        elif len(answers) != len(calls):
            problems[turn] = f"{len(calls)} calls and {len(answers)} results"
        elif all(wanted) and len(set(map(str, wanted))) < len(wanted):
            problems[turn] = "two calls of one id"
        elif all(wanted) and all(given) and sorted(map(str, wanted)) != sorted(map(str, given)):
            problems[turn] = "results for other calls"
    return problems


def tool_definitions(batch: Batch, column: str, schema: Schema, findings: Findings) -> pl.Series:
    """The tool definitions of each record as a JSON list, null where it has none; what is no list is a finding."""
    written = batch.frame["@tools"].str.strip_chars()
    written = written.set(written.is_in(_NO_CALLS).fill_null(False), None)
    bad: list[int] = []
    given = np.flatnonzero(written.is_not_null().to_numpy())
    lists: list[str | None] = []
    for i in given.tolist():
        try:
            tools = _definitions(written[i])
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, InvalidCall):
            bad.append(i)
            lists.append(None)
            continue
        lists.append(msgspec.json.encode(tools).decode() if tools else None)
    findings.add(
        Reason.TOOL_CALL_INVALID,
        schema.policy(Reason.TOOL_CALL_INVALID),
        column,
        batch.ids[np.array(bad, np.int64)],
        found="tool definitions that are no list of objects",
    )
    return written.scatter(pl.Series(given), pl.Series(lists, dtype=pl.String)) if len(given) else written


def _definitions(written: str) -> list[Any]:
    """The list, also where it is written as a text inside JSON."""
    tools = msgspec.json.decode(written)
    if isinstance(tools, str):
        tools = msgspec.json.decode(tools) if tools.strip() else []
    if tools is None:
        return []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise InvalidCall("no list of objects")
    return tools
