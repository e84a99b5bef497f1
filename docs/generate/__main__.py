"""``python -m docs.generate [--check] [--readme]``: write the generated pages, or say which are out of date.

``--readme`` runs the samples, too, and writes what the run says into the README.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generate.commands import commands_page
from docs.generate.families import families_page
from docs.generate.hazards import hazards_page
from docs.generate.presets import presets_page
from docs.generate.readme import readme_page
from docs.generate.schema_reference import schema_page

ROOT = Path(__file__).resolve().parents[2]


def pages() -> dict[str, str]:
    """Content of each generated page by its path."""
    return {
        "docs/schema.md": schema_page(),
        "docs/hazards.md": hazards_page(),
        "docs/cli.md": commands_page(),
        "docs/presets.md": presets_page(),
        "docs/families.md": families_page(),
    }


def main() -> int:
    """Write, or compare; returns the exit code."""
    check, stale = "--check" in sys.argv[1:], []
    made = pages() | ({"README.md": readme_page()} if "--readme" in sys.argv[1:] else {})
    for name, content in made.items():
        path = ROOT / name
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(name)
        if not check:
            path.write_text(content, encoding="utf-8")
    for name in stale:
        print(f"{name}: " + ("out of date, run `python -m docs.generate`" if check else "written"))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
