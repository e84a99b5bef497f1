"""XML of untrusted files: expat without document types and entities; names without their prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from xml.parsers import expat

from pipeline.readers.sandbox_child import TaskFault

Attributes = dict[str, str]


class Refused(Exception):
    """The document has a construct that no workbook needs."""


def local_name(name: str) -> str:
    """A name without its prefix."""
    return name.rpartition(":")[2]


def make_parser(
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None],
    text: Callable[[str], None] | None = None,
) -> expat.XMLParserType:
    """A parser that calls back with names as written, and refuses document types."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    if text is not None:
        parser.CharacterDataHandler = text

    def refuse(*_: object) -> None:
        raise Refused("a document type declaration")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    return parser


def parse_elements(part: str, chunks: Iterable[bytes], start: Callable[[str, Attributes], None]) -> None:
    """Call ``start`` with the local name and attributes of every element of a small part.

    Raises ``TaskFault`` if the part is not well formed.
    """

    def start_element(name: str, attributes: Attributes) -> None:
        start(local_name(name), attributes)

    parser = make_parser(start_element, lambda _: None)
    feed(part, parser, chunks)


def feed(part: str, parser: expat.XMLParserType, chunks: Iterable[bytes], *, final: bool = True) -> None:
    """Feed chunks to a parser; they end the document unless ``final`` is false.

    An error of the document becomes a ``TaskFault`` with the part and line.
    """
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
        if final:
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        what = f"{part}: line {error.lineno}: {expat.errors.messages[error.code]}"
        raise TaskFault("file_unreadable", what, "well-formed XML") from None
    except (LookupError, ValueError):  # from the codec: an unknown or multi-byte encoding
        raise TaskFault("file_unreadable", f"{part}: an unknown encoding", "UTF-8") from None
    except Refused as error:
        raise TaskFault("file_unreadable", f"{part}: {error}", "plain XML") from None


def attribute(attributes: Attributes, name: str, default: str = "") -> str:
    """The value of an attribute by its local name."""
    if name in attributes:
        return attributes[name]
    return next((value for key, value in attributes.items() if local_name(key) == name), default)
