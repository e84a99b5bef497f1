"""XML of untrusted files: expat without document types and entities, names without their prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from xml.parsers import expat

from pipeline.readers.sandbox_child import TaskFault

Attributes = dict[str, str]


class Refused(Exception):
    """The document has something that no workbook needs."""


def local(name: str) -> str:
    """A name without its prefix."""
    return name.rpartition(":")[2]


def parser(
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None],
    text: Callable[[str], None] | None = None,
) -> expat.XMLParserType:
    """A parser that calls back with names as they stand; document types are refused."""
    made = expat.ParserCreate()
    made.buffer_text = True
    made.StartElementHandler = start
    made.EndElementHandler = end
    if text is not None:
        made.CharacterDataHandler = text

    def refuse(*_: object) -> None:
        raise Refused("a document type declaration")

    made.StartDoctypeDeclHandler = refuse
    made.EntityDeclHandler = refuse
    return made


def walk(part: str, chunks: Iterable[bytes], start: Callable[[str, Attributes], None]) -> None:
    """Call ``start`` with the local name and attributes of every element of a small part.

    Raises ``TaskFault`` where it is not well formed.
    """

    def began(name: str, attributes: Attributes) -> None:
        start(local(name), attributes)

    made = parser(began, lambda _: None)
    feed(part, made, chunks)


def feed(part: str, made: expat.XMLParserType, chunks: Iterable[bytes], *, final: bool = True) -> None:
    """Give a parser chunks, the last ones unless ``final`` is false.

    A fault of the document becomes a ``TaskFault`` that names the part and line.
    """
    try:
        for chunk in chunks:
            made.Parse(chunk, False)
        if final:
            made.Parse(b"", True)
    except expat.ExpatError as error:
        what = f"{part}: line {error.lineno}: {expat.errors.messages[error.code]}"
        raise TaskFault("file_unreadable", what, "well-formed XML") from None
    except (
        LookupError,
        ValueError,
    ):  # of the codec: an encoding that is unknown, or of several bytes a letter
        raise TaskFault("file_unreadable", f"{part}: an unknown encoding", "UTF-8") from None
    except Refused as error:
        raise TaskFault("file_unreadable", f"{part}: {error}", "plain XML") from None


def attribute(attributes: Attributes, name: str, default: str = "") -> str:
    """An attribute by its local name."""
    if name in attributes:
        return attributes[name]
    return next((value for key, value in attributes.items() if local(key) == name), default)
