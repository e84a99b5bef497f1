"""Cases that hand a folder to the verifier instead of running anything."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.acceptance.case import Case, Report
from tests.acceptance.execute import verify


def check(case: Case, place: Path) -> Report:
    """The folder must be refused, each bad file named, and no good one called bad."""
    clean = place / "clean"
    clean.mkdir()
    for name in case.files:
        (clean / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(case.folder / name, clean / name)
    done = verify(clean)
    report = Report()
    value = case.value if isinstance(case.value, dict) else {}
    refused = case.expect == "error" or "refuse" in str(value.get("gate", ""))
    report.expect((done.code != 0) == refused, f"exit code {done.code}")
    report.expect(not done.traceback, "a traceback reached the user")
    report.expect(bool(done.said.strip()) or not refused, "refused without a message")
    for name in value.get("bad", ()):
        report.expect(name in done.said, f"{name} is not named")
    return report
