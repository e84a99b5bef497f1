"""The kinds behind their seam."""

from __future__ import annotations

import subprocess
import sys

from pipeline.schema import model
from pipeline.stages import build


def test_every_kind_of_the_schema_language_is_implemented() -> None:
    assert set(build.KINDS) == set(model.KINDS)


def test_a_kind_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys; from pipeline.stages import line\n"
        "def there(): return {k for k in line.KINDS if f'pipeline.stages.{k}.stage' in sys.modules}\n"
        "before = there(); line.KINDS['table'](); print(before, there())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set() {'table'}\n"
