"""The report on a chat template: the verdict of each check, and a sample conversation coloured by what is learned."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.fields import message_dtype
from pipeline.models.template_check import TemplateProof, Verdict
from pipeline.stages.chat.read import listed
from pipeline.stages.chat.tokenize import ChatTokenizer, trained_turns
from pipeline.stages.chat.turns import ROLES, Turns

SAMPLE = (
    ("system", "You explain terms in one sentence."),
    ("user", "What is a reef?"),
    ("assistant", "A ridge of rock or coral just below the surface."),
    ("user", "And STOP in a text?"),
    ("assistant", "Plain text."),
)


@dataclass(frozen=True, slots=True)
class PreviewToken:
    """Consecutive tokens of one sort, with their text.

    Attributes:
        text: the text that the tokens decode to.
        learned: whether the loss counts them.
        control: whether they are control tokens of the tokenizer.
    """

    text: str
    learned: bool
    control: bool


def turns_of(conversations: Sequence[Sequence[tuple[str, str]]]) -> Turns:
    """The turns of conversations of (role, content)."""
    names = [field.name for field in message_dtype().fields]
    rows = [
        [
            dict.fromkeys(names) | {"role": role, "content": text, "content_kind": "text"}
            for role, text in turns
        ]
        for turns in conversations
    ]
    series = pl.Series("messages", rows, dtype=pl.List(message_dtype()))
    return listed(series, "messages", {role: role for role in ROLES})


def preview(proof: TemplateProof, *, with_system: bool = True) -> list[PreviewToken]:
    """The tokens of the sample conversation.

    Args:
        proof: of the template on its tokenizer.
        with_system: whether the conversation starts with a system turn.

    Raises:
        TokenizerError: ids or mask differ from those of the whole rendered text and the reference tokenizer.
    """
    plain = [turn for turn in SAMPLE if with_system or turn[0] != "system"]
    stop = proof.tokenizer.special_texts.get("eos", "")
    conversation = [(role, text.replace("STOP", stop)) for role, text in plain]
    turns = turns_of([conversation, plain])
    tokenizer = ChatTokenizer(proof.template, proof.tokenizer)
    encoded = tokenizer.encode(turns, trained_turns(turns, "assistant"), audited=np.array([1]))
    length = int(encoded.lengths[0])
    ids, learned = encoded.ids[:length], encoded.learned[:length]
    control = proof.tokenizer.is_control[ids]
    edges = np.flatnonzero(np.diff(learned.astype(int) * 2 + control)) + 1
    bounds = [0, *edges.tolist(), length]
    return [
        PreviewToken(proof.tokenizer.decode(ids[a:b]), bool(learned[a]), bool(control[a]))
        for a, b in itertools.pairwise(bounds)
        if b > a
    ]


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """Print one line per check of the template."""
    table = Table("probe", "verdict", "seen")
    for verdict in verdicts:
        mark = Text("failed", "bold red") if verdict.error is not None else Text("ok", "green")
        table.add_row(verdict.name, mark, Text(verdict.text))
    console.print(table)


def print_sample(tokens: Iterable[PreviewToken], console: Console) -> None:
    """Print the sample: learned text green, control tokens bold, other text dim."""
    text = Text()
    for token in tokens:
        style = "green" if token.learned else "dim"
        text.append(token.text, f"bold {style}" if token.control else style)
    console.print(Text("learned", "green"), Text("given", "dim"), Text("control token", "bold"), sep=" · ")
    console.print(text)
