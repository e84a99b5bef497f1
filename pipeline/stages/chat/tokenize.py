"""From conversations to tokens: the rendered text of each, cut into constants and pieces, and its mask.

Two ways lead to the same pieces. Where the template is proven to copy contents only, a shape of conversation is
rendered once and the contents are put in place (``skeleton``). Otherwise each conversation is rendered by the template
itself, and its contents are found in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.arrow_lists import Int64s, owners
from pipeline.errors import TokenizerError
from pipeline.models.chat_template import ChatTemplate, TemplateRefusal
from pipeline.models.template_pattern import Place, TemplatePattern, Unproven, template_pattern, trim_content
from pipeline.models.template_proof import copies_content
from pipeline.models.tokenizer import Tokenizer
from pipeline.reasons import Reason
from pipeline.stages.chat.assemble import END, FIRST, MARKS, PAST, STOP, Encoded, SegmentBatch, assemble
from pipeline.stages.chat.locate import Messages, NotLocated, locate_turns
from pipeline.stages.chat.segments import Constants, ControlTokens, SegmentBuilder, Segments, Side
from pipeline.stages.chat.turns import ASSISTANT, Mask, Turns, role_strings

# The audit: some conversations of every batch go through the template and the reference tokenizer as a
# whole, and must give the same ids and the same mask.


def audit(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    control: ControlTokens,
    writer: Messages,
    encoded: Encoded,
    trained: Mask,
    tools: Sequence[Any] | None,
    conversations: Int64s,
) -> None:
    """Compare. Conversations that spell a control token are left out: there the whole text is meant to differ.

    Raises:
        TokenizerError: ids or mask differ.
    """
    heads = np.cumsum(encoded.lengths) - encoded.lengths
    failed = {i for i, _, _ in encoded.problems}
    for i in conversations.tolist():
        messages, given = writer.messages(i), tools[i] if tools is not None else None
        if i in failed or not encoded.lengths[i] or control.spelled([messages, given]):
            continue
        rendering = template.render(messages, tools=given)
        ids, _, starts, ends = tokenizer.reference.offsets([rendering.text], marked=True)
        place = slice(int(heads[i]), int(heads[i] + encoded.lengths[i]))
        if not np.array_equal(ids, encoded.ids[place]):
            raise _difference("ids")
        if template.has_generation:
            answers = [t for t in writer.span(i) if writer.roles[t] == "assistant"]
            mask = np.zeros(len(ids), np.bool_)
            for t, (first, past) in zip(answers, rendering.spans, strict=True):
                if trained[t]:
                    mask |= (starts < past) & (ends > first)
            if not np.array_equal(mask, encoded.learned[place]):
                raise _difference("mask")


def _difference(what: str) -> TokenizerError:
    return TokenizerError(
        f"an audited conversation has another {what} than the template and the reference tokenizer give",
        where="chat: template",
        expected="equal ids and mask",
        remedy="report the template; no shard of this run is published",
    )


# From conversations to tokens: the rendered text of each, cut into constants and pieces, and its mask.


_NAMES = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "c": "assistant"}
MAX_SHAPES = 4096
"""Most shapes remembered."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """A shape of conversation that is rendered once: its skeleton and plan.

    Attributes:
        targets: int64 [marks], turn * MARKS + kind.
    """

    skeleton: TemplatePattern
    plan: Segments
    targets: Int64s


class ChatTokenizer:
    """Encodes conversations with one template and tokenizer. Not for several threads."""

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self.template, self.tokenizer = template, tokenizer
        self.control = ControlTokens.of(tokenizer)
        self._pieces = tokenizer.altered(continuing=True) if tokenizer.marks_first else tokenizer
        self.constants = Constants(self._pieces)
        self._builder = SegmentBuilder(self.control, self.constants)
        self._copies = copies_content(template.tree)
        self._shapes: dict[str, _Shape | None] = {}

    def encode(
        self,
        turns: Turns,
        trained: Mask,
        tools: Sequence[Any] | None = None,
        audited: Int64s | None = None,
        *,
        whole: bool = False,
    ) -> Encoded:
        """Encode conversations.

        Args:
            turns: the conversations; their contents have been judged.
            trained: bool [turns], turns that are learned.
            whole: whether all of a trained turn is learned, its header too; else what an assistant says.
            tools: tool definitions of each conversation, None where it has none.
            audited: conversations that are rendered and tokenized by the reference as well.
        """
        n = len(turns.counts)
        assembly, problems = SegmentBatch(), list[tuple[int, Reason, str]]()
        writer = Messages.of(turns)
        groups: dict[str, tuple[_Shape, list[int]]] = {}
        single: list[int] = []
        for i, letters in enumerate(role_strings(turns)):
            if not letters or "?" in letters:
                continue
            odd = "c" in letters or "t" in letters or (tools is not None and tools[i] is not None)
            if odd or (shape := self._shape(letters)) is None:
                single.append(i)
            elif self._copies or self._as_shaped(shape, writer, i):
                groups.setdefault(letters, (shape, []))[1].append(i)
            else:
                single.append(i)
        trims = _Trims(writer.contents)
        for shape, members in groups.values():
            self._add_shape(assembly, turns, shape, np.array(members, np.int64), trims)
        for i in single:
            problem = self._add_one(assembly, writer, i, tools[i] if tools is not None else None)
            if problem is not None:
                problems.append((i, *problem))
        assembly.close()
        done = assemble(assembly, self.constants, self._pieces, n, len(turns.roles) * MARKS)
        marks = done.marks.reshape(-1, MARKS)
        spans = _whole_turns(turns, marks) if whole else marks[:, [FIRST, PAST]]
        learned = _learned(turns, trained, done.lengths, spans)
        encoded = Encoded(done.ids, done.lengths, learned, marks, done.plain, problems)
        self._prove(encoded, turns, trained)
        if audited is not None and len(audited) and not whole:
            audit(self.template, self.tokenizer, self.control, writer, encoded, trained, tools, audited)
        return encoded

    # ── by shape ─────────────────────────────────────────────────────────────────────────────────────────
    def _shape(self, letters: str) -> _Shape | None:
        """The shape of these roles, None where each conversation of it is rendered by itself."""
        if letters not in self._shapes:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            self._shapes[letters] = self._new_shape(letters)
        return self._shapes[letters]

    def _new_shape(self, letters: str) -> _Shape | None:
        roles = [_NAMES[letter] for letter in letters]
        if "c" in letters or "t" in letters:
            return None
        try:
            bones = template_pattern(self.template, roles, self.control.pattern)
        except (TemplateRefusal, Unproven):
            return None
        places, targets = mark_places(bones)
        plan = self._builder.build(bones.literals, bones.slots, bones.trims, places)
        return _Shape(bones, plan, np.array(targets, np.int64))

    def _add_shape(
        self, assembly: SegmentBatch, turns: Turns, shape: _Shape, rows: Int64s, trims: _Trims
    ) -> None:
        """Conversations of one shape: contents put between the constants."""
        first = turns.starts[rows]
        texts: list[list[str]] = []
        sizes: list[list[Int64s]] = []
        for segment in shape.plan.segments:
            if isinstance(segment, int):
                continue
            columns, lengths = [], []
            for slot, flags in zip(segment.slots, segment.trims, strict=True):
                index = (first + slot).tolist()
                texts_here, sizes_here = trims.of(flags)
                columns.append([texts_here[i] for i in index])
                lengths.append(sizes_here[first + slot])
            texts.append(_filled(segment.literals, columns))
            sizes.append(lengths)
        targets = (first * MARKS)[:, None] + shape.targets[None, :]
        assembly.add(rows, shape.plan, texts, sizes, targets)

    # ── one by one ───────────────────────────────────────────────────────────────────────────────────────
    def _as_shaped(self, shape: _Shape, writer: Messages, i: int) -> bool:
        """Whether the template renders a conversation as its shape says, text and generation blocks."""
        bones = shape.skeleton
        try:
            rendering = self.template.render(writer.messages(i))
        except TemplateRefusal:
            return False
        contents = writer.texts(i)
        if rendering.text != bones.fill(contents):
            return False
        return not self.template.has_generation or rendering.spans == bones.spans(contents)

    def _add_one(
        self, assembly: SegmentBatch, writer: Messages, i: int, tools: Any
    ) -> tuple[Reason, str] | None:
        """One conversation rendered by the template; what is wrong with it, or None."""
        try:
            located = locate_turns(self.template, writer.messages(i), tools, self.control)
        except TemplateRefusal as refusal:
            return Reason.TEMPLATE_REFUSED, str(refusal)
        except NotLocated as problem:
            return problem.reason, str(problem)
        start = writer.starts[i]
        places: list[tuple[Place, Side]] = []
        targets: list[int] = []
        for turn, end in enumerate(located.ends):
            places.append((Place(0, end), Side.FIRST))
            targets.append((start + turn) * MARKS + END)
        for turn, first, past, stop in located.answers:
            places += [
                (Place(0, first), Side.FIRST),
                (Place(0, past), Side.PAST),
                (Place(0, stop), Side.FIRST),
            ]
            targets += [(start + turn) * MARKS + kind for kind in (FIRST, PAST, STOP)]
        plan = self._builder.build([located.text], [], [], places, keep_texts=False)
        assembly.add_one(i, located.unguarded(plan), targets)
        return None

    # ── proofs on the final ids ──────────────────────────────────────────────────────────────────────────
    def _prove(self, encoded: Encoded, turns: Turns, trained: Mask) -> None:
        """No control id in tokenized text; a learned stop token for each trained turn."""
        owner = owners(encoded.lengths)
        is_control = self.tokenizer.is_control[encoded.ids]
        forged = np.unique(owner[encoded.plain & is_control])
        encoded.problems += [
            (
                int(i),
                Reason.CONTROL_TOKEN_IN_CONTENT,
                "a control token that the tokenizer makes of plain text",
            )
            for i in forged
        ]
        heads = np.cumsum(encoded.lengths) - encoded.lengths
        answers = np.flatnonzero(trained & (encoded.marks[:, STOP] >= 0))
        if len(answers):
            at = heads[turns.owner[answers]] + encoded.marks[answers, STOP]
            bad = ~(is_control[at] & encoded.learned[at])
            encoded.problems += [
                (int(i), Reason.EOS_NOT_SUPERVISED, "the stop token is not learned")
                for i in np.unique(turns.owner[answers[bad]])
            ]


def mark_places(bones: TemplatePattern) -> tuple[list[tuple[Place, Side]], list[int]]:
    """The marks of a skeleton's turns, and for each: turn * MARKS + kind."""
    places: list[tuple[Place, Side]] = []
    targets: list[int] = []
    for turn, end in enumerate(bones.ends):
        places.append((end, Side.FIRST))
        targets.append(turn * MARKS + END)
    for turn, first, past, stop in bones.answers:
        places += [(first, Side.FIRST), (past, Side.PAST), (stop, Side.FIRST)]
        targets += [turn * MARKS + kind for kind in (FIRST, PAST, STOP)]
    return places, targets


