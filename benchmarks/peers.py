"""What a user would otherwise run, and the floor: each a command of its own (``python -m benchmarks.peers NAME …``).

``chat``: pandas.read_excel → datasets.map(apply_chat_template) → map(tokenizer). ``layout``: load_dataset → map with
the LayoutLMv3 tokenizer. ``chat-floor`` and ``layout-floor``: the bare tokenizers call on text that is rendered, or
words that are split, already.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

SYSTEM = "You explain clinical sentences in plain language."
LABELS = ("O", "B-KEY", "I-KEY", "B-VALUE", "I-VALUE")


def chat(xlsx: str, tokenizer_dir: str) -> int:
    """The usual script for a spreadsheet; the assistant mask is asked for, as supervised fine-tuning needs it."""
    import pandas as pd
    from datasets import Dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    data = Dataset.from_pandas(pd.read_excel(xlsx))

    def render(row: dict[str, Any]) -> dict[str, str]:
        turns = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": row["Sentence"]},
            {"role": "assistant", "content": row["Description"]},
        ]
        return {"text": tokenizer.apply_chat_template(turns, tokenize=False)}

    def encode(batch: dict[str, list[str]]) -> dict[str, Any]:
        encoded = tokenizer(batch["text"], truncation=True, max_length=1024, add_special_tokens=False)
        return {"input_ids": encoded["input_ids"], "labels": encoded["input_ids"]}

    with tempfile.TemporaryDirectory() as folder:
        data = data.map(render, cache_file_name=f"{folder}/a.arrow")
        data = data.map(encode, batched=True, cache_file_name=f"{folder}/b.arrow")
        data.save_to_disk(f"{folder}/out")
        return sum(len(ids) for ids in data["input_ids"])


def layout(jsonl: str, tokenizer_dir: str) -> int:
    """The usual script for forms: boxes scaled, words tokenized with boxes and labels."""
    from datasets import load_dataset
    from transformers import LayoutLMv3TokenizerFast

    tokenizer = LayoutLMv3TokenizerFast.from_pretrained(tokenizer_dir)
    ids = {name: i for i, name in enumerate(LABELS)}

    def encode(batch: dict[str, list[Any]]) -> Any:
        boxes = [
            [
                [int(1000 * x0 / w), int(1000 * y0 / h), int(1000 * x1 / w), int(1000 * y1 / h)]
                for x0, y0, x1, y1 in page
            ]
            for page, w, h in zip(batch["bboxes"], batch["width"], batch["height"], strict=True)
        ]
        labels = [[ids[label] for label in page] for page in batch["labels"]]
        return tokenizer(
            batch["words"],
            boxes=boxes,
            word_labels=labels,
            truncation=True,
            max_length=512,
            stride=128,
            return_overflowing_tokens=True,
        )

    with tempfile.TemporaryDirectory() as folder:
        data = load_dataset("json", data_files=jsonl, split="train", cache_dir=folder)
        data = data.map(
            encode, batched=True, remove_columns=data.column_names, cache_file_name=f"{folder}/a.arrow"
        )
        data.save_to_disk(f"{folder}/out")
        return sum(len(ids) for ids in data["input_ids"])


def chat_floor(rendered: str, tokenizer_dir: str) -> int:
    """``encode_batch`` of rendered texts, nothing else; ids, one thread."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(tokenizer_dir) / "tokenizer.json"))
    texts = json.loads(Path(rendered).read_text("utf-8"))
    return sum(
        len(e.ids)
        for start in range(0, len(texts), 1000)
        for e in tokenizer.encode_batch(texts[start : start + 1000], add_special_tokens=False)
    )


def layout_floor(words: str, tokenizer_dir: str) -> int:
    """``encode_batch`` of pages of words, nothing else."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(tokenizer_dir) / "tokenizer.json"))
    pages = json.loads(Path(words).read_text("utf-8"))
    return sum(
        len(e.ids)
        for start in range(0, len(pages), 1000)
        for e in tokenizer.encode_batch(pages[start : start + 1000], is_pretokenized=True)
    )


JOBS = {"chat": chat, "layout": layout, "chat-floor": chat_floor, "layout-floor": layout_floor}

if __name__ == "__main__":
    print(JOBS[sys.argv[1]](*sys.argv[2:]))
