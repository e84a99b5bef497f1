"""Second runs that a case asks for: with an encoding it declares, with a policy it opts in to."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tests.acceptance import values
from tests.acceptance.case import Report
from tests.acceptance.execute import lay_out, run, write_schema
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Outcome

OPT_IN = {
    "if_merge_opted_in": {"role_order": "repair"},
    "if_drop_opted_in": {"last_turn_not_assistant": "repair"},
}


def variants(context: Context, place: Path, report: Report) -> None:
    """Run again where the case says how, and compare what it says of that run."""
    value = context.value
    if isinstance(encoding := value.get("declared"), str):
        schema = copy.deepcopy(context.schema)
        schema["read"] = {**schema.get("read", {}), "encodings": [encoding]}
        again = _again(context, schema, place / "declared")
        report.expect(again.run.code == 0, f"exit code {again.run.code} with {encoding} declared")
        for key in ("records", "texts", "ids"):
            if key in value:
                values.check(again, key, value[key], report)
    if isinstance(line := value.get("bad_byte_line"), int) and context.run.code != 0:
        report.expect(f"line {line}" in context.run.said, f"the message does not name line {line}")
    for key, policies in OPT_IN.items():
        if isinstance(wanted := value.get(key), dict):
            schema = {**context.schema, "policies": {**context.schema.get("policies", {}), **policies}}
            again = _again(context, schema, place / key)
            values.check(again, "messages", wanted, report)
            report.unchecked[:] = [word for word in report.unchecked if word != key]


def _again(context: Context, schema: dict[str, Any], place: Path) -> Context:
    path = write_schema(schema, place, context.case)
    done = run(lay_out(context.case, place), place / "clean", path)
    outcome = Outcome.read(place / "clean")
    return Context(context.case, schema, done, outcome, context.id_name, context.reader)
