"""Judge the contents of turns, and make the repairs that the schema allows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import polars as pl

from pipeline.arrow_lists import Int64s
from pipeline.batch import Batch, Findings
from pipeline.fields import Content
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import ChatSchema
from pipeline.stages.chat.turns import ASSISTANT, ROLES, Mask, Turns, clip, turn_findings
from pipeline.values.text_checks import DOUBLE_ENCODED, repair_mojibake

# What counts as blank: a text of which nothing can be seen.


BLANK = r"^[\s\p{Cc}\p{Cf}\u{115F}\u{1160}\u{2800}\u{3164}\u{FFA0}]*$"
"""White space, control and format characters (zero-width ones), and the blank letters of Hangul and Braille. A
template that trims would leave nothing of such a text."""


def blank(texts: pl.Series) -> Mask:
    """bool [n], true for texts that are there and blank."""
    found: Mask = texts.str.contains(BLANK).fill_null(False).to_numpy()
    return found


def visible(texts: pl.Series) -> Mask:
    """bool [n], true for texts that are there and not blank."""
    found: Mask = (~texts.str.contains(BLANK)).fill_null(False).to_numpy()
    return found


# Contents written as lists of parts: text parts are joined, anything else cannot be trained in a text set.


TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
"""Types of text parts in OpenAI's and LLaMA-Factory's lists."""


def joined(written: str) -> tuple[str | None, int, str]:
    """The text of a JSON list of parts, the number of parts, and what is wrong with it ("" for nothing).

    A part that is no text is named by its type (``image_url``); a list that is no list of parts by ``a list``.
    """
    try:
        parts = msgspec.json.decode(written)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None, 0, "a list"
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return None, 0, "a list"
    texts = []
    for part in parts:
        kind = str(part.get("type"))
        text = _text(part)
        if kind not in TEXT_TYPES:
            return None, len(parts), kind
        if text is None:
            return None, len(parts), "a list"
        texts.append(text)
    return "".join(texts), len(parts), ""


def _text(part: dict[str, Any]) -> str | None:
    value = part.get("text", part.get("value"))
    return value if isinstance(value, str) else None


# What a rendered chat looks like: content that is one already would be wrapped in the template a second
# time.


KNOWN = (
    ("<|im_start|>user", "<|im_start|>assistant"),
    ("<|start_header_id|>user<|end_header_id|>", "<|start_header_id|>assistant<|end_header_id|>"),
    ("<start_of_turn>user", "<start_of_turn>model"),
    ("<|user|>", "<|assistant|>"),
    ("[INST]", "[/INST]"),
    ("<｜User｜>", "<｜Assistant｜>"),
)
"""What opens a user's and an assistant's turn in the templates of ChatML (Qwen), Llama 3, Gemma, Zephyr and Phi,
Llama 2 and Mistral, and DeepSeek."""


@dataclass(frozen=True, slots=True)
class RenderedText:
    """The marks of a rendered chat.

    Attributes:
        own: what opens a user's and an assistant's turn in the schema's own template, or None.
        bos: the start token, or "".
    """

    own: tuple[str, str] | None
    bos: str = ""

    @property
    def opens(self) -> tuple[str, ...]:
        """Texts one of which every rendered chat holds."""
        return tuple(dict.fromkeys([*([self.own[0]] if self.own else []), *(user for user, _ in KNOWN)]))

    def found_in(self, text: str) -> str:
        """The mark by which a text is a rendered chat, "" when it is none.

        In the own template's marks, both turns anywhere; in another's, the text must begin with one (after a start
        token), so that a question about templates is no rendered chat.
        """
        if self.own is not None and self.own[0] in text and self.own[1] in text:
            return self.own[0]
        head = text.lstrip()
        for start in (self.bos, "<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>"):
            if start and head.startswith(start):
                head = head[len(start) :].lstrip()
                break
        for user, assistant in KNOWN:
            system = user.replace("user", "system").replace("User", "System")
            if head.startswith((user, system)) and user in text and assistant in text:
                return user
        return ""


# Judge the contents of turns, and make the repairs that the schema allows. Each change is a finding.


LIST_WRITTEN = r"""^\s*\[\s*\{\s*['"]type['"]\s*:\s*['"](?:text|image|image_url|audio|input_text)['"]"""
"""The repr of a list of parts, standing where text should."""
INVALID = "[\x00\ufffd]"


@dataclass(slots=True)
class ContentJudge:
    """The rules on contents.

    Attributes:
        schema: gives policies and limits.
        control: texts of the tokenizer's control tokens.
        rendered: knows what a rendered chat looks like.
        skip: columns whose turns another call judges (the shared prompt of preference pairs).
    """

    schema: ChatSchema
    control: tuple[str, ...]
    rendered: RenderedText
    _control: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        longest = sorted(self.control, key=lambda t: (-len(t), t))
        self._control = re.compile("|".join(map(re.escape, longest))) if longest else None

    def __call__(self, batch: Batch, turns: Turns, findings: Findings, skip: tuple[str, ...] = ()) -> Turns:
        """The turns with repaired contents; turns from the columns ``skip`` are repaired, but not reported."""
        mute = np.isin(turns.origins, [i for i, name in enumerate(turns.columns) if name in skip])
        look = _Look(batch, turns, findings, mute, self.schema)
        turns = self._kinds(look)
        look = look.at(turns)
        self._blank(look)
        turns = self._unicode(look)
        turns = self._mojibake(look.at(turns))
        look = look.at(turns)
        self._control_tokens(look)
        self._already_rendered(look)
        self._think_tags(look)
        self._lengths(look)
        return turns

    # ── what stands where text should ────────────────────────────────────────────────────────────────────
    def _kinds(self, look: _Look) -> Turns:
        turns = look.turns
        kinds = turns.frame["content_kind"]
        calls = turns.calls
        empty = kinds.is_in([Content.MISSING.value, Content.NULL.value]).fill_null(False).to_numpy() & ~calls
        look.add(Reason.CONTENT_EMPTY, empty, "nothing", "text")
        for kind, words in ((Content.BOOLEAN, "a boolean"), (Content.OBJECT, "an object")):
            look.add(
                Reason.CONTENT_NOT_TEXT, (kinds == kind.value).fill_null(False).to_numpy(), words, "text"
            )
        numbers = (kinds == Content.NUMBER.value).fill_null(False).to_numpy()
        look.add(Reason.CONTENT_AS_SHOWN, numbers, look.shown(numbers))
        repr_ = turns.content.str.contains(LIST_WRITTEN).fill_null(False).to_numpy()
        text = (kinds == Content.TEXT.value).fill_null(True).to_numpy()
        look.add(Reason.CONTENT_NOT_TEXT, repr_ & text, "the text of a list of parts", "text")
        return self._parts(look, (kinds == Content.PARTS.value).fill_null(False).to_numpy())

    def _parts(self, look: _Look, listed: Mask) -> Turns:
        turns = look.turns
        hits = np.flatnonzero(listed)
        if not len(hits):
            return turns
        results = [joined(text or "") for text in turns.content[pl.Series(hits)].to_list()]
        bad = np.array([text is None for text, _, _ in results])
        images = np.array([bool(problem) and problem != "a list" for _, _, problem in results])
        problems = [clip(problem) for _, _, problem in results]
        look.add_at(
            Reason.CONTENT_UNSUPPORTED_PART,
            hits[images],
            [p for p, i in zip(problems, images, strict=True) if i],
            "text",
        )
        plain = bad & ~images
        look.add_at(Reason.CONTENT_NOT_TEXT, hits[plain], "a list", "text, or a list of text parts")
        counts = [str(n) for (_, n, _), b in zip(results, bad, strict=True) if not b]
        look.add_at(Reason.CONTENT_PARTS_JOINED, hits[~bad], counts)
        texts = pl.Series([text for text, _, _ in results], dtype=pl.String)
        return turns.with_content(turns.content.scatter(pl.Series(hits), texts))

    def _blank(self, look: _Look) -> None:
        unseen = blank(look.turns.content) & ~look.turns.calls
        look.add(Reason.CONTENT_EMPTY, unseen, "white space", "text")

    # ── characters ───────────────────────────────────────────────────────────────────────────────────────
    def _unicode(self, look: _Look) -> Turns:
        turns = look.turns
        bad = turns.content.str.contains(INVALID).fill_null(False).to_numpy()
        if not bad.any():
            return turns
        shown = [
            "NUL" if "\x00" in text else "U+FFFD" for text in turns.content.filter(pl.Series(bad)).to_list()
        ]
        look.add(Reason.TEXT_INVALID_UNICODE, bad, shown)
        if look.policy(Reason.TEXT_INVALID_UNICODE) is not Policy.REPAIR:
            return turns
        return turns.with_content(turns.content.str.replace_all("\x00", "", literal=True))

    def _mojibake(self, look: _Look) -> Turns:
        turns = look.turns
        hits = np.flatnonzero(turns.content.str.contains(DOUBLE_ENCODED).fill_null(False).to_numpy())
        found = {
            i: repair_mojibake(text)
            for i, text in zip(hits.tolist(), turns.content[pl.Series(hits)].to_list(), strict=True)
        }
        proven = {i: pair for i, pair in found.items() if pair is not None}
        at = np.array(list(proven), np.int64)
        look.add_at(Reason.MOJIBAKE_SUSPECTED, at, [clip(run) for _, run in proven.values()])
        if not len(at) or look.policy(Reason.MOJIBAKE_SUSPECTED) is not Policy.REPAIR:
            return turns
        fixed = pl.Series([text for text, _ in proven.values()], dtype=pl.String)
        return turns.with_content(turns.content.scatter(pl.Series(at), fixed))

    # ── control ──────────────────────────────────────────────────────────────────────────────────────────
    def _control_tokens(self, look: _Look) -> None:
        if self._control is None:
            return
        content = look.turns.content
        bad = content.str.contains_any(list(self.control)).fill_null(False).to_numpy()
        hits = [self._control.search(text) for text in content.filter(pl.Series(bad)).to_list()]
        look.add(Reason.CONTROL_TOKEN_IN_CONTENT, bad, [m.group() if m else "" for m in hits])

    def _already_rendered(self, look: _Look) -> None:
        content = look.turns.content
        suspects = np.flatnonzero(
            content.str.contains_any(list(self.rendered.opens)).fill_null(False).to_numpy()
        )
        shown = {i: self.rendered.found_in(content[i]) for i in suspects.tolist()}
        hits = {i: words for i, words in shown.items() if words}
        look.add_at(Reason.ALREADY_RENDERED, np.array(list(hits), np.int64), list(hits.values()))

    def _think_tags(self, look: _Look) -> None:
        content = look.turns.content
        opened = content.str.count_matches("<think>", literal=True).fill_null(0).to_numpy()
        closed = content.str.count_matches("</think>", literal=True).fill_null(0).to_numpy()
        bad = (opened != closed) & (look.turns.roles == ASSISTANT)
        shown = [f"{a} <think> and {b} </think>" for a, b in zip(opened[bad], closed[bad], strict=True)]
        look.add(Reason.THINK_TAGS_UNBALANCED, bad, shown)

    # ── lengths ──────────────────────────────────────────────────────────────────────────────────────────
    def _lengths(self, look: _Look) -> None:
        if not (limits := self.schema.chat.role_limits):
            return
        lengths = look.turns.content.str.len_chars().fill_null(0).to_numpy().astype(np.int64)
        there = look.turns.content.is_not_null().to_numpy()
        for role, limit in limits.items():
            mine = there & (look.turns.roles == ROLES.index(role))
            for reason, bound, bad in (
                (Reason.TEXT_TOO_SHORT, limit.min_characters, lengths < (limit.min_characters or 0)),
                (Reason.TEXT_TOO_LONG, limit.max_characters, lengths > (limit.max_characters or 2**62)),
            ):
                if bound is not None:
                    hits = np.flatnonzero(mine & bad)
                    look.add_at(reason, hits, [str(n) for n in lengths[hits].tolist()], str(bound))


@dataclass(frozen=True, slots=True)
class _Look:
    """The turns under judgement, and where findings on them go."""

    batch: Batch
    turns: Turns
    findings: Findings
    mute: Mask
    schema: ChatSchema

    def at(self, turns: Turns) -> _Look:
        return _Look(self.batch, turns, self.findings, self.mute, self.schema)

    def policy(self, reason: Reason) -> Policy:
        return self.schema.policy(reason)

    def shown(self, hits: Mask) -> list[str]:
        """The contents of some turns, clipped."""
        return [clip(text or "") for text in self.turns.content.filter(pl.Series(hits)).to_list()]

    def add(self, reason: Reason, bad: Mask, found: list[str] | str = "", expected: str = "") -> None:
        """A finding for each turn where ``bad`` (bool [turns]) is true."""
        self.add_at(reason, np.flatnonzero(bad), found, expected)

    def add_at(self, reason: Reason, hits: Int64s, found: list[str] | str = "", expected: str = "") -> None:
        """A finding for each of the turns."""
        if not len(hits):
            return
        if self.mute.any():
            keep = ~self.mute[hits]
            if not isinstance(found, str):
                found = [text for text, kept in zip(found, keep.tolist(), strict=True) if kept]
            hits = hits[keep]
        turn_findings(
            self.findings, self.batch, self.turns, hits, reason, self.policy(reason), found, expected
        )
