"""The skeleton of a shape: what a template writes around the contents of conversations with the same roles.

A shape is rendered once with marker texts in place of the contents. What stands between the markers is constant; the
contents of a real conversation are put in their place. The mask is found the same way: from the template's generation
blocks, or from the proven prefix that a generation prompt makes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.models.chat_template import ChatTemplate, Message, Rendering, TemplateRefusal

OPEN, CLOSE = "\ue000", "\ue001"
PAD = " \n\t\u3000"
"""White space put around a marker to see whether the template trims."""

_MARKER = re.compile(f'{OPEN}([0-9]+)aA"\\\\\n<{CLOSE}')

WHITE_SPACE = "".join(chr(i) for i in range(0x3001) if chr(i).isspace())
"""What Jinja's ``trim`` strips: Python's white space."""


class Unproven(Exception):
    """The shape has no skeleton: contents are changed, reordered or repeated, or the mask cannot be proven."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the rendered text: so many characters into the literal before a slot (or after the last)."""

    literal: int
    offset: int


@dataclass(frozen=True, slots=True)
class TemplatePattern:
    """What a template writes for one shape.

    Attributes:
        literals: constant texts, one more than slots: before the first slot, between two, after the last.
        slots: turn whose content stands in each slot.
        trims: for each slot, whether white space before and after the content is stripped.
        answers: for each assistant turn: the turn, first and past the last place of what is trained, and the place
            of the stop token in it.
        ends: for each turn, the place where what belongs to it ends.
    """

    literals: tuple[str, ...]
    slots: tuple[int, ...]
    trims: tuple[tuple[bool, bool], ...]
    answers: tuple[tuple[int, Place, Place, Place], ...]
    ends: tuple[Place, ...]

    def fill(self, contents: Sequence[str]) -> str:
        """The rendered text of a conversation with these contents, one a turn."""
        out = [self.literals[0]]
        for slot, (left, right), literal in zip(self.slots, self.trims, self.literals[1:], strict=True):
            out.append(trim_content(contents[slot], left, right))
            out.append(literal)
        return "".join(out)

    def heads(self, contents: Sequence[str]) -> list[int]:
        """First character of each literal in the rendered text of a conversation with these contents."""
        heads = [0]
        for slot, trims, literal in zip(self.slots, self.trims, self.literals, strict=False):
            heads.append(heads[-1] + len(literal) + len(trim_content(contents[slot], *trims)))
        return heads

    def spans(self, contents: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """First and one past the last character of what is trained, in the rendered text of these contents."""
        heads = self.heads(contents)
        return tuple(
            (heads[first.literal] + first.offset, heads[past.literal] + past.offset)
            for _, first, past, _ in self.answers
        )


def trim_content(text: str, left: bool, right: bool) -> str:
    """The text as the template writes it."""
    if left and right:
        return text.strip()
    return text.lstrip() if left else text.rstrip() if right else text


def marker(turn: int) -> str:
    """A text that no filter but trimming leaves as it is."""
    return f'{OPEN}{turn}aA"\\\n<{CLOSE}'


@dataclass(frozen=True, slots=True)
class Answer:
    """What is trained of an assistant turn, in characters of the rendered text: first, one past the last, and the
    first of its stop token."""

    turn: int
    start: int
    end: int
    stop: int


def template_pattern(template: ChatTemplate, roles: Sequence[str], stops: re.Pattern[str]) -> TemplatePattern:
    """The skeleton of a shape.

    Args:
        template: the template.
        roles: role of each turn.
        stops: matches the control tokens of the tokenizer.

    Raises:
        Unproven: there is none.
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
    """What is trained of each assistant turn.

    With generation blocks, a block belongs to the assistant turn whose content it holds, and must hold it whole, with
    the stop token after it, and no other content. Without, the text rendered up to a turn with a generation prompt
    must be a prefix of the whole; the trained part then ends with the first stop token after the content.

    Args:
        starts, ends: first and one past the last character of each turn's content in the rendered text.

    Raises:
        Unproven: neither way holds.
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
    """Where each turn's text ends: after the first control token behind its content and the white space after that;
    at the content where no control token follows before the next one. The last turn ends with the text."""
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
    """Render with white space around the markers and see on which sides it is gone."""
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
    """Where the markers stand in the rendered text, and each place relative to them."""

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
        """A position that is not inside a marker: it belongs to the literal it stands in or ends."""
        for i, start in enumerate(self.starts):
            if position <= start:
                return Place(i, position - (self.ends[i - 1] if i else 0))
            if position < self.ends[i]:
                raise Unproven("a generation block begins or ends inside a content")
        return Place(len(self.starts), position - (self.ends[-1] if self.ends else 0))
