"""Judge the contents of turns, and make the repairs that the schema allows. Each change is a finding."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from pipeline.arrays import Int64s
from pipeline.batch import Batch, Findings
from pipeline.fields import Content
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.stages.chat.blank import blank
from pipeline.stages.chat.parts import joined
from pipeline.stages.chat.rendered import RenderedText
from pipeline.stages.chat.report import clip, report_turns
from pipeline.stages.chat.turns import ASSISTANT, ROLES, Mask, Turns
from pipeline.stages.mojibake import CANDIDATE, mojibake

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

    schema: Schema
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
        hits = np.flatnonzero(turns.content.str.contains(CANDIDATE).fill_null(False).to_numpy())
        found = {
            i: mojibake(text)
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
        chat = self.schema.chat
        if chat is None or not chat.role_limits:
            return
        lengths = look.turns.content.str.len_chars().fill_null(0).to_numpy().astype(np.int64)
        there = look.turns.content.is_not_null().to_numpy()
        for role, limit in chat.role_limits.items():
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
    schema: Schema

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
        report_turns(
            self.findings, self.batch, self.turns, hits, reason, self.policy(reason), found, expected
        )
