"""Checks of a chat template on a tokenizer, before the first record is read. Each failure is one error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.errors import TokenizerError
from pipeline.models.chat_template import ChatTemplate, TemplateRefusal, TimeDependence
from pipeline.models.template_pattern import TemplatePattern, Unproven, marker, template_pattern
from pipeline.models.tokenizer import Tokenizer
from pipeline.reasons import Reason

# Known template families: how each marks its turns, and which tokenizers it belongs to.


@dataclass(frozen=True, slots=True)
class TemplateFamily:
    """One family of chat templates.

    Attributes:
        name: its common name.
        markers: texts that only this family writes around turns.
        tokens: special tokens that only tokenizers of this family have.
    """

    name: str
    markers: tuple[str, ...]
    tokens: tuple[str, ...]


TEMPLATE_FAMILIES: tuple[TemplateFamily, ...] = (
    TemplateFamily(
        "Llama 3",
        ("<|start_header_id|>", "<|eot_id|>"),
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ),
    TemplateFamily("Llama 4", ("<|header_start|>", "<|eot|>"), ("<|header_start|>", "<|eot|>")),
    TemplateFamily(
        "ChatML (Qwen and others)", ("<|im_start|>", "<|im_end|>"), ("<|im_start|>", "<|im_end|>")
    ),
    TemplateFamily("Gemma", ("<start_of_turn>", "<end_of_turn>"), ("<start_of_turn>", "<end_of_turn>")),
    TemplateFamily("Mistral", ("[INST]", "[/INST]"), ("[INST]", "[/INST]")),
    TemplateFamily("DeepSeek", ("<｜User｜>", "<｜Assistant｜>"), ("<｜User｜>", "<｜Assistant｜>")),
    TemplateFamily("Phi 3", ("<|user|>", "<|end|>"), ("<|user|>", "<|assistant|>", "<|end|>")),
    TemplateFamily("Phi 4", ("<|im_sep|>",), ("<|im_start|>", "<|im_sep|>")),
    TemplateFamily("Zephyr", ("<|system|>", "<|user|>", "<|assistant|>"), ("<|user|>", "<|assistant|>")),
    TemplateFamily(
        "Command R", ("<|START_OF_TURN_TOKEN|>",), ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
    ),
)

TEMPLATE_MARKER = re.compile(
    r"<\|[^<>|\s]{1,40}\|>|<｜[^<>｜\s]{1,40}｜>|<(?:start|end)_of_turn>|</?s>|<(?:bos|eos)>|\[/?INST\]"
    r"|\[/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\]|\[TOOL_CALLS\]"
)
"""Matches a text that looks like the marker of a turn."""


def family_of_template(written: Iterable[str]) -> TemplateFamily | None:
    """The family with the largest share of its markers among the texts that a template writes."""
    texts = set(written)
    hits = [(sum(m in texts for m in f.markers) / len(f.markers), f) for f in TEMPLATE_FAMILIES]
    best = max(hits, key=lambda hit: hit[0])
    return best[1] if best[0] > 0 else None


def family_of_tokenizer(tokens: Iterable[str]) -> TemplateFamily | None:
    """The family with the most special tokens among those whose tokens a tokenizer has."""
    known = set(tokens)
    fitting = [f for f in TEMPLATE_FAMILIES if all(token in known for token in f.tokens)]
    return max(fitting, key=lambda f: len(f.tokens)) if fitting else None


# The checks.


ROLE_OF = {"s": "system", "u": "user", "a": "assistant"}
DEFAULT_SHAPES = ("ua", "uaua", "sua", "suaua")
PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_lookup",
        "description": "Probe description",
        "parameters": {"type": "object", "properties": {"probe_key": {"type": "string"}}},
    },
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check: its name, a description, and the error of a failed one."""

    name: str
    text: str
    error: TokenizerError | None = None


