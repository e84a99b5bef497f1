"""The ``chat:`` section: where the turns are, how they must follow each other, and how they become tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field as Is

from pipeline.schema.columns import Strict


class FromColumn(Strict):
    """A value read from each record."""

    column: str
    optional: bool = True


class Columns(Strict):
    """One exchange a row: a spreadsheet with a prompt and an answer column."""

    format: Literal["columns"]
    prompt: str
    answer: str
    system: str | FromColumn | None = None
    """A constant, or a column."""


class Messages(Strict):
    """A list of turns: ``messages``, OpenAI, ShareGPT (``from``/``value``); as JSON inside a cell, too."""

    format: Literal["messages", "sharegpt", "openai"]
    column: str = "messages"
    system: str | FromColumn | None = None
    """System prompt of conversations that have no system turn."""
    tools: str | None = None
    """Field with the tool definitions."""


class Alpaca(Strict):
    """instruction / input / output; the input may be blank."""

    format: Literal["alpaca"]
    instruction: str = "instruction"
    input: str | None = "input"
    output: str = "output"
    system: str | FromColumn | None = None
    history: str | None = None
    joiner: str = "\n\n"
    """Text between instruction and input."""


class PromptCompletion(Strict):
    """prompt / completion, each a text or a list of turns."""

    format: Literal["prompt_completion"]
    prompt: str = "prompt"
    completion: str = "completion"
    system: str | FromColumn | None = None


class Preference(Strict):
    """A conversation with a chosen and a rejected answer, for DPO. Answers that hold the whole conversation may
    repeat the prompt; without a `prompt`, it is what the two have in common."""

    format: Literal["preference"]
    prompt: str | None = "prompt"
    chosen: str = "chosen"
    rejected: str = "rejected"
    system: str | FromColumn | None = None


class Tree(Strict):
    """A message tree (OpenAssistant): each root-to-leaf path, or the best-ranked one."""

    format: Literal["tree"]
    column: str = "prompt"
    replies: str = "replies"
    text: str = "text"
    role: str = "role"
    rank: str = "rank"
    paths: Literal["all", "best"] = "all"


Source = Annotated[
    Columns | Messages | Alpaca | PromptCompletion | Preference | Tree, Is(discriminator="format")
]


class Template(Strict):
    """The chat template: the tokenizer's own by default."""

    file: str | None = None
    """A pinned .jinja file, relative to the schema."""
    date: str | None = None
    """Date that the template renders as today's, so that shards are reproducible."""


class RoleLimit(Strict):
    """Length of one turn of a role."""

    min_characters: int | None = None
    max_characters: int | None = None


class Packing(Strict):
    """Several conversations in one sequence, with position ids and boundaries (best-fit bins)."""

    capacity: Annotated[int, Is(ge=2)]


class Chat(Strict):
    """A conversation."""

    source: Source
    aliases: dict[str, str] = {"human": "user", "gpt": "assistant"}
    """Other names of roles; case and surrounding white space do not count. A format's own names are known: ShareGPT's
    ``function_call`` and ``observation``, OpenAI's ``developer`` and ``function``, OpenAssistant's ``prompter``."""
    grammar: str = "system? (user assistant)+"
    """Turn grammar: role names, ``?``, ``+``, ``*``, ``|`` and brackets; ``assistant_call`` is an assistant turn
    that calls tools."""
    role_limits: dict[str, RoleLimit] = {}
    train_on: Literal["assistant", "last_assistant", "all"] = "assistant"
    max_tokens: Annotated[int, Is(ge=2)]
    too_long: Literal["quarantine", "truncate_prompt", "truncate_answer", "error"] = "quarantine"
    """What becomes of a conversation whose last exchange does not fit."""
    drop_oldest_turns: bool = True
    """Whether the oldest user/assistant pairs go first."""
    template: Template = Template()
    packing: Packing | None = None
