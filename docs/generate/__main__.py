"""``python -m docs.generate [--check]``: write the generated pages, or say which are out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generate.commands import commands_page
from docs.generate.hazards import hazards_page
from docs.generate.presets import presets_page
from docs.generate.schema_reference import schema_page

DOCS = Path(__file__).resolve().parents[1]


def pages() -> dict[str, str]:
    """Content of each generated page by its name."""
    return {
        "schema.md": schema_page(),
        "hazards.md": hazards_page(),
        "cli.md": commands_page(),
        "presets.md": presets_page(),
    }


def main() -> int:
    """Write, or compare; returns the exit code."""
    stale = []
    for name, content in pages().items():
        path = DOCS / name
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(name)
        if "--check" not in sys.argv[1:]:
            path.write_text(content, encoding="utf-8")
    checked = "--check" in sys.argv[1:]
    for name in stale:
        print(f"docs/{name}: " + ("out of date, run `python -m docs.generate`" if checked else "written"))
    return 1 if checked and stale else 0


if __name__ == "__main__":
    sys.exit(main())
