"""Where the contents of a conversation stand in its rendered text.

The conversation is rendered a second time with a private mark on each side of every content: where the text is the
same but for the marks, the places are certain. A template that works on the contents may not leave the marks alone;
then the contents are looked for one after the other, outside of control tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pipeline.models.template import ChatTemplate, Rendering, TemplateRefusal
from pipeline.reasons import Reason
from pipeline.stages.chat.plan import Control, texts_in

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
    template: ChatTemplate, messages: Sequence[Message], tools: Any, rendering: Rendering, control: Control
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
        _MARKS.search(t) for t in texts_in([*messages, tools])
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
    text: str, message: Message, certain: tuple[int, int] | None, low: int, high: int, control: Control
) -> tuple[int, int] | None:
    content = message.get("content") or ""
    place = certain or (low, low)
    if content and certain is None:
        looked = _search(text, content, low, high, control) or _reshaped(text, message, low, high, control)
        if looked is None:
            return None
        place = looked
    return _with_calls(text, message, place, high, bool(content))


def _search(text: str, content: str, low: int, high: int, control: Control) -> tuple[int, int] | None:
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
        for argument in texts_in(list(call["function"]["arguments"].values())):
            form = json.dumps(argument, ensure_ascii=False)[1:-1]
            at = text.find(form, after, high)
            if at < 0:
                return None
            last = max(last, at + len(form))
        end = last
    return begin, end


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
