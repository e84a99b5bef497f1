"""Chat templates: load, compile and render them in Jinja's sandbox, with limits on time and size.

The language is that of templates in transformers: block trimming, loop controls, ``raise_exception``, ``strftime_now``,
a plain ``tojson``, and the ``generation`` block around the text of the assistant.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from pipeline.errors import TokenizerError
from pipeline.models.tokenizer import Tokenizer
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.schema.chat import Template


MAX_STEPS = 1_000_000
"""Largest number of loop iterations of one rendering."""
MAX_SECONDS = 10.0
"""Longest time for the rendering of one conversation, in seconds."""
MAX_CHARACTERS = 64 * 2**20
"""Longest rendered conversation, in characters."""
MAX_SOURCE = 2**20
"""Longest template, in characters."""

_WIDE = re.compile(r"[0-9]{4}|\*")
"""A width or precision in a format string whose result could have gigabytes."""

Message = Mapping[str, Any]


class TemplateRefusal(Exception):
    """The template raises an error on a conversation, or exceeds a limit; the text names it."""


class TimeDependence(TemplateRefusal):
    """The template asks for today's date, and the schema pins none."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendered conversation.

    Attributes:
        text: the text for the model.
        spans: span of each ``generation`` block in characters, [start, end).
    """

    text: str
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class _State:
    """The counters and the spans of one rendering."""

    blocks: list[str] = field(default_factory=list)
    length: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)
    steps: int = 0
    deadline: float = 0.0

    def spend(self) -> None:
        """Count a loop iteration; raises ``TemplateRefusal`` beyond a limit."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TemplateRefusal(f"more than {MAX_STEPS:,} loop turns")
        if not self.steps % 1024 and time.monotonic() > self.deadline:
            raise TemplateRefusal(f"more than {MAX_SECONDS:g} seconds")


class ChatTemplate:
    """A compiled template.

    Attributes:
        source: text of the template.
        name: origin of the template, for messages.
        has_generation: whether it has ``generation`` blocks around the text of the assistant.

    Raises:
        TokenizerError: the text is not a valid template.
    """

    def __init__(
        self, source: str, *, name: str, specials: Mapping[str, str], date: str | None = None
    ) -> None:
        self.source, self.name = source, name
        self._date = _parse_date(date)
        self._variables = {f"{role}_token": text for role, text in specials.items()}
        self._state = _State()
        if len(source) > MAX_SOURCE:
            raise TokenizerError(
                "the chat template is too long", where=name, expected=f"{MAX_SOURCE} characters"
            )
        self._environment = _environment(self)
        try:
            self.tree = self._environment.parse(source)
            self._template = self._environment.from_string(source)
        except (TemplateSyntaxError, RecursionError) as error:
            raise TokenizerError(
                "the chat template does not compile",
                where=name,
                found=f"line {getattr(error, 'lineno', '?')}: {error}"[:200],
                remedy="correct the template, or name another under `chat: template: file:`",
            ) from None
        self.has_generation = any(_calls_generation(node) for node in self.tree.find_all(nodes.CallBlock))

    @cached_property
    def digest(self) -> str:
        """The sha256 of the source."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
    ) -> Rendering:
        """Render a conversation.

        Raises:
            TemplateRefusal: the template raises an error, fails, or exceeds a limit.
            TimeDependence: the template asks for today's date.
        """
        state = self._state = _State(deadline=time.monotonic() + MAX_SECONDS)
        variables = {**self._variables, "messages": list(messages), "tools": tools, "documents": None}
        try:
            for block in self._template.generate(add_generation_prompt=add_generation_prompt, **variables):
                state.blocks.append(block)
                state.length += len(block)
                if state.length > MAX_CHARACTERS:
                    raise TemplateRefusal(f"more than {MAX_CHARACTERS:,} characters")
        except TemplateRefusal:
            raise
        except (TemplateError, SecurityError) as error:
            raise TemplateRefusal(str(error)[:200]) from None
        except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            raise TemplateRefusal(f"{type(error).__name__}: {error}"[:200]) from None
        except (RecursionError, MemoryError, OverflowError, ZeroDivisionError) as error:
            raise TemplateRefusal(type(error).__name__) from None
        return Rendering("".join(state.blocks), tuple(state.spans))

    def _generated(self, text: str) -> str:
        """Record the span of a generation block; called with its text, before that is written."""
        self._state.spans.append((self._state.length, self._state.length + len(text)))
        return text

    def _spend(self) -> str:
        self._state.spend()
        return ""

    def _strftime_now(self, form: str) -> str:
        if self._date is None:
            raise TimeDependence("it renders today's date")
        return self._date.strftime(form)


def _parse_date(date: str | None) -> datetime.datetime | None:
    if date is None:
        return None
    try:
        return datetime.datetime.fromisoformat(date)
    except ValueError:
        raise TokenizerError(
            "the template's date is not a date",
            where="chat: template: date",
            found=date[:40],
            expected="ISO 8601, for example 2024-07-26",
        ) from None


class _Generation(Extension):
    """The block ``{% generation %} … {% endgeneration %}``, and a counter at the start of each loop body."""

    tags = {"generation", "cleanroom_step"}
    owner: ChatTemplate

    def parse(self, parser: Parser) -> nodes.Node:
        tag = next(parser.stream)
        if tag.value == "cleanroom_step":
            return nodes.ExprStmt(self.call_method("_step")).set_lineno(tag.lineno)
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(tag.lineno)

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Insert a tag that counts an iteration after each ``{% for … %}``; it writes no text."""
        in_for = False
        previous = ""
        for token in stream:
            yield token
            if previous == "block_begin" and token.type == "name" and token.value == "for":
                in_for = True
            if in_for and token.type == "block_end":
                in_for = False
                yield Token(token.lineno, "block_begin", "")
                yield Token(token.lineno, "name", "cleanroom_step")
                yield Token(token.lineno, "block_end", "")
            previous = token.type

    def _mark(self, caller: Callable[[], str]) -> str:
        return self.owner._generated(caller())

    def _step(self) -> str:
        return self.owner._spend()


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with a limit on the results of multiplication, powers and formatting."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(v) if isinstance(v, str | list | tuple) else 1 for v in (left, right)]
        counts = [abs(v) if isinstance(v, int | float) else 1 for v in (left, right)]
        too_much = operator == "*" and max(sizes) > 1 and sizes[0] * sizes[1] * max(counts) > MAX_CHARACTERS
        wide = operator == "%" and isinstance(left, str) and _WIDE.search(left)
        if too_much or wide or (operator == "**" and max(counts) > 64):
            raise TemplateRefusal(f"the operator {operator} makes too much")
        return super().call_binop(context, operator, left, right)


class _Namespace(Namespace):
    """A namespace without underscore names, which reach into Python's internals."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, given = args[0], args[1:]
        values = dict(*given, **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"underscore name {name!r} on a namespace")


class _Dict:
    """The function ``dict`` for templates, without its other attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


def _environment(owner: ChatTemplate) -> _Sandbox:
    extension = type("_BoundGeneration", (_Generation,), {"owner": owner})
    environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[extension, LoopControlExtension])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = owner._strftime_now
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers writes it; Jinja's own filter escapes HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _calls_generation(node: nodes.CallBlock) -> bool:
    target = node.call.node
    return isinstance(target, nodes.ExtensionAttribute) and target.name == "_mark"


def load_template(spec: Template, schema_dir: Path, tokenizer: Tokenizer) -> ChatTemplate:
    """Load the template of a schema: that of the tokenizer, or a pinned file.

    Raises:
        TokenizerError: there is no template, it cannot be read, or it does not compile.
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
