"""What a rendered chat looks like: content that is one already would be wrapped in the template a second time."""

from __future__ import annotations

from dataclasses import dataclass

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
