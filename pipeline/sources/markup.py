"""XML and HTML as nested JSON-like objects, for hOCR and ALTO. Tags and attributes in lower case.

The parser expands no entity but HTML's own single characters and reads no DTD, so that a document cannot grow while
it is read.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
"""HTML elements that need no end tag."""
DEPTH = 100
SMALL = 8
"""Elements with at most so many below them carry the text of all of these, too."""

Node = dict[str, Any]


class MarkupError(ValueError):
    """Markup that is cut off, unbalanced or nested too deeply."""


def parse_markup(text: str) -> Node:
    """The root: ``{"tag", "text", "children", attribute: value …}``; attributes named ``tag``, ``text`` or
    ``children`` get an underscore. Raises MarkupError."""
    parser = _Parser()
    parser.feed(text)
    if "<" in parser.rawdata:  # what was not parsed yet
        raise MarkupError("the document ends within a tag")
    parser.close()
    if len(parser.open) > 1:
        raise MarkupError(f"the document ends within <{parser.open[-1]['tag'][:40]}>")
    return parser.root


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root: Node = {"tag": "", "text": "", "children": []}
        self.open: list[Node] = [self.root]
        self._below: list[int] = [0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len(self.open) > DEPTH:
            raise MarkupError(f"nested deeper than {DEPTH}")
        node: Node = {"tag": tag, "text": "", "children": []}
        for name, value in attrs:
            node.setdefault(f"{name}_" if name in ("tag", "text", "children") else name, value or "")
        self.open[-1]["children"].append(node)
        self.open.append(node)
        self._below.append(0)
        if tag in VOID:
            self._end()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._end()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self.open[-1]["tag"] != tag:
            raise MarkupError(f"</{tag[:40]}> where <{self.open[-1]['tag'][:40]}> is open")
        self._end()

    def handle_data(self, data: str) -> None:
        self.open[-1]["text"] += data

    def _end(self) -> None:
        node, below = self.open.pop(), self._below.pop()
        self._below[-1] += below + 1
        if below <= SMALL:
            self.open[-1]["text"] += node["text"]
