"""The output of the first command, as it stands in the README: made by running it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"(?<=^```text output\n)(?:(?!```).*\n)*(?=```$)", re.MULTILINE)
"""The lines between the fences. A fence that opens another block does not close this one."""


def readme_page() -> str:
    """The README with the output of a run over the samples. Its last lines are left out: they name the folder and a
    digest that goes with the versions of libraries.

    Raises:
        ValueError: the README has no output block, or one that is not closed.
    """
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", "run", "data_samples/raw", f"{place}/clean", "--no-fsync"],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=True,
        )
    said = re.sub(r"^published .*", "", done.stdout, flags=re.DOTALL | re.MULTILINE)
    shown = "\n".join(line.rstrip() for line in said.strip().splitlines()) + "\n"
    page, count = _BLOCK.subn(lambda _: shown, (ROOT / "README.md").read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError("README.md: no closed block `text output`")
    return page
