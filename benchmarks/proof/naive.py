"""What a usual training script makes of a raw record: no checks, the library's own calls.

Anything it raises is a result as well: the job dies in the data loader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.proof.documents import LABELS
from benchmarks.proof.hazard import Record

Arrays = dict[str, npt.NDArray[Any]]
WIDTH = 512


class Documents:
    """LayoutLMv3 preparation: scale, tokenize word by word, label the first sub-word, cut and pad to 512."""

    def __init__(self, tokenizer: Path, raw: Path) -> None:
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
        self._raw = raw

    def __call__(self, record: Record) -> Arrays:
        from PIL import Image

        image = Image.open(self._raw / record["image"]).convert("RGB").resize((224, 224))
        size = np.array([record["width"], record["height"]] * 2, np.float64)
        with np.errstate(all="ignore"):
            boxes = (np.array(record["bboxes"], np.float64) / size * 1000).astype(np.int64)
        ids, places, tags = [0], [[0, 0, 0, 0]], [-100]
        for word, box, label in zip(
            record["words"], boxes.reshape(-1, boxes.shape[-1]), record["labels"], strict=False
        ):
            pieces = self._tokenizer.encode(" " + word, add_special_tokens=False).ids
            ids += pieces
            places += [box.tolist()] * len(pieces)
            tag = LABELS.index(label) if isinstance(label, str) else label
            tags += [tag, *[-100] * (len(pieces) - 1)][: len(pieces)]
        # The limit most scripts give is the config's max_position_embeddings minus 2, or none at all.
        n = max(len(ids), 2)
        width = WIDTH if n < WIDTH else n
        return {
            "input_ids": _pad(ids, width, 1),
            "attention_mask": _pad([1] * len(ids), width, 0),
            "bbox": _pad(places, width, [0, 0, 0, 0]),
            "labels": _pad([int(tag) for tag in tags], width, -100),
            "pixel_values": np.asarray(image, np.uint8).transpose(2, 0, 1),
        }


class Chats:
    """Chat preparation: the tokenizer's template over everything, the prompt masked by its length."""

    def __init__(self, tokenizer: Path) -> None:
        import transformers

        self._tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(str(tokenizer))

    def __call__(self, record: Record) -> Arrays:
        messages = record["messages"]
        whole = self._render(messages)
        prompt = self._render(messages[:-1], add_generation_prompt=True) if len(messages) > 1 else []
        labels = [-100] * min(len(prompt), len(whole)) + whole[len(prompt) :]
        return rows(whole, labels, [1] * len(whole))

    def _render(self, messages: Any, **how: Any) -> list[int]:
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, **how)
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])


def tokenized(record: Record) -> Arrays:
    """Rows that are tokenized already go to the collator as they are."""
    return rows(record["input_ids"], record["labels"], record["attention_mask"])


def rows(ids: list[int], labels: list[int], mask: list[int]) -> Arrays:
    """One row padded as ``DataCollatorForSeq2Seq`` does; one width for all three, or it raises."""
    if len(ids) != len(labels):
        raise ValueError("expected sequences of equal length")
    width = max(256, len(ids))
    return {
        "input_ids": _pad(ids, width, 2),
        "attention_mask": _pad(mask, width, 0),
        "labels": _pad(labels, width, -100),
    }


def _pad(values: Any, width: int, pad: Any) -> npt.NDArray[np.int64]:
    return np.array([*values, *[pad] * (width - len(values))], np.int64)
