"""The pattern of a template for one shape: the constant text around the contents of conversations with the same roles.

A shape is rendered once, with marker texts as the contents. The text between the markers is constant, so the contents
of a real conversation can take the place of the markers. The mask comes from the same rendering: from the generation
blocks of the template, or from the prefix that a generation prompt gives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.models.chat_template import ChatTemplate, Message, Rendering, TemplateRefusal

OPEN, CLOSE = "\ue000", "\ue001"
PAD = " \n\t\u3000"
"""White space around a marker, which shows whether the template trims."""

_MARKER = re.compile(f'{OPEN}([0-9]+)aA"\\\\\n<{CLOSE}')


class Unproven(Exception):
    """A shape has no pattern: contents are changed, reordered or repeated, or the mask cannot be proven."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the rendered text: index of a literal, and number of characters from its start."""

    literal: int
    offset: int


@dataclass(frozen=True, slots=True)
class TemplatePattern:
    """The text that a template writes for one shape.

    Attributes:
        literals: constant texts, one more than slots: before the first slot, between two, after the last.
        slots: index of the turn whose content fills each slot.
        trims: for each slot, whether white space before and after the content is stripped.
        answers: for each assistant turn: its index, the start and the end of the trained text, and the start of the
            stop token.
        ends: for each turn, the end of its text.
    """

    literals: tuple[str, ...]
    slots: tuple[int, ...]
    trims: tuple[tuple[bool, bool], ...]
    answers: tuple[tuple[int, Place, Place, Place], ...]
    ends: tuple[Place, ...]

    def fill(self, contents: Sequence[str]) -> str:
        """The rendered text of a conversation with these contents, one per turn."""
        out = [self.literals[0]]
        for slot, (left, right), literal in zip(self.slots, self.trims, self.literals[1:], strict=True):
            out.append(trim_content(contents[slot], left, right))
            out.append(literal)
        return "".join(out)

    def literal_starts(self, contents: Sequence[str]) -> list[int]:
        """First character of each literal in the rendered text of a conversation with these contents."""
        starts = [0]
        for slot, trims, literal in zip(self.slots, self.trims, self.literals, strict=False):
            starts.append(starts[-1] + len(literal) + len(trim_content(contents[slot], *trims)))
        return starts

    def spans(self, contents: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """Span of each trained text in the rendered text of these contents, in characters, [start, end)."""
        starts = self.literal_starts(contents)
        return tuple(
            (starts[start.literal] + start.offset, starts[end.literal] + end.offset)
            for _, start, end, _ in self.answers
        )


def trim_content(text: str, left: bool, right: bool) -> str:
    """The content as the template writes it, with white space stripped on the given sides."""
    if left and right:
        return text.strip()
    return text.lstrip() if left else text.rstrip() if right else text


def marker(turn: int) -> str:
    """A marker text, which every filter except trimming changes."""
    return f'{OPEN}{turn}aA"\\\n<{CLOSE}'


@dataclass(frozen=True, slots=True)
class Answer:
    """The trained text of an assistant turn, in characters of the rendered text: [start, end), and the start of its
    stop token."""

    turn: int
    start: int
    end: int
    stop: int


def template_pattern(template: ChatTemplate, roles: Sequence[str], stops: re.Pattern[str]) -> TemplatePattern:
    """The pattern of a shape.

    Args:
        template: the template.
        roles: role of each turn.
        stops: matches the control tokens of the tokenizer.

    Raises:
        Unproven: the shape has no pattern.
        TemplateRefusal: the template refuses the shape.
    """
    messages = [{"role": role, "content": marker(i)} for i, role in enumerate(roles)]
    rendering = template.render(messages)
    literals, slots = _split(rendering.text)
    if sorted(slots) != list(range(len(roles))) or list(slots) != sorted(slots):
        raise Unproven("contents are dropped, repeated or reordered")
    if any(OPEN in literal or CLOSE in literal for literal in literals):
        raise Unproven("a content is changed")
    trims = _trims(template, roles, literals)
    places = _MarkerPlaces(literals, slots)
    answers = answer_spans(template, messages, rendering, stops, places.starts, places.ends)
    return TemplatePattern(
        literals,
        slots,
        trims,
        tuple(
            (answer.turn, places.of(answer.start), places.of(answer.end), places.of(answer.stop))
            for answer in answers
        ),
        tuple(places.of(end) for end in turn_ends(rendering.text, places.ends, stops)),
    )


def answer_spans(
    template: ChatTemplate,
    messages: Sequence[Message],
    rendering: Rendering,
    stops: re.Pattern[str],
    starts: Sequence[int],
    ends: Sequence[int],
    tools: Any = None,
) -> list[Answer]:
    """The trained text of each assistant turn.

    In a template with generation blocks, the trained text is the block around the content of the turn. The block must
    hold the content and the stop token after it, and no other content. In other templates, the text rendered up to the
    turn with a generation prompt must be a prefix of the full text. The trained text starts after it and ends with the
    first stop token after the content.

    Args:
        template: the template.
        messages, rendering, tools: the conversation, and its rendering with these tools.
        stops: matches the control tokens of the tokenizer.
        starts, ends: span of the content of each turn in the rendered text, in characters, [start, end).

    Raises:
        Unproven: the trained text cannot be proven.
    """
    assistants = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    found = []
    for turn in assistants:
        until = starts[turn + 1] if turn + 1 < len(starts) else len(rendering.text)
        stop = stops.search(rendering.text, ends[turn], until)
        if stop is None:
            raise Unproven("no control token ends the assistant's turn")
        if template.has_generation:
            holding = [(a, b) for a, b in rendering.spans if a <= starts[turn] < b]
            if len(holding) != 1:
                raise Unproven("an assistant turn is in no generation block")
            start, end = holding[0]
            if end < stop.end():
                raise Unproven("the stop token is outside the generation block")
            if (turn and start < ends[turn - 1]) or (turn + 1 < len(starts) and end > starts[turn + 1]):
                raise Unproven("a generation block holds another turn's content")
        else:
            prompt = (
                template.render(messages[:turn], tools=tools, add_generation_prompt=True).text if turn else ""
            )
            if not rendering.text.startswith(prompt) or len(prompt) > starts[turn]:
                raise Unproven("the text before an assistant turn is no prefix of the whole")
            if turn and len(prompt) < ends[turn - 1]:
                raise Unproven("the generation prompt does not hold the turns before it")
            start, end = len(prompt), stop.end()
        found.append(Answer(turn, start, end, stop.start()))
    if template.has_generation and len(rendering.spans) != len(assistants):
        raise Unproven("a generation block holds no assistant turn")
    return found


def turn_ends(text: str, ends: Sequence[int], stops: re.Pattern[str]) -> list[int]:
    """The end of the text of each turn, in characters.

    A turn ends after the first control token behind its content and the white space after that token, or with its
    content, when no control token comes before the next content. The last turn ends with the text.
    """
    found = []
    for i, end in enumerate(ends[:-1]):
        stop = stops.search(text, end, ends[i + 1])
        if stop is None:
            found.append(end)
            continue
        place = stop.end()
        while place < len(text) and text[place].isspace():
            place += 1
        found.append(place if place <= ends[i + 1] and stops.match(text, place) else stop.end())
    return [*found, len(text)]


def _split(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    parts = _MARKER.split(text)
    return tuple(parts[::2]), tuple(int(number) for number in parts[1::2])


def _trims(
    template: ChatTemplate, roles: Sequence[str], literals: Sequence[str]
) -> tuple[tuple[bool, bool], ...]:
    """On which sides of each content the template strips white space: render it around the markers and compare."""
    padded = [{"role": role, "content": PAD + marker(i) + PAD} for i, role in enumerate(roles)]
    try:
        around, _ = _split(template.render(padded).text)
    except TemplateRefusal:
        raise Unproven("the template refuses white space around a content") from None
    if len(around) != len(literals):
        raise Unproven("white space around a content changes the rendering")
    lefts: list[bool] = []
    rights: list[bool] = []
    for i, (literal, seen) in enumerate(zip(literals, around, strict=True)):
        before = [""] if i == 0 else ["", PAD]  # of the slot before this literal, its right side
        after = [""] if i == len(literals) - 1 else ["", PAD]
        fits = [(b, a) for b in before for a in after if b + literal + a == seen]
        if len(fits) != 1:
            raise Unproven("the template strips white space in its own way")
        kept_before, kept_after = fits[0]
        if i:
            rights.append(not kept_before)
        if i < len(literals) - 1:
            lefts.append(not kept_after)
    return tuple(zip(lefts, rights, strict=True))


class _MarkerPlaces:
    """The spans of the markers in the rendered text, and positions relative to the literals."""

    def __init__(self, literals: Sequence[str], slots: Sequence[int]) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        at = 0
        for literal, slot in zip(literals, slots, strict=False):
            at += len(literal)
            self.starts.append(at)
            at += len(marker(slot))
            self.ends.append(at)

    def of(self, position: int) -> Place:
        """The place of a position in the rendered text; raises ``Unproven`` for one inside a marker."""
        for i, start in enumerate(self.starts):
            if position <= start:
                return Place(i, position - (self.ends[i - 1] if i else 0))
            if position < self.ends[i]:
                raise Unproven("a generation block begins or ends inside a content")
        return Place(len(self.starts), position - (self.ends[-1] if self.ends else 0))