def _whole_turns(turns: Turns, marks: Int64s) -> Int64s:
    """First and past the last token of each turn, int64 [turns, 2]; -1 where it has no tokens."""
    spans = np.stack([np.roll(marks[:, END], 1), marks[:, END]], axis=1)
    spans[turns.starts[turns.counts > 0], 0] = 0
    return np.where(marks[:, [END]] >= 0, spans, -1)


def _learned(turns: Turns, trained: Mask, lengths: Int64s, spans: Int64s) -> Mask:
    """bool [tokens]: the spans (int64 [turns, 2]) of the trained turns."""
    change = np.zeros(int(lengths.sum()) + 1, np.int64)
    chosen = np.flatnonzero(trained & (spans[:, 0] >= 0))
    heads = (np.cumsum(lengths) - lengths)[turns.owner[chosen]]
    np.add.at(change, heads + spans[chosen, 0], 1)
    np.add.at(change, heads + spans[chosen, 1], -1)
    learned: Mask = np.greater(np.cumsum(change[:-1]), 0)
    return learned


def _filled(literals: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str]:
    """The texts of a piece in each conversation."""
    if len(columns) == 1:
        before, after = literals
        return [before + text + after for text in columns[0]]
    out = []
    for row in zip(*columns, strict=True):
        parts = [literals[0]]
        for text, literal in zip(row, literals[1:], strict=True):
            parts += [text, literal]
        out.append("".join(parts))
    return out


class _Trims:
    """The contents as the template writes them, each way of trimming made once a batch."""

    def __init__(self, contents: Sequence[str | None]) -> None:
        self._contents = contents
        self._made: dict[tuple[bool, bool], tuple[list[str], Int64s]] = {}

    def of(self, flags: tuple[bool, bool]) -> tuple[list[str], Int64s]:
        """Texts and their bytes."""
        if flags not in self._made:
            texts = [trim_content(text, *flags) if text is not None else "" for text in self._contents]
            sizes = pl.Series(texts, dtype=pl.String).str.len_bytes().to_numpy().astype(np.int64)
            self._made[flags] = texts, sizes
        return self._made[flags]


def trained_turns(turns: Turns, train_on: str) -> Mask:
    """bool [turns]: turns that are learned."""
    if train_on == "all":
        return turns.train
    wanted: Mask = (turns.roles == ASSISTANT) & turns.train
    if train_on == "last_assistant":
        last = np.full(len(turns.counts), -1, np.int64)
        answers = np.flatnonzero(turns.roles == ASSISTANT)
        last[turns.owner[answers]] = answers
        only = np.zeros(len(turns.roles), np.bool_)
        only[last[last >= 0]] = True
        wanted &= only
    return wanted
