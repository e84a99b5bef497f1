"""A static proof that a template only copies the contents of turns and makes no decision by them.

With the proof, the text between two contents depends on the roles alone, so it is rendered once per shape of
conversation (``template_pattern``). The proof follows values through the syntax tree of the template. The template may
concatenate, trim, assign and write a content; when it compares, splits, measures or indexes one, the proof fails. Every
content is a text that is not blank, so the results of some tests (``is string``, ``is none``) are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from jinja2 import nodes


class Flow(IntEnum):
    """The data in a value, in rising order of what it reveals of a conversation."""

    CLEAN = 0  # depends on roles and constants only
    CONTENT = 1  # text made of contents and constants
    MESSAGE = 2
    MESSAGES = 3


class ContentDependent(Exception):
    """The template may make a decision by the content of a turn."""


_KNOWN_TESTS = {
    "string": True,
    "defined": True,
    "iterable": True,
    "sequence": True,
    "none": False,
    "undefined": False,
    "mapping": False,
    "number": False,
    "boolean": False,
    "integer": False,
    "float": False,
    "true": False,
    "false": False,
}
"""The result of each test on a content, which is always a text that is not blank."""

_COPIES = frozenset({"trim", "string", "tojson"})
"""Filters that only copy. ``tojson`` escapes, which the markers of ``template_pattern`` show."""

_LIST_FILTERS = frozenset({"list", "reverse", "selectattr", "rejectattr"})
_MAX_PASSES = 8


def copies_content(tree: nodes.Template) -> bool:
    """Whether the proof holds for a template."""
    follower = _Follower()
    try:
        for _ in range(_MAX_PASSES):
            before = dict(follower.names)
            follower.body(tree.body)
            if follower.names == before:
                return True
    except (ContentDependent, RecursionError):
        return False
    return False


class _Follower:
    """Follows values by name; a name has the highest flow of all its values."""

    def __init__(self) -> None:
        self.names: dict[str, Flow] = {"messages": Flow.MESSAGES}
        self.macros: set[str] = set()

    def assign(self, name: str, flow: Flow) -> None:
        known = self.names.get(name, Flow.CLEAN)
        if Flow.CLEAN not in (known, flow) and known is not flow:
            raise ContentDependent
        self.names[name] = max(known, flow)

    # ── statements ───────────────────────────────────────────────────────────────────────────────────────
    def body(self, statements: Iterable[nodes.Node]) -> Flow:
        """Follow statements; returns the flow of the text that they write."""
        return max((self.statement(node) for node in statements), default=Flow.CLEAN)

    def statement(self, node: nodes.Node) -> Flow:
        match node:
            case nodes.Output():
                flows = [self.value(child) for child in node.nodes]
                if any(flow > Flow.CONTENT for flow in flows):
                    raise ContentDependent
                return max(flows, default=Flow.CLEAN)
            case nodes.If():
                return self.branch(node)
            case nodes.For():
                return self.loop(node)
            case nodes.Assign():
                self.target(node.target, self.value(node.node))
            case nodes.AssignBlock():
                self.target(node.target, self.body(node.body))
            case nodes.Macro():
                self.macros.add(node.name)
                for default in node.defaults:
                    self.clean(default)
                self.body(node.body)
            case nodes.CallBlock():
                return self.body(node.body)
            case nodes.ExprStmt():
                self.value(node.node)
            case nodes.With():
                for target, value in zip(node.targets, node.values, strict=True):
                    self.target(target, self.value(value))
                return self.body(node.body)
            case nodes.Continue() | nodes.Break():
                pass
            case _:
                raise ContentDependent
        return Flow.CLEAN

    def branch(self, node: nodes.If) -> Flow:
        known = self.condition(node.test)
        if known is True:
            return self.body(node.body)
        flows = [] if known is False else [self.body(node.body)]
        for other in node.elif_:
            known = self.condition(other.test)
            if known is not False:
                flows.append(self.body(other.body))
            if known is True:
                return max(flows)
        return max([*flows, self.body(node.else_)])

    def loop(self, node: nodes.For) -> Flow:
        over = self.value(node.iter)
        if over is Flow.CONTENT or over is Flow.MESSAGE:
            raise ContentDependent
        self.target(node.target, Flow.MESSAGE if over is Flow.MESSAGES else Flow.CLEAN)
        self.assign("loop.previtem", Flow.MESSAGE if over is Flow.MESSAGES else Flow.CLEAN)
        self.assign("loop.nextitem", Flow.MESSAGE if over is Flow.MESSAGES else Flow.CLEAN)
        if node.test is not None and self.condition(node.test) is not None:
            raise ContentDependent
        return max(self.body(node.body), self.body(node.else_))

    def target(self, target: nodes.Node, flow: Flow) -> None:
        match target:
            case nodes.Name():
                self.assign(target.name, flow)
            case nodes.NSRef():
                self.assign(f"{target.name}.{target.attr}", flow)
            case nodes.Tuple() if flow is Flow.CLEAN:
                for item in target.items:
                    self.target(item, flow)
            case _:
                raise ContentDependent

    # ── conditions: True or False where the result is known, None where the roles decide ─────────────────
    def condition(self, node: nodes.Node) -> bool | None:
        match node:
            case nodes.Not():
                known = self.condition(node.node)
                return None if known is None else not known
            case nodes.And():
                left = self.condition(node.left)
                return False if left is False else _both(left, self.condition(node.right))
            case nodes.Or():
                left = self.condition(node.left)
                return True if left is True else _either(left, self.condition(node.right))
            case nodes.Test() if self.value(node.node) is Flow.CONTENT:
                if node.name not in _KNOWN_TESTS:
                    raise ContentDependent
                return None if isinstance(node.node, nodes.Name) else _KNOWN_TESTS[node.name]
            case nodes.Const():
                return bool(node.value)
        # A name may hold a content in one shape and a constant in another, so the roles decide.
        certain = self.value(node) is Flow.CONTENT and not isinstance(node, nodes.Name)
        return True if certain else None

    # ── expressions ──────────────────────────────────────────────────────────────────────────────────────
    def clean(self, *expressions: nodes.Node | None) -> Flow:
        """Raise ``ContentDependent`` where an expression holds content or messages."""
        for node in expressions:
            if node is not None and self.value(node) is not Flow.CLEAN:
                raise ContentDependent
        return Flow.CLEAN

    def value(self, node: nodes.Node) -> Flow:
        match node:
            case nodes.Const() | nodes.TemplateData():
                return Flow.CLEAN
            case nodes.Name():
                return self.names.get(node.name, Flow.CLEAN)
            case nodes.Getattr():
                return self.member(node.node, node.attr)
            case nodes.Getitem():
                return self.item(node)
            case nodes.Add() | nodes.Concat():
                parts = node.nodes if isinstance(node, nodes.Concat) else [node.left, node.right]
                flows = [self.value(part) for part in parts]
                if max(flows) > Flow.CONTENT:
                    raise ContentDependent
                return max(flows)
            case nodes.Filter():
                return self.filter(node)
            case nodes.CondExpr():
                return self.choice(node)
            case nodes.Or() | nodes.And():
                known = self.condition(node.left)
                left = self.value(node.left)
                if known is True:
                    return left if isinstance(node, nodes.Or) else self.value(node.right)
                return max(left, self.value(node.right))
            case nodes.Not() | nodes.Test():
                return self.test(node)
            case nodes.Compare():
                return self.compare(node)
            case nodes.Call():
                return self.call(node)
            case nodes.List() | nodes.Tuple():
                return self.clean(*node.items)
            case nodes.Dict():
                return self.clean(*(part for pair in node.items for part in (pair.key, pair.value)))
            case nodes.BinExpr():
                return self.clean(node.left, node.right)
            case nodes.UnaryExpr():
                return self.clean(node.node)
        raise ContentDependent

    def member(self, owner: nodes.Node, name: object) -> Flow:
        if isinstance(owner, nodes.Name) and f"{owner.name}.{name}" in self.names:
            return self.names[f"{owner.name}.{name}"]
        flow = self.value(owner)
        if flow is Flow.MESSAGE:
            if not isinstance(name, str):
                raise ContentDependent
            return Flow.CONTENT if name == "content" else Flow.CLEAN
        return self.clean(owner)

    def item(self, node: nodes.Getitem) -> Flow:
        flow = self.value(node.node)
        if isinstance(node.arg, nodes.Slice):
            self.clean(node.arg.start, node.arg.stop, node.arg.step)
            if flow is Flow.MESSAGES:
                return flow
            return self.clean(node.node)
        if flow is Flow.MESSAGES:
            self.clean(node.arg)
            return Flow.MESSAGE
        if isinstance(node.arg, nodes.Const):
            return self.member(node.node, node.arg.value)
        return self.clean(node.node, node.arg)

    def filter(self, node: nodes.Filter) -> Flow:
        if node.node is None:
            raise ContentDependent
        flow = self.value(node.node)
        self.clean(*node.args, *(k.value for k in node.kwargs), node.dyn_args, node.dyn_kwargs)
        if flow is Flow.CONTENT and node.name in _COPIES and not (node.args or node.kwargs):
            return flow
        if flow is Flow.MESSAGES:
            if node.name in ("length", "count"):
                return Flow.CLEAN
            if node.name in ("first", "last"):
                return Flow.MESSAGE
            by_role = node.args and isinstance(node.args[0], nodes.Const) and node.args[0].value == "role"
            if node.name in _LIST_FILTERS and (node.name in ("list", "reverse") or by_role):
                return flow
        if flow is Flow.CLEAN:
            return flow
        raise ContentDependent

    def choice(self, node: nodes.CondExpr) -> Flow:
        known = self.condition(node.test)
        if known is True:
            return self.value(node.expr1)
        other = Flow.CLEAN if node.expr2 is None else self.value(node.expr2)
        return other if known is False else max(self.value(node.expr1), other)

    def test(self, node: nodes.Not | nodes.Test) -> Flow:
        """The flow of a test: its result is known, or depends on the roles."""
        if isinstance(node, nodes.Test) and self.value(node.node) is not Flow.CONTENT:
            self.clean(*node.args)
            return Flow.CLEAN
        self.condition(node)
        return Flow.CLEAN

    def compare(self, node: nodes.Compare) -> Flow:
        """The flow of a comparison: contents may not be compared, but a message may be tested for a key."""
        self.clean(node.expr)
        for operand in node.ops:
            if operand.op in ("in", "notin") and self.value(operand.expr) is Flow.MESSAGE:
                continue
            self.clean(operand.expr)
        return Flow.CLEAN

    def call(self, node: nodes.Call) -> Flow:
        target = node.node
        if isinstance(target, nodes.ExtensionAttribute):
            return Flow.CLEAN
        if isinstance(target, nodes.Getattr) and self.value(target.node) is Flow.MESSAGE:
            named = node.args and isinstance(node.args[0], nodes.Const)
            if target.attr == "get" and named:
                return self.member(target.node, node.args[0].value)  # type: ignore[attr-defined]
            raise ContentDependent
        if isinstance(target, nodes.Name) and target.name == "namespace":
            # Members of a namespace are followed under its name; their first values must be clean.
            return self.clean(*node.args, *(k.value for k in node.kwargs))
        self.clean(target, *node.args, *(k.value for k in node.kwargs), node.dyn_args, node.dyn_kwargs)
        return Flow.CLEAN


def _both(left: bool | None, right: bool | None) -> bool | None:
    if right is False:
        return False
    return True if left is True and right is True else None


def _either(left: bool | None, right: bool | None) -> bool | None:
    if right is True:
        return True
    return False if left is False and right is False else None
