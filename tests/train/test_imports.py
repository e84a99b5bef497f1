"""The training side needs pyarrow, numpy, torch, transformers, accelerate, peft, pydantic, PyYAML, typer and rich."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train import made

ABSENT = (
    "polars",
    "pandera",
    "msgspec",
    "datasets",
    "fastexcel",
    "fastokens",
    "ray",
    "pandas",
    "openpyxl",
)
BLOCK = """
import sys
class Hiding:
    def __init__(self, finder):
        self._finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {absent!r} else self._finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self._finder, name)
sys.meta_path[:] = [Hiding(finder) if hasattr(finder, "find_spec") else finder for finder in sys.meta_path]
for name in {absent!r}:
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(name + " is not hidden")
"""


def bare(code: str, folder: Path, absent: tuple[str, ...] = ABSENT) -> subprocess.CompletedProcess[str]:
    """Run code where the libraries of the data side cannot be imported."""
    script = folder / "node.py"
    script.write_text(BLOCK.format(absent=absent) + code)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}
    return subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=300, check=False
    )


def test_every_module_of_the_training_side_imports_without_the_data_side(tmp_path: Path) -> None:
    code = """
import importlib, pkgutil, pipeline.train
for module in pkgutil.walk_packages(pipeline.train.__path__, "pipeline.train."):
    importlib.import_module(module.name)
"""
    done = bare(code, tmp_path)
    assert done.returncode == 0, done.stderr[-1500:]


def test_without_the_datasets_library_the_rows_are_the_same(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    code = f"""
from pipeline.train import assert_certified, load_certified
rows = load_certified({str(clean)!r}, "forms")
print(type(rows).__name__, len(rows), rows[5]["sample_id"], assert_certified(rows).root)
"""
    done = bare(code, tmp_path)
    assert done.returncode == 0, done.stderr[-1500:]
    kind, count, sample, root = done.stdout.split()
    from pipeline.train import load_certified

    data = load_certified(clean, "forms", backend="datasets")
    assert (kind, int(count)) == ("CertifiedRows", 40)
    assert (sample, root) == (data[5]["sample_id"], data.certified.root)


@pytest.mark.parametrize("command", ["preflight", "train"])
def test_the_commands_run_on_a_training_node(tmp_path: Path, command: str) -> None:
    clean = made.chat_folder(tmp_path / "clean")
    model = made.write_config(tmp_path / "model", made.LLAMA_CONFIG)
    words = [command, str(clean), "--model", str(model), "--device", "cpu", "--recipe", "llama-lora"]
    if command == "train":
        words += ["--from-config", "--set", "run.steps=2", "--out", str(tmp_path / "out")]
    code = f"import sys\nsys.argv[1:] = {words!r}\nfrom pipeline.__main__ import main\nmain()\n"
    done = bare(code, tmp_path)
    assert done.returncode == 0, done.stderr[-1500:]
    assert ("ready" in done.stdout) if command == "preflight" else (tmp_path / "out/checkpoint-2").is_dir()
