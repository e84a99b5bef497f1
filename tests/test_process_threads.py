"""Polars has one thread in each process of a run, unless the user wants more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from pipeline.cli.app import main
sys.argv = ["pipeline", "run", "raw", "clean", "--schema", "notes.yaml"]
try:
    main()
except SystemExit as end:
    assert not end.code
import polars
print("threads", polars.thread_pool_size())
"""
SCHEMA = 'version: 1\nname: notes\nkind: table\nfiles: ["*.csv"]\ncolumns: {id: {}, text: {}}\ntable: {}\n'


@pytest.mark.parametrize(("wish", "threads"), [(None, "1"), ("2", "2")])
def test_a_run_has_one_thread_a_process(tmp_path: Path, wish: str | None, threads: str) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv").write_text("id,text\n1,x\n")
    (tmp_path / "notes.yaml").write_text(SCHEMA)
    others = {name: value for name, value in os.environ.items() if name != "POLARS_MAX_THREADS"}
    environment = {
        **others,
        "PYTHONPATH": str(Path.cwd()),
        **({} if wish is None else {"POLARS_MAX_THREADS": wish}),
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-2:] == ["threads", threads]
