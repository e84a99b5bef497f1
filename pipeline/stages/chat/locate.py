"""One conversation rendered by its template, and where the contents of its turns stand in the text.

The conversation is rendered a second time with a private mark on each side of every content: where the text is the
same but for the marks, the places are certain. A template that works on the contents may not leave the marks alone;
then the contents are looked for one after the other, outside of control tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from pipeline.models.chat_template import ChatTemplate, Rendering, TemplateRefusal
from pipeline.models.template_pattern import Unproven, answer_spans, turn_ends
from pipeline.reasons import Reason
from pipeline.stages.chat.segments import ControlTokens, Segments, TextSegment, json_texts
from pipeline.stages.chat.turns import ROLES, Turns

# Turns as the messages a template takes.


@dataclass(frozen=True, slots=True)
class Messages:
    """The turns of a batch in Python lists, one entry a turn; made once a batch.

    Attributes:
        starts: index of the first turn of each conversation, and one past the last of all.
    """

    starts: list[int]
    roles: list[str]
    contents: list[str | None]
    calls: list[str | None]
    names: list[str | None]
    call_ids: list[str | None]

    @classmethod
    def of(cls, turns: Turns) -> Messages:
        """Those of a batch."""
        frame = turns.frame
        columns = [frame[name].to_list() for name in ("content", "tool_calls", "name", "tool_call_id")]
        return cls(
            [*turns.starts.tolist(), len(turns.roles)],
            [ROLES[code] for code in turns.roles.tolist()],
            *columns,
        )

    def span(self, i: int) -> range:
        """The turns of a conversation."""
        return range(self.starts[i], self.starts[i + 1])

    def texts(self, i: int) -> list[str]:
        """The contents of a conversation, "" where there is none."""
        return [self.contents[t] or "" for t in self.span(i)]

    def messages(self, i: int) -> list[dict[str, Any]]:
        """The messages of a conversation. Keys without a value are left out; a call without a text has "" there."""
        found: list[dict[str, Any]] = []
        for t in self.span(i):
            message: dict[str, Any] = {"role": self.roles[t]}
            if (content := self.contents[t]) is not None:
                message["content"] = content
            if (calls := self.calls[t]) is not None:
                message["tool_calls"] = msgspec.json.decode(calls)
                message.setdefault("content", "")
            if (name := self.names[t]) is not None:
                message["name"] = name
            if (call_id := self.call_ids[t]) is not None:
                message["tool_call_id"] = call_id
            found.append(message)
        return found


# Where the contents of a conversation stand in its rendered text.


Message = dict[str, Any]
FIRST_MARK, LAST_MARK = 0xE010, 0xF8FF
"""Private characters, two for each turn."""
_MARKS = re.compile(f"[{chr(FIRST_MARK)}-{chr(LAST_MARK)}]")
_GAINED = re.compile(r"\bNone\b|\bnan\b|\[\{'")


class NotLocated(Exception):
    """The conversation cannot be encoded; ``reason`` says why."""

    def __init__(self, reason: Reason, found: str) -> None:
        super().__init__(found)
        self.reason = reason


def find_contents(
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Any,
    rendering: Rendering,
    control: ControlTokens,
) -> tuple[list[int], list[int]]:
    """First and one past the last character of each turn's content, in order; of a turn that only calls tools, of
    the calls' names and arguments.

    Raises:
        NotLocated: a content is not rendered, or the rendering gains what a missing value is printed as.
    """
    certain = _by_marks(template, messages, tools, rendering.text)
    spans = iter(rendering.spans)
    starts: list[int] = []
    ends: list[int] = []
    cursor = 0
    for i, message in enumerate(messages):
        low, high = cursor, len(rendering.text)
        bounded = message["role"] == "assistant" and template.has_generation
        if bounded:
            low, high = next(spans, (cursor, high))
        elif message["role"] == "assistant" and i and i not in certain:
            prompt = template.render(messages[:i], tools=tools, add_generation_prompt=True).text
            low = max(low, len(prompt))
        found = _of_turn(rendering.text, message, certain.get(i), low, high, control)
        if found is None:
            raise NotLocated(
                Reason.TEMPLATE_DROPS_CONTENT, f"the text of a turn of {message['role']} is not rendered"
            )
        starts.append(found[0])
        ends.append(found[1])
        cursor = high if bounded else found[1]
    _gains(template, rendering.text, starts, ends)
    return starts, ends


def _by_marks(
    template: ChatTemplate, messages: Sequence[Message], tools: Any, text: str
) -> dict[int, tuple[int, int]]:
    """Places of the contents by turn, where marks around them change nothing else; empty where they do."""
    if 2 * len(messages) > LAST_MARK - FIRST_MARK or any(
        _MARKS.search(t) for t in json_texts([*messages, tools])
    ):
        return {}
    marked = [_marked(message, i) for i, message in enumerate(messages)]
    try:
        seen = template.render(marked, tools=tools).text
    except TemplateRefusal:
        return {}
    if _MARKS.sub("", seen) != text:
        return {}
    places: dict[int, tuple[int, int]] = {}
    opened = (-1, 0)
    for count, match in enumerate(_MARKS.finditer(seen)):
        turn, side = divmod(ord(match.group()) - FIRST_MARK, 2)
        at = match.start() - count
        if side == 0:
            opened = (turn, at)
        elif opened[0] != turn or turn in places or (places and turn < max(places)):
            return {}
        else:
            places[turn] = (opened[1], at)
    wanted = {i for i, message in enumerate(messages) if message.get("content")}
    if set(places) != wanted:
        return {}
    return {i: (a, b) for i, (a, b) in places.items() if text[a:b] in _forms(messages[i]["content"].strip())}


def _forms(content: str) -> tuple[str, str]:
    """A content as a template may write it: as it is, or as JSON."""
    return content, json.dumps(content, ensure_ascii=False)[1:-1]


def _marked(message: Message, turn: int) -> Message:
    """The message with marks just inside the white space around its content, which a template may trim."""
    content = message.get("content")
    if not content:
        return message
    core = content.strip()
    before = content[: len(content) - len(content.lstrip())]
    after = content[len(before) + len(core) :]
    first = FIRST_MARK + 2 * turn
    return {**message, "content": f"{before}{chr(first)}{core}{chr(first + 1)}{after}"}


def _of_turn(
    text: str, message: Message, certain: tuple[int, int] | None, low: int, high: int, control: ControlTokens
) -> tuple[int, int] | None:
    content = message.get("content") or ""
    place = certain or (low, low)
    if content and certain is None:
        looked = _search(text, content, low, high, control) or _reshaped(text, message, low, high, control)
        if looked is None:
            return None
        place = looked
    return _with_calls(text, message, place, high, bool(content))


def _search(text: str, content: str, low: int, high: int, control: ControlTokens) -> tuple[int, int] | None:
    """The first place of a content, as it is, trimmed, or as JSON, that is not inside a control token."""
    for form in dict.fromkeys((content, content.strip(), *_forms(content))):
        at = text.find(form, low, high)
        while at >= 0:
            around = control.pattern.finditer(text, max(low, at - 64), min(high, at + len(form) + 64))
            if not any(m.start() < at + len(form) and at < m.end() for m in around):
                return at, at + len(form)
            at = text.find(form, at + 1, high)
    return None


def _with_calls(
    text: str, message: Message, place: tuple[int, int], high: int, has_content: bool
) -> tuple[int, int] | None:
    """The place of a turn with the names and texts of its calls, which must follow."""
    begin, end = place
    for number, call in enumerate(message.get("tool_calls", ())):
        name = call["function"]["name"]
        at = text.find(name, end, high)
        if at < 0:
            return None
        if not has_content and number == 0:
            begin = at
        after = last = at + len(name)
        for argument in json_texts(list(call["function"]["arguments"].values())):
            form = json.dumps(argument, ensure_ascii=False)[1:-1]
            at = text.find(form, after, high)
            if at < 0:
                return None
            last = max(last, at + len(form))
        end = last
    return begin, end


def _reshaped(
    text: str, message: Message, low: int, high: int, control: ControlTokens
) -> tuple[int, int] | None:
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


# One conversation rendered by its template, and where its turns stand in the text.


GUARDS = "\ue002\ue003\ue004\ue005"
"""Private characters, one of which is put inside a control token that a content spells, while it is rendered."""


@dataclass(frozen=True, slots=True)
class LocatedTurns:
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

    def unguarded(self, plan: Segments) -> Segments:
        """The plan of ``text`` with the guards taken out of its pieces."""
        if not self.guard:
            return plan
        guard = self.guard
        segments = tuple(
            TextSegment((segment.literals[0].replace(guard, ""),), (), ())
            if isinstance(segment, TextSegment)
            else segment
            for segment in plan.segments
        )
        marks = []
        for mark in plan.marks:
            piece = plan.segments[mark.segment]
            if isinstance(piece, TextSegment):
                before = piece.literals[0].encode()[: mark.literal].decode()
                mark = replace(mark, literal=len(before.replace(guard, "").encode()))
            marks.append(mark)
        return Segments(segments, tuple(marks))


def locate_turns(
    template: ChatTemplate, messages: Sequence[Message], tools: Any, control: ControlTokens
) -> LocatedTurns:
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
    return LocatedTurns(
        rendering.text,
        tuple(turn_ends(rendering.text, ends, control.pattern)),
        tuple((a.turn, a.start, a.end, a.stop) for a in answers),
        guard,
    )


def _guard(messages: Sequence[Message], tools: Any, control: ControlTokens) -> str:
    """A character for guards, when a text spells a control token; one that no text holds."""
    texts = list(json_texts([*messages, tools]))
    if not any(control.pattern.search(text) for text in texts):
        return ""
    for guard in GUARDS:
        if not any(guard in text for text in texts):
            return guard
    raise NotLocated(Reason.CONTROL_TOKEN_IN_CONTENT, "a control token beside private characters")


def _guarded(value: Any, control: ControlTokens, guard: str) -> Any:
    if isinstance(value, str):
        return control.pattern.sub(lambda m: m.group()[0] + guard + m.group()[1:], value)
    if isinstance(value, dict):
        return {_guarded(k, control, guard): _guarded(v, control, guard) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_guarded(member, control, guard) for member in value]
    return value
