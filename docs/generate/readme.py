"""The output of the first command, as it stands in the README: made by running it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"(?<=^```text output\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)


def readme_page() -> str:
    """The README with the output of a run over the samples.

    The last lines of the output are left out: they name the folder and a digest that depends on library versions.

    Raises:
        ValueError: the README does not hold exactly one output block with a closing fence.
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
    output = re.sub(r"^published .*", "", done.stdout, flags=re.DOTALL | re.MULTILINE)
    shown = "\n".join(line.rstrip() for line in output.strip().splitlines()) + "\n"
    page, blocks = _BLOCK.subn(lambda _: shown, (ROOT / "README.md").read_text(encoding="utf-8"))
    if blocks != 1:
        raise ValueError(f"README.md holds {blocks} output blocks that open and close; expected 1")
    return page
