"""What stands before the page's tokens in every window: the start token, and a question with its separators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.arrays import within
from pipeline.batch import Batch, Int64s
from pipeline.errors import TokenizerError
from pipeline.models.families import FAMILIES, Limits
from pipeline.models.tokenizer import Tokenizer

Int32s = npt.NDArray[np.int32]
Float64s = npt.NDArray[np.float64]
QUESTION = "@question"


@dataclass(frozen=True, slots=True)
class Prefix:
    """Tokens before the page, of each record.

    Attributes:
        ids: int32, all prefixes end to end; ``boxes`` float64 [ids, 4].
        lengths: int64 [records].
    """

    ids: Int32s
    boxes: Float64s
    lengths: Int64s

    def of_windows(self, records: Int64s) -> tuple[Int64s, Int64s]:
        """For windows of these records: places in ``ids`` of their prefix tokens, end to end; and the counts."""
        lengths = self.lengths[records]
        starts = (np.cumsum(self.lengths) - self.lengths)[records]
        return np.repeat(starts, lengths) + within(lengths), lengths


def special_ends(tokenizer: Tokenizer) -> tuple[int, int]:
    """The token before and the one after every window.

    Raises:
        TokenizerError: the tokenizer has none.
    """
    if tokenizer.cls_id is None or tokenizer.sep_id is None:
        raise TokenizerError(
            "a document model's tokenizer needs a cls and a sep token", where=tokenizer.name,
            found=f"cls {tokenizer.cls_id}, sep {tokenizer.sep_id}", remedy="use the model's own tokenizer",
        )  # fmt: skip
    return tokenizer.cls_id, tokenizer.sep_id


def plain_prefix(tokenizer: Tokenizer, limits: Limits, records: int) -> Prefix:
    """The start token alone."""
    opening, _ = special_ends(tokenizer)
    boxes = np.tile(np.array(limits.cls_box, float), (records, 1))
    return Prefix(np.full(records, opening, np.int32), boxes, np.ones(records, np.int64))


def question_prefix(batch: Batch, tokenizer: Tokenizer, limits: Limits) -> Prefix:
    """Start token, question and separators: ``<s> q </s></s>`` or ``[CLS] q [SEP]``. A question's tokens have the box
    of a pad, as the families' own tokenizers give them."""
    opening, sep = special_ends(tokenizer)
    seps = FAMILIES[limits.family].question_seps if limits.family is not None else 1
    # The question is split at white space like the words of a page, as transformers' document tokenizers do.
    words = batch.frame[QUESTION].str.extract_all(r"\S+")
    counts = words.list.len().cast(pl.Int64).to_numpy()
    flat = words.explode(empty_as_null=False, keep_nulls=False).to_arrow(compat_level=pl.CompatLevel.oldest())
    ids, tokens = tokenizer.encode_words(flat)
    inner = np.add.reduceat(np.append(tokens, 0), np.cumsum(counts) - counts) * (counts > 0)
    lengths = inner + 1 + seps
    last = np.cumsum(lengths)
    out = np.full(int(lengths.sum()), sep, np.int32)
    boxes = np.tile(np.array(limits.sep_box, float), (len(out), 1))
    place = within(lengths)
    question = (place >= 1) & (place < np.repeat(inner, lengths) + 1)
    out[question] = ids
    boxes[question] = limits.pad_box
    out[last - lengths] = opening
    boxes[last - lengths] = limits.cls_box
    return Prefix(out, boxes, lengths)
