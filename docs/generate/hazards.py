"""The hazard catalogue, made from ``pipeline/reasons.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from pipeline import reasons
from pipeline.reasons import Reason, Scope

_HEAD = """# Hazards

<!-- Made by `python -m docs.generate` from pipeline/reasons.py; do not edit. -->

Every condition that is known to crash a training run or to spoil it in silence, its effect, and what becomes of the
record. A certificate means: **none of these is in the shard**.

*Effect*: **crash** (device-side assert, CUBLAS error, exception), **silent** (trains on garbage, NaN loss, lost
content), **quality** (worth knowing, harmless to the run). *Policy*: the default, and in brackets what a schema may
choose instead under `policies:`. **quarantine** sets the record aside; **repair** mends it and notes it in the
sample's `notes`; **flag** certifies it with a note; **error** stops the file or the run.
"""
_SCOPES = {
    Scope.RECORD: "one record",
    Scope.FILE: "a file: the other files still go through",
    Scope.RUN: "the run: found before any record is read",
}


def hazards_page() -> str:
    """The whole page, in the order of the enum."""
    parts = [_HEAD]
    for title, members in _sections():
        scope = members[0].facts.scope
        parts.append(f"\n## {title[0].upper()}{title[1:]}\n\n*About {_SCOPES[scope]}.*\n")
        parts.append("\n| reason | condition | effect | policy | what to do |\n|---|---|---|---|---|\n")
        parts += [_row(reason) for reason in members]
    return "".join(parts)


def _row(reason: Reason) -> str:
    facts = reason.facts
    others = ", ".join(option.value for option in facts.options)
    policy = f"{facts.default.value} ({others})" if others else facts.default.value
    shown = facts.template.format(found="…", expected="…")
    cells = (f"`{facts.slug}`", f"**{facts.title}**: {shown}", facts.severity.value, policy, facts.remedy)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _sections() -> Iterator[tuple[str, list[Reason]]]:
    """The members under each heading comment of the enum's source."""
    title, members = "files", []
    for line in inspect.getsource(reasons.Reason).splitlines():
        if heading := re.match(r"\s*# ── (.+?) ─", line):
            if members:
                yield title, members
            title, members = heading.group(1), []
        elif member := re.match(r"\s*([A-Z][A-Z0-9_]+) = _", line):
            members.append(Reason[member.group(1)])
    yield title, members
