"""A chat's ``schema_assumed`` as a schema: where the turns are, the grammar of roles, limits."""

from __future__ import annotations

import re
from typing import Any

from tests.acceptance.case import Case, Untranslated
from tests.acceptance.peek import Sample, cell

_PROMPTS = ("user", "prompt", "question", "instruction", "input", "human")
_ANSWERS = ("assistant", "answer", "completion", "response", "output", "gpt")
_TOO_LONG = {
    "right": "truncate_answer",
    "left": "truncate_prompt",
    "prompt": "truncate_prompt",
    "answer": "truncate_answer",
    "none": "quarantine",
    "no": "quarantine",
    "never": "quarantine",
    "quarantine": "quarantine",
    "error": "quarantine",
    "false": "quarantine",
}


def translate_chat(case: Case, sample: Sample) -> dict[str, Any]:
    """The ``chat`` section and, for cells, ``read``."""
    assumed = case.assumed
    source = _source(assumed, sample)
    chat: dict[str, Any] = {
        "source": source,
        "grammar": _grammar(assumed, sample, source),
        "max_tokens": assumed.get("max_tokens", 4096),
    }
    if "aliases" in assumed:
        chat["aliases"] = dict(assumed["aliases"])
    elif source["format"] != "sharegpt":
        chat["aliases"] = {}
    if "truncate" in assumed:
        chat.update(_truncation(str(assumed["truncate"])))
    if match := re.search(
        r"(?:at most|max(?:imum)?|up to|<=|≤)\s*([\d,]+)\s*char", str(assumed.get("content", ""))
    ):
        most = int(match.group(1).replace(",", ""))
        chat["role_limits"] = {role: {"max_characters": most} for role in ("system", "user", "assistant")}
    if template := next((f for f in case.files if f.endswith(".jinja")), None):
        chat["template"] = {"file": template}
    return {"kind": "chat", "chat": chat, "read": {"header": "find"} if sample.tabular else {}}


def _truncation(said: str) -> dict[str, Any]:
    """What becomes of a conversation over the limit. The oldest exchanges go first, unless nothing is to be cut."""
    words = re.findall(r"[a-z]+", said.lower())
    cut = next((_TOO_LONG[word] for word in words if word in _TOO_LONG), None)
    if cut is None and not set(words) & {"oldest", "pair", "pairs", "turn", "turns", "drop", "whole", "true"}:
        raise Untranslated(f"truncate {said!r}")
    whole = cut == "quarantine" and not set(words) & {"oldest", "pair", "pairs"}
    return {"too_long": cut or "quarantine", "drop_oldest_turns": not whole}


def _source(assumed: dict[str, Any], sample: Sample) -> dict[str, Any]:
    """Where the turns are: what the case declares, then what the data shows."""
    declared = str(assumed.get("format", "")).lower()
    if columns := assumed.get("columns"):
        return _columns(columns)
    if "alpaca" in declared or (sample.first(("instruction",)) and sample.first(("output",))):
        return _alpaca(assumed, sample)
    if named := assumed.get("source_column") or assumed.get("column"):
        return _messages(str(named), assumed, sample)
    if sample.first(("chosen",)) and sample.first(("rejected",)):
        return {"format": "preference"}
    if listed := sample.first(
        ("messages", "conversations", "conversation", "turns", "dialog", "dialogue", "chat")
    ):
        return _messages(listed, assumed, sample)
    if sample.first(("replies",)):
        return {"format": "tree"}
    prompt, answer = sample.first(_PROMPTS), sample.first(_ANSWERS)
    if prompt and answer:
        if answer.lower() == "completion":
            return {"format": "prompt_completion", "prompt": prompt, "completion": answer}
        return _columns({"user": prompt, "assistant": answer, **_system_column(sample)})
    if "text_column" in assumed:  # rendered text alone: no turns, so that each row must be set aside
        return {"format": "messages", "column": "messages"}
    raise Untranslated("no field with turns in the data")


def _columns(columns: dict[str, Any]) -> dict[str, Any]:
    lowered = {str(key).lower(): value for key, value in columns.items()}
    prompt = next((lowered[name] for name in _PROMPTS if name in lowered), None)
    answer = next((lowered[name] for name in _ANSWERS if name in lowered), None)
    if not prompt or not answer:
        raise Untranslated(f"columns {sorted(columns)}")
    source: dict[str, Any] = {"format": "columns", "prompt": prompt, "answer": answer}
    if system := lowered.get("system"):
        source["system"] = {"column": system, "optional": True}
    return source


def _system_column(sample: Sample) -> dict[str, str]:
    name = sample.first(("system", "system_prompt"))
    return {"system": name} if name else {}


def _alpaca(assumed: dict[str, Any], sample: Sample) -> dict[str, Any]:
    source: dict[str, Any] = {
        "format": "alpaca",
        "instruction": sample.first(("instruction",)) or "instruction",
        "output": sample.first(("output", "response")) or "output",
        "input": sample.first(("input", "context")),
    }
    if system := sample.first(("system",)):
        source["system"] = {"column": system, "optional": True}
    if history := sample.first(("history",)):
        source["history"] = history
    return source


def _messages(column: str, assumed: dict[str, Any], sample: Sample) -> dict[str, Any]:
    turns = [turn for value in sample.values(column) if isinstance(cell(value), list) for turn in cell(value)]
    keys = {key for turn in turns if isinstance(turn, dict) for key in turn}
    tools = _tools_in_scope(assumed)
    # Declared aliases are the whole list: ShareGPT's own would be accepted beside them.
    own = "from" in keys and "aliases" not in assumed
    form = "openai" if tools else "sharegpt" if own else "messages"
    source: dict[str, Any] = {"format": form, "column": column}
    if tools and (definitions := sample.first(("tools", "functions"))):
        source["tools"] = definitions
    if (system := sample.first(("system",))) and not sample.tabular:
        source["system"] = {"column": system, "optional": True}
    return source


def _tools_in_scope(assumed: dict[str, Any]) -> bool:
    """Whether tool turns belong to the set: said, or shown by the list of roles."""
    said = assumed.get("tools")
    if isinstance(said, str):
        return not any(word in said.lower() for word in ("not", "out of", "no ", "none"))
    if said is None:
        return "tool" in (assumed.get("roles") or ())
    return bool(said)


def _grammar(assumed: dict[str, Any], sample: Sample, source: dict[str, Any]) -> str:
    """The turn grammar said in words: where a system turn may stand, who follows whom, who is last."""
    roles = [str(role) for role in assumed.get("roles", ("system", "user", "assistant"))]
    system = str(assumed.get("system", "at most one, first")).lower()
    if "system" not in roles or any(word in system for word in ("none", "not allowed", "no system", "never")):
        head = ""
    elif any(word in system for word in ("required", "exactly one", "always")):
        head = "system "
    elif "any" in system.split() or "several" in system:
        head = "system* "
    else:
        head = "system? "
    answer = "assistant"
    if _tools_in_scope(assumed):
        answer = "(assistant_call tool+)* assistant"
    alternation = str(assumed.get("alternation", "user/assistant, user first")).lower()
    if alternation.startswith(("any", "none", "free")):
        body = "(user | assistant)+"
    elif "assistant first" in alternation:
        body = f"assistant? (user {answer})+"
    else:
        body = f"(user {answer})+"
    if str(assumed.get("last_role", "assistant")).lower() in ("any", "user"):
        body += " user?" if "any" in str(assumed["last_role"]).lower() else " user"
    return head + body
