"""Ids and masks are those of transformers' apply_chat_template, for the templates of real models."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.models.chat_template import ChatTemplate
from pipeline.models.tokenizer import load
from pipeline.report.template import turns_of
from pipeline.schema.model import Tokenizer as Spec
from pipeline.stages.chat.tokenize import ChatTokenizer, trained_turns
from tests.stages.chat import build
from tests.stages.chat.build import assistant, call, tool, user

pytestmark = [pytest.mark.shared, pytest.mark.filterwarnings("ignore")]
FRAGMENTS = (
    "Hello",
    "world",
    " ",
    "\n",
    "\n\n",
    "é",
    "日本",
    "😀",
    "1234",
    "it's",
    "  two",
    "<b>",
    "\t",
    "user",
    "assistant",
    "Größe",
    "x = [1]\n",
    "\u200d",
    ".",
    "None",
    "{{ x }}",
    "cafe\u0301",
)
PAIRS = (
    ("llama3", "llama3_training", True),
    ("llama3", "llama3", True),
    ("llama3", "llama3_1", True),
    ("qwen2_5", "qwen2_5_training", True),
    ("qwen2_5", "qwen2_5", True),
    ("qwen2_5", "qwen3_training", True),
    ("mistral_v3", None, False),
)


def conversations(count: int, with_system: bool, seed: int) -> list[list[tuple[str, str]]]:
    chance = random.Random(seed)

    def text() -> str:
        while True:
            made = "".join(chance.choice(FRAGMENTS) for _ in range(chance.randint(1, 12)))
            if made.strip():
                return made

    made = []
    for _ in range(count):
        turns = [("system", text())] if with_system and chance.random() < 0.5 else []
        for _ in range(chance.randint(1, 4)):
            turns += [("user", text()), ("assistant", text())]
        made.append(turns)
    return made


@pytest.mark.parametrize(("name", "file", "with_system"), PAIRS)
def test_ids_and_masks_are_transformers(shared: Path, name: str, file: str | None, with_system: bool) -> None:
    from transformers import AutoTokenizer

    folder = shared / "tokenizers"
    tokenizer = load(Spec(path=name), folder)
    source = (
        (folder / "chat_templates" / f"{file}.jinja").read_text("utf-8") if file else tokenizer.chat_template
    )
    assert source is not None
    codec = ChatTokenizer(ChatTemplate(source, name=name, specials=tokenizer.special_texts), tokenizer)
    chats = conversations(120, with_system, seed=len(source))
    turns = turns_of(chats)
    encoded = codec.encode(turns, trained_turns(turns, "assistant"))
    assert encoded.problems == []
    reference = AutoTokenizer.from_pretrained(folder / name)
    ends = np.cumsum(encoded.lengths)
    for chat, begin, end in zip(chats, ends - encoded.lengths, ends, strict=True):
        expected = reference.apply_chat_template(
            [{"role": role, "content": text} for role, text in chat],
            chat_template=source,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=codec.template.has_generation,
        )
        assert encoded.ids[begin:end].tolist() == expected["input_ids"]
        if codec.template.has_generation:
            assert encoded.learned[begin:end].astype(int).tolist() == expected["assistant_masks"]


@pytest.mark.parametrize(
    ("name", "file"), [("qwen2_5", "qwen2_5_training"), ("qwen2_5", "qwen3_training"), ("llama3", "llama3_1")]
)
def test_tool_calls_are_transformers(shared: Path, name: str, file: str) -> None:
    from transformers import AutoTokenizer

    folder = shared / "tokenizers"
    chat = {
        "source": {"format": "openai", "tools": "tools"},
        "grammar": "system? (user (assistant_call tool+)* assistant)+",
        "template": {"file": f"chat_templates/{file}.jinja"},
    }
    definition = {"type": "function", "function": {"name": "get", "description": "d", "parameters": {}}}
    turns: list[dict[str, Any]] = [
        user("weather?"),
        assistant("", tool_calls=[call("get", {"city": 'Kiel "x"'})]),
        tool("sunny é"),
        assistant("It is sunny."),
        user("thanks"),
        assistant("Welcome."),
    ]
    ctx = build.context(chat, tokenizer=name, folder=folder)
    outcome = build.run(
        ctx, build.batch(messages=build.lists([turns, turns]), tools=[json.dumps([definition]), None])
    )
    assert outcome.certified == [0, 1]
    reference = AutoTokenizer.from_pretrained(folder / name)
    source = outcome.encode.codec.template.source
    messages = [{key: value for key, value in turn.items() if value is not None} for turn in turns]
    for row, tools in zip(outcome.rows(), ([definition], None), strict=True):
        mask = outcome.encode.codec.template.has_generation
        expected = reference.apply_chat_template(
            messages,
            tools=tools,
            chat_template=source,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=mask,
        )
        assert row["input_ids"] == expected["input_ids"]
        if mask:
            learned = [int(label != -100) for label in row["labels"]]
            assert learned == expected["assistant_masks"]


def test_the_reported_setup_fails_at_once_and_the_right_template_certifies(
    shared: Path, tmp_path: Path
) -> None:
    from pipeline.errors import TokenizerError

    zephyr = (
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
    )
    path = tmp_path / "zephyr.jinja"
    path.write_text(zephyr, "utf-8")
    source = {"format": "columns", "prompt": "Sentence", "answer": "Description", "system": "Explain."}
    given = build.batch(prompt=["No known drug allergies."], answer=["No medicine is known to do harm."])
    folder = shared / "tokenizers"
    with pytest.raises(TokenizerError) as caught:
        build.run(
            build.context(
                {"source": source, "template": {"file": str(path)}}, tokenizer="llama3", folder=folder
            ),
            given,
        )
    assert "Zephyr" in caught.value.found
    assert "Llama 3" in caught.value.remedy
    outcome = build.run(build.context({"source": source}, tokenizer="llama3", folder=folder), given)
    assert outcome.certified == [0]
    assert outcome.texts()[1] == "No medicine is known to do harm.<|eot_id|>"
