"""One conversation rendered by its template, and where its turns stand in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.models.skeleton import Unproven, answer_spans, turn_ends
from pipeline.models.template import ChatTemplate, Rendering
from pipeline.reasons import Reason
from pipeline.stages.chat.plan import Control, Piece, Plan, texts_in

GUARDS = "\ue002\ue003\ue004\ue005"
"""Private characters, one of which is put inside a control token that a content spells, while it is rendered."""
_GAINED = re.compile(r"\bNone\b|\bnan\b|\[\{'")

Message = dict[str, Any]


class NotLocated(Exception):
    """The conversation cannot be encoded; ``reason`` says why."""

    def __init__(self, reason: Reason, found: str) -> None:
        super().__init__(found)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Located:
    """A rendered conversation.

    Attributes:
        text: as rendered, with guards in it.
        ends: one past the last character of each turn.
        answers: for each assistant turn: turn, first and past the last character trained, first of the stop token.
        guard: the guard character, "" when there is none.
    """

    text: str
    ends: tuple[int, ...]
    answers: tuple[tuple[int, int, int, int], ...]
    guard: str = ""

    def unguarded(self, plan: Plan) -> Plan:
        """The plan of ``text`` with the guards taken out of its pieces."""
        if not self.guard:
            return plan
        guard = self.guard
        segments = tuple(
            Piece((segment.literals[0].replace(guard, ""),), (), ())
            if isinstance(segment, Piece)
            else segment
            for segment in plan.segments
        )
        marks = []
        for mark in plan.marks:
            piece = plan.segments[mark.segment]
            if isinstance(piece, Piece):
                before = piece.literals[0].encode()[: mark.literal].decode()
                mark = replace(mark, literal=len(before.replace(guard, "").encode()))
            marks.append(mark)
        return Plan(segments, tuple(marks))


def locate(template: ChatTemplate, messages: Sequence[Message], tools: Any, control: Control) -> Located:
    """Render a conversation and find its turns.

    Raises:
        TemplateRefusal: the template refuses it.
        NotLocated: a content is lost or changed, or the mask cannot be proven.
    """
    guard = _guard(messages, tools, control)
    shown = [_guarded(message, control, guard) for message in messages] if guard else messages
    shown_tools = _guarded(tools, control, guard) if guard else tools
    rendering = template.render(shown, tools=shown_tools)
    if guard and rendering.text.replace(guard, "") != template.render(messages, tools=tools).text:
        raise NotLocated(Reason.CONTROL_TOKEN_IN_CONTENT, "a control token that the template takes apart")
    starts, ends = _find(template, shown, shown_tools, rendering, control)
    try:
        answers = answer_spans(template, shown, rendering, control.pattern, starts, ends, shown_tools)
    except Unproven as problem:
        raise NotLocated(Reason.MASK_MISALIGNED, str(problem)) from None
    return Located(
        rendering.text,
        tuple(turn_ends(rendering.text, ends, control.pattern)),
        tuple((a.turn, a.start, a.end, a.stop) for a in answers),
        guard,
    )


def _guard(messages: Sequence[Message], tools: Any, control: Control) -> str:
    """A character for guards, when a text spells a control token; one that no text holds."""
    texts = list(texts_in([*messages, tools]))
    if not any(control.pattern.search(text) for text in texts):
        return ""
    for guard in GUARDS:
        if not any(guard in text for text in texts):
            return guard
    raise NotLocated(Reason.CONTROL_TOKEN_IN_CONTENT, "a control token beside private characters")


def _guarded(value: Any, control: Control, guard: str) -> Any:
    if isinstance(value, str):
        return control.pattern.sub(lambda m: m.group()[0] + guard + m.group()[1:], value)
    if isinstance(value, dict):
        return {_guarded(k, control, guard): _guarded(v, control, guard) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_guarded(member, control, guard) for member in value]
    return value


def _find(
    template: ChatTemplate, messages: Sequence[Message], tools: Any, rendering: Rendering, control: Control
) -> tuple[list[int], list[int]]:
    """First and one past the last character of each content, in order. An assistant's is looked for where its
    generation block, or the text before it, says."""
    text = rendering.text
    spans = iter(rendering.spans)
    starts: list[int] = []
    ends: list[int] = []
    cursor = 0
    for i, message in enumerate(messages):
        low, high = cursor, len(text)
        bounded = message["role"] == "assistant" and template.has_generation
        if message["role"] == "assistant":
            if bounded:
                low, high = next(spans, (cursor, len(text)))
            elif i:
                low = max(
                    low, len(template.render(messages[:i], tools=tools, add_generation_prompt=True).text)
                )
        found = _place(text, message, low, high) or _reshaped(text, message, low, high, control)
        if found is None:
            raise NotLocated(
                Reason.TEMPLATE_DROPS_CONTENT, f"the text of a turn of {message['role']} is not rendered"
            )
        starts.append(found[0])
        ends.append(found[1])
        cursor = high if bounded else found[1]
    _gains(template, text, starts, ends)
    return starts, ends


def _place(text: str, message: Message, low: int, high: int) -> tuple[int, int] | None:
    """Where a message's content stands, as it is, trimmed, or as JSON; and the names of its calls."""
    begin, end = -1, low
    content = message.get("content") or ""
    if content:
        for form in dict.fromkeys((content, content.strip(), json.dumps(content, ensure_ascii=False)[1:-1])):
            at = text.find(form, low, high)
            if at >= 0:
                begin, end = at, at + len(form)
                break
        else:
            return None
    for call in message.get("tool_calls", ()):
        name = call["function"]["name"]
        at = text.find(name, end, high)
        if at < 0:
            return None
        begin, end = (at if begin < 0 else begin), at + len(name)
        last = end
        for argument in texts_in(list(call["function"]["arguments"].values())):
            form = json.dumps(argument, ensure_ascii=False)[1:-1]
            at = text.find(form, end, high)
            if at < 0:
                return None
            last = max(last, at + len(form))
        end = last
    return (low, low) if begin < 0 else (begin, end)


def _reshaped(text: str, message: Message, low: int, high: int, control: Control) -> tuple[int, int] | None:
    """An assistant's generation block that holds its content but for white space: some templates set the reasoning
    apart from the answer."""
    if message["role"] != "assistant" or message.get("tool_calls"):
        return None
    if "".join(message["content"].split()) not in "".join(text[low:high].split()):
        return None
    stops = [match.start() for match in control.pattern.finditer(text, low, high)]
    return (low, stops[-1] if stops else high)


def _gains(template: ChatTemplate, text: str, starts: Sequence[int], ends: Sequence[int]) -> None:
    """Whether the text between the contents holds what a missing value is printed as."""
    places = [0, *ends]
    between = "\n".join(text[a:b] for a, b in zip(places, [*starts, len(text)], strict=True) if a < b)
    found = _GAINED.search(between)
    if found is not None and found.group() not in template.source:
        raise NotLocated(Reason.TEMPLATE_DROPS_CONTENT, f"the rendering gains {found.group()!r}")