@dataclass(frozen=True, slots=True)
class TemplateProof:
    """A template that passed all checks.

    Attributes:
        template: the template.
        tokenizer: the tokenizer, with the turn markers of the template among its control tokens.
        headers: the texts before a turn of the user and of the assistant; None where there are none.
        bos: text of the start token; "" when the template writes none.
        shapes: role letters of the conversations that the template renders.
        verdicts: the result of each check.
    """

    template: ChatTemplate
    tokenizer: Tokenizer
    headers: tuple[str, str] | None
    bos: str
    shapes: tuple[str, ...]
    verdicts: tuple[Verdict, ...]


@dataclass(slots=True)
class _Subject:
    """The checked template, and what the checks found so far."""

    template: ChatTemplate
    tokenizer: Tokenizer
    shapes: tuple[str, ...]
    requires: frozenset[str]
    tools: bool
    rendered: dict[str, str] = field(default_factory=dict)
    patterns: dict[str, TemplatePattern] = field(default_factory=dict)

    @property
    def stops(self) -> re.Pattern[str]:
        longest = sorted(self.tokenizer.control, key=lambda text: (-len(text), text))
        return re.compile("|".join(map(re.escape, longest)) if longest else "(?!)")

    def error(self, reason: Reason, found: str, expected: str, remedy: str = "") -> TokenizerError:
        return TokenizerError(
            reason.facts.title.lower(),
            where=self.template.name,
            found=found,
            expected=expected,
            remedy=remedy or reason.facts.remedy,
        )


def check_template(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    *,
    shapes: Sequence[str] = DEFAULT_SHAPES,
    requires: Sequence[str] = ("user", "assistant"),
    tools: bool = False,
) -> TemplateProof:
    """Run all checks.

    Args:
        template, tokenizer: the template and its tokenizer.
        shapes: role letters (s, u, a) of conversations that must render, the shortest ones of the grammar.
        requires: roles that the template must take. A turn of another role that it refuses is quarantined row by row.
        tools: whether conversations may call tools.

    Raises:
        TokenizerError: the first check that fails.
    """
    proof, verdicts = examine_template(template, tokenizer, shapes=shapes, requires=requires, tools=tools)
    for verdict in verdicts:
        if verdict.error is not None:
            raise verdict.error
    assert proof is not None  # noqa: S101 - no check failed
    return proof


def examine_template(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    *,
    shapes: Sequence[str] = DEFAULT_SHAPES,
    requires: Sequence[str] = ("user", "assistant"),
    tools: bool = False,
) -> tuple[TemplateProof | None, list[Verdict]]:
    """As ``check_template``, but return the verdicts up to the first failed check, and no proof after a failure."""
    subject = _Subject(template, tokenizer, tuple(shapes), frozenset(requires), tools)
    verdicts: list[Verdict] = []
    probes: list[tuple[str, Callable[[_Subject], str]]] = [
        ("renders", _renders),
        ("markers", _markers),
        ("start token", _start_token),
        ("mask", _mask),
        ("tools", _tools),
    ]
    for name, check in probes:
        try:
            verdicts.append(Verdict(name, check(subject)))
        except TokenizerError as error:
            verdicts.append(Verdict(name, error.found, error))
            break
    if any(verdict.error for verdict in verdicts):
        return None, verdicts
    bos = subject.tokenizer.special_texts.get("bos", "")
    writes = any(bos and text.startswith(bos) for text in subject.rendered.values())
    proof = TemplateProof(
        template,
        subject.tokenizer,
        _headers(subject),
        bos if writes else "",
        tuple(subject.rendered),
        tuple(verdicts),
    )
    return proof, verdicts


