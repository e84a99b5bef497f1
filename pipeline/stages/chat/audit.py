"""The audit: some conversations of every batch go through the template and the reference tokenizer as a whole, and
must give the same ids and the same mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import TokenizerError
from pipeline.models.template import ChatTemplate
from pipeline.models.tokenizer import Tokenizer
from pipeline.stages.chat.messages import Messages
from pipeline.stages.chat.plan import Control
from pipeline.stages.chat.turns import Mask

if TYPE_CHECKING:
    from pipeline.arrays import Int64s
    from pipeline.stages.chat.codec import Encoded


def audit(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    control: Control,
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
