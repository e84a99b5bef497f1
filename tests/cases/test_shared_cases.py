"""The shared acceptance cases, run by their own runner: exactly the cases of ``still_failing.txt`` fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

STILL_FAILING = Path(__file__).with_name("still_failing.txt")


def read_list(text: str) -> dict[str, str]:
    """Why each case fails, by its id: one id a line, then the reason. Lines that start with ``#`` are comments.

    Raises:
        ValueError: a case stands twice, or without a reason.
    """
    listed: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            case, _, why = line.partition(" ")
            if case in listed or not why.strip():
                raise ValueError(f"{case}: expected once, and with the reason why it fails")
            listed[case] = why.strip()
    return listed


def disagreements(results: Mapping[str, str | None], listed: Mapping[str, str]) -> list[str]:
    """Where the results (the first fault by case, or None) and the list differ, one line each."""
    out = [
        f"{case} fails and is not on the list: {fault}"
        for case, fault in results.items()
        if fault and case not in listed
    ]
    out += [
        f"{case} passes: take it off the list" for case in listed if case in results and results[case] is None
    ]
    out += [f"{case} is on the list, and there is no such case" for case in listed if case not in results]
    return out


@pytest.mark.shared
@pytest.mark.slow
def test_the_cases_that_fail_are_those_on_the_list(root: Path, shared: Path, tmp_path: Path) -> None:
    cases, told = shared / "cases", tmp_path / "results.json"
    if not (cases / "run_cases.py").is_file():
        pytest.skip("no runner of acceptance cases in the folder of shared data")
    command = [sys.executable, str(cases / "run_cases.py"), str(cases), "--jobs", "2", "--json", str(told)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.is_file(), (
        f"the runner ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    )
    results: dict[str, str | None] = json.loads(told.read_text("utf-8"))
    wrong = disagreements(results, read_list(STILL_FAILING.read_text("utf-8")))
    assert not wrong, "\n".join(wrong)


RESULTS = {"a-1": None, "a-2": "certified 1, expected 2"}


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ({"a-2": "why"}, []),
        ({}, ["a-2 fails and is not on the list: certified 1, expected 2"]),
        ({"a-1": "why", "a-2": "why"}, ["a-1 passes: take it off the list"]),
        ({"a-2": "why", "a-3": "why"}, ["a-3 is on the list, and there is no such case"]),
    ],
)
def test_the_list_and_the_results_must_agree(listed: dict[str, str], said: list[str]) -> None:
    assert disagreements(RESULTS, listed) == said


def test_the_list_says_why_and_names_a_case_once() -> None:
    assert read_list("# comment\n\na-1  loses a word\n") == {"a-1": "loses a word"}
    for text in ("a-1\n", "a-1 why\na-1 why\n"):
        with pytest.raises(ValueError, match="a-1"):
            read_list(text)