def _renders(subject: _Subject) -> str:
    """Check that every shape renders, without today's date; the template may refuse a role that is not required."""
    refused: list[str] = []
    for letters in subject.shapes:
        messages = [{"role": ROLE_OF[letter], "content": marker(i)} for i, letter in enumerate(letters)]
        roles = {ROLE_OF[letter] for letter in letters}
        try:
            subject.rendered[letters] = subject.template.render(messages).text
            subject.template.render(messages, add_generation_prompt=True)
        except TimeDependence as error:
            raise subject.error(
                Reason.TEMPLATE_TIME_DEPENDENT,
                str(error),
                "the same text every day",
                'pin the date under `chat: template: date:`, for example "2024-07-26"',
            ) from None
        except TemplateRefusal as refusal:
            if roles <= subject.requires:
                raise subject.error(
                    Reason.TEMPLATE_UNPROVEN,
                    f"the template refuses {' '.join(ROLE_OF[letter] for letter in letters)}: {refusal}",
                    "a template that takes these turns",
                    "use a template that takes these roles, or leave them out (`grammar`, `system`)",
                ) from None
            refused.extend(sorted(roles - subject.requires))
    names = sorted(set(refused))
    return "renders every shape" + (f"; refuses turns of: {', '.join(names)}" if names else "")


def _markers(subject: _Subject) -> str:
    """Check that the markers of turns are single tokens of the tokenizer."""
    tokenizer = subject.tokenizer
    written = dict.fromkeys(m for text in subject.rendered.values() for m in TEMPLATE_MARKER.findall(text))
    unknown = [text for text in written if text not in tokenizer.added]
    if unknown:
        _mismatch(subject, list(written), unknown)
    weak = [text for text in written if text not in tokenizer.control]
    turn_markers = [t for t in weak if all(t in text for text in subject.rendered.values())]
    if turn_markers:
        subject.tokenizer = tokenizer.altered(control=turn_markers)
    return ("single tokens: " + ", ".join(written)) if written else "none that look like markers"


def _mismatch(subject: _Subject, written: list[str], unknown: list[str]) -> None:
    tokenizer = subject.tokenizer
    _, lengths = tokenizer.encode(unknown)
    shown = ", ".join(
        f"{text} becomes {count} tokens" for text, count in zip(unknown[:4], lengths.tolist(), strict=False)
    )
    theirs, ours = family_of_template(written), family_of_tokenizer(tokenizer.control)
    if ours is not None:
        marks = " … ".join(ours.tokens)
        own = (
            "the tokenizer has one of its own: leave `chat: template:` out"
            if tokenizer.chat_template is not None
            and tokenizer.chat_template != subject.template.source
            and all(text in tokenizer.added for text in TEMPLATE_MARKER.findall(tokenizer.chat_template))
            else "name a file with it under `chat: template: file:`"
        )
        expected = f"{ours.name} markers ({marks}), which are single tokens of this tokenizer"
        remedy = f"use the {ours.name} template ({own})"
    else:
        expected = "markers that are single special tokens of this tokenizer"
        remedy = "use the template of this tokenizer's model"
    name = f"{theirs.name} markers" if theirs is not None else "markers"
    raise subject.error(
        Reason.TEMPLATE_MISMATCH,
        f"{name} that are no tokens of {tokenizer.name} ({shown}): the model would never learn to stop",
        expected,
        remedy,
    )


def _start_token(subject: _Subject) -> str:
    """Check that the text has exactly one start token, at the start, where the tokenizer adds one."""
    tokenizer = subject.tokenizer
    bos = tokenizer.special_texts.get("bos")
    if not bos:
        return "the tokenizer has none"
    stopping = tokenizer.special_texts.get("eos") == bos
    wanted = tokenizer.bos_id in tokenizer.affixes[0].tolist()
    for text in subject.rendered.values():
        count = text.count(bos)
        if count > 1 and not stopping:
            raise subject.error(
                Reason.BOS_DOUBLED,
                f"{count} start tokens {bos}",
                "one",
                "remove all but one from the template",
            )
        if wanted and count == 0:
            raise subject.error(
                Reason.BOS_MISSING,
                f"no start token {bos}",
                "one, as the tokenizer itself adds",
                "add {{ bos_token }}",
            )
        if count == 1 and not stopping and not text.startswith(bos):
            raise subject.error(Reason.BOS_DOUBLED, f"{bos} inside the text", "at the start")
    return f"one {bos}" if any(bos in text for text in subject.rendered.values()) else "none is written"


