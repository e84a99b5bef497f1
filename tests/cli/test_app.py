"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pipeline
from pipeline.errors import Exit
from pipeline.reasons import Reason
from tests.cli.conftest import Call


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, pipeline.cli.app\n"
        "heavy = {'polars', 'pyarrow', 'pandera', 'pydantic', 'transformers', 'numpy', 'torch', 'tokenizers'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_that_of_the_package(call: Call, root: Path) -> None:
    said = call("--version")
    assert (said.code, said.out) == (Exit.OK, f"{pipeline.__version__}\n")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "pipeline.__version__"}


def test_every_reason_is_listed(call: Call) -> None:
    said = call("reasons")
    assert said.code == Exit.OK
    assert [r.slug for r in Reason if r.slug not in said.out] == []


def test_one_reason_in_full(call: Call) -> None:
    said = call("reasons", "bbox_inverted")
    assert "opt in to `repair`" in said.out
    assert call("reasons", "bbox_invertd").code == Exit.USAGE


def test_an_unknown_command_is_a_usage_error(call: Call) -> None:
    assert call("runn").code == Exit.USAGE


def test_the_json_schema_is_valid_json_and_refuses_unknown_keys(call: Call) -> None:
    import json

    published = json.loads(call("schema", "json-schema").out)
    assert published["additionalProperties"] is False
    assert "layout" in published["properties"]
