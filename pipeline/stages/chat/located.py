"""One conversation rendered by its template, and where its turns stand in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.models.skeleton import Unproven, answer_spans, turn_ends
from pipeline.models.template import ChatTemplate
from pipeline.reasons import Reason
from pipeline.stages.chat.finding import Message, NotLocated, find_contents
from pipeline.stages.chat.plan import Control, Piece, Plan, texts_in

GUARDS = "\ue002\ue003\ue004\ue005"
"""Private characters, one of which is put inside a control token that a content spells, while it is rendered."""


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
    starts, ends = find_contents(template, shown, shown_tools, rendering, control)
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
