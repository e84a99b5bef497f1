"""The chat template a schema names: the tokenizer's own, or a pinned file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import TokenizerError
from pipeline.models.template import MAX_SOURCE, ChatTemplate
from pipeline.models.tokenizer import Tokenizer
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.schema.chat import Template


def load_template(spec: Template, schema_dir: Path, tokenizer: Tokenizer) -> ChatTemplate:
    """Compile it.

    Raises:
        TokenizerError: there is none, it cannot be read, or it is no template.
    """
    if spec.file is None:
        if tokenizer.chat_template is None:
            raise TokenizerError(
                Reason.TEMPLATE_MISSING.facts.title + " in the tokenizer",
                where=tokenizer.name,
                found="no chat_template in tokenizer_config.json and no chat_template.jinja",
                expected="a chat template",
                remedy="it is a base model's tokenizer: name the template of the chat model you train under "
                "`chat: template: file:`, or use the instruct model's tokenizer",
            )
        name, source = f"{tokenizer.name} (its own template)", tokenizer.chat_template
    else:
        name, source = spec.file, _read(schema_dir / spec.file, spec.file)
    return ChatTemplate(source, name=name, specials=tokenizer.special_texts, date=spec.date)


def _read(path: Path, name: str) -> str:
    try:
        if path.stat().st_size > 4 * MAX_SOURCE:
            raise TokenizerError("the chat template is too long", where=name)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TokenizerError(
            "the chat template cannot be read",
            where=name,
            found=error.strerror or type(error).__name__,
            expected="a Jinja file",
            remedy="correct `chat: template: file:` (it is relative to the schema file)",
        ) from None
    except UnicodeDecodeError:
        raise TokenizerError("the chat template is not UTF-8", where=name) from None
