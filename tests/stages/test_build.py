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
        "import sys; from pipeline.stages import build\n"
        "kinds = ('chat', 'layout', 'table', 'pretokenized')\n"
        "def there(): return {kind for kind in kinds if f'pipeline.stages.{kind}' in sys.modules}\n"
        "before = there(); build.KINDS['table'](); print(before, there())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set() {'table'}\n"
