"""The audit: some conversations of every batch go through the template and the reference tokenizer as a whole, and
must give the same ids and the same mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import TokenizerError
from pipeline.models.template import ChatTemplate
from pipeline.models.tokenizer import Tokenizer
from pipeline.stages.chat.plan import Control
from pipeline.stages.chat.turns import ASSISTANT, Mask, Turns

if TYPE_CHECKING:
    from pipeline.arrays import Int64s
    from pipeline.stages.chat.codec import Encoded


def audit(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    control: Control,
    turns: Turns,
    encoded: Encoded,
    trained: Mask,
    tools: Sequence[Any] | None,
    conversations: Int64s,
) -> None:
    """Compare. Conversations that spell a control token are left out: there the whole text is meant to differ.

    Raises:
        TokenizerError: ids or mask differ.
    """
    from pipeline.stages.chat.codec import messages_of

    contents = turns.content.to_list()
    heads = np.cumsum(encoded.lengths) - encoded.lengths
    failed = {i for i, _, _ in encoded.problems}
    for i in conversations.tolist():
        span = range(int(turns.starts[i]), int(turns.starts[i] + turns.counts[i]))
        texts = [contents[t] or "" for t in span]
        if i in failed or not encoded.lengths[i] or any(control.pattern.search(text) for text in texts):
            continue
        given = tools[i] if tools is not None else None
        rendering = template.render(messages_of(turns, span, contents), tools=given)
        if given is not None and control.pattern.search(str(given)):
            continue
        ids, _, starts, ends = tokenizer.reference.offsets([rendering.text], marked=True)
        place = slice(int(heads[i]), int(heads[i] + encoded.lengths[i]))
        if not np.array_equal(ids, encoded.ids[place]):
            raise _difference("ids")
        if template.has_generation:
            answers = [t for t in span if turns.roles[t] == ASSISTANT]
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