def _mask(subject: _Subject) -> str:
    """Check that all contents are rendered, and that the mask of each assistant turn is proven, with its stop token."""
    stops = subject.stops
    for letters in subject.rendered:
        roles = [ROLE_OF[letter] for letter in letters]
        lost = [r for i, r in enumerate(roles) if marker(i) not in subject.rendered[letters]]
        if lost:
            raise subject.error(
                Reason.TEMPLATE_UNPROVEN,
                f"the text of a turn of {lost[0]} is dropped or changed ({' '.join(roles)})",
                "every turn in the rendered text",
                "use a template that renders every turn, or leave the role out of `grammar`",
            )
        try:
            subject.patterns[letters] = template_pattern(subject.template, roles, stops)
        except Unproven as problem:
            raise subject.error(
                Reason.TEMPLATE_UNPROVEN,
                f"{problem} ({' '.join(roles)})",
                "generation markers around what the assistant says, its stop token included"
                if subject.template.has_generation
                else "generation markers, or text that a generation prompt extends to",
                "use the training variant of the template: {% generation %} … {% endgeneration %} around the "
                "assistant's text and its end-of-turn token",
            ) from None
        except TemplateRefusal as refusal:
            raise subject.error(Reason.TEMPLATE_UNPROVEN, str(refusal), "a rendered prompt") from None
    how = "generation markers" if subject.template.has_generation else "the prefix of a generation prompt"
    stop = _stop(subject)
    eos = subject.tokenizer.special_texts.get("eos", "")
    note = (
        ""
        if stop == eos
        else f" (not the tokenizer's eos {eos or 'none'}: tell your generation to stop there)"
    )
    return f"by {how}; turns end with {stop}{note}"


def _stop(subject: _Subject) -> str:
    """The token that ends a turn of the assistant."""
    for pattern in subject.patterns.values():
        for _, _, _, stop in pattern.answers:
            found = subject.stops.match(pattern.literals[stop.literal], stop.offset)
            if found is not None:
                return found.group()
    return "nothing"


def _tools(subject: _Subject) -> str:
    """Check that calls, results and definitions of tools are rendered, where conversations may hold them."""
    if not subject.tools:
        return "not used"
    call = {
        "id": "probe0001",
        "type": "function",
        "function": {"name": "probe_lookup", "arguments": {"probe_key": "probe value"}},
    }
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "probe question"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "probe result", "name": "probe_lookup", "tool_call_id": "probe0001"},
        {"role": "assistant", "content": "probe answer"},
    ]
    try:
        text = subject.template.render(messages, tools=[PROBE_TOOL]).text
    except TemplateRefusal as refusal:
        raise subject.error(
            Reason.TEMPLATE_UNPROVEN,
            f"the template refuses tool calls: {refusal}",
            "a template that renders them",
        ) from None
    for what, needle in (
        ("the tool definition", "Probe description"),
        ("the call's name", "probe_lookup"),
        ("the call's arguments", "probe value"),
        ("the result", "probe result"),
        ("the answer", "probe answer"),
    ):
        if needle not in text and json.dumps(needle) not in text:
            raise subject.error(
                Reason.TEMPLATE_UNPROVEN, f"{what} is dropped", "tool calls in the rendered text"
            )
    return "definitions, calls and results survive"


def _headers(subject: _Subject) -> tuple[str, str] | None:
    """The texts before a turn of the user and of the assistant, from the longest shape."""
    for letters, pattern in sorted(subject.patterns.items(), key=lambda item: -len(item[0])):
        opened: dict[str, str] = {}
        for i in range(len(letters)):
            literal = pattern.literals[i]
            if i == 0:
                bos = subject.tokenizer.special_texts.get("bos", "")
                text = literal.removeprefix(bos) if bos else literal
            else:
                end = pattern.ends[i - 1]
                text = literal[end.offset :] if end.literal == i else literal
            text = text.strip() or literal.strip()
            if letters[i] in "ua" and text and (i > 0 or letters[i] not in opened):
                opened[letters[i]] = text
        if len(opened) == 2:
            return opened["u"], opened["a"]
    return None
