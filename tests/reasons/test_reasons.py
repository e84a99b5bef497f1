"""Every reason of the catalogue comes from raw input, and the smallest change of that input is certified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import SchemaError, TokenizerError
from pipeline.reasons import Policy, Reason, Scope
from pipeline.report.events import SilentWatch
from tests.reasons import chats, documents, files, images, reading, run, templates, tokens, values
from tests.reasons.case import Case, RunCase
from tests.reasons.outcome import Outcome, outcome_of, sanitized, written

CASES: tuple[Case, ...] = (
    *files.CASES,
    *reading.CASES,
    *values.CASES,
    *documents.CASES,
    *images.CASES,
    *chats.CASES,
    *templates.CASES,
    *tokens.CASES,
)
RUN_CASES: tuple[RunCase, ...] = run.CASES
OPTIONS = [
    pytest.param(case, option, id=f"{case.id}-{option}")
    for case in CASES
    for option in (case.reason.facts.default, *case.reason.facts.options)
    if option is not case.policy and case.reason.facts.scope is Scope.RECORD
]

Seen = Callable[[Case], Outcome]


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The outcome of a case, run once."""
    known: dict[str, Outcome] = {}

    def outcome(case: Case) -> Outcome:
        if case.id not in known:
            known[case.id] = outcome_of(case, tmp_path_factory.mktemp("case"))
        return known[case.id]

    return outcome


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_raw_input_gives_the_finding_in_its_place_and_no_other(case: Case, seen: Seen) -> None:
    outcome = seen(case)
    assert outcome.found == case.found
    assert outcome.counted <= {"duplicate_row"}  # what a repair makes of a record is often its near miss
    if case.reason.facts.scope is Scope.RECORD:
        assert case.at in (outcome.quarantined if case.policy is Policy.QUARANTINE else outcome.certified)
        assert case.at not in (outcome.certified if case.policy is Policy.QUARANTINE else outcome.quarantined)
    else:
        assert case.reason.facts.scope is Scope.FILE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_near_miss_is_certified_without_it(case: Case, seen: Seen) -> None:
    outcome = seen(case)
    assert case.near in outcome.certified
    assert case.near not in outcome.quarantined
    assert case.reason.slug not in outcome.found.get(case.near, ())


@pytest.mark.parametrize(("case", "option"), OPTIONS)
def test_a_policy_that_the_reason_allows_is_obeyed(case: Case, option: Policy, tmp_path: Path) -> None:
    outcome = outcome_of(case, tmp_path, {case.reason.slug: option.value})
    there, gone = outcome.certified, outcome.quarantined
    if option is Policy.QUARANTINE or case.final:
        there, gone = gone, there
    assert case.at in there - gone
    noted = outcome.found.get(case.at, set()) | outcome.counted
    assert noted >= case.under.get(option, {case.reason.slug})
    assert case.near in outcome.certified - outcome.quarantined


@pytest.mark.parametrize("case", RUN_CASES, ids=lambda case: case.id)
def test_the_run_ends_before_a_record_is_read(case: RunCase, tmp_path: Path) -> None:
    written(tmp_path, case.files)
    with pytest.raises((TokenizerError, SchemaError)) as caught:
        sanitized(tmp_path, case.schema, SilentWatch())
    assert case.reason.facts.title.casefold() in str(caught.value).casefold()
    assert caught.value.remedy
    assert not (tmp_path / "clean" / "certificate.json").exists()


@pytest.mark.parametrize("case", RUN_CASES, ids=lambda case: case.id)
def test_the_near_miss_of_the_run_is_certified(case: RunCase, tmp_path: Path) -> None:
    written(tmp_path, case.files)
    totals = sanitized(tmp_path, case.near_schema, SilentWatch()).totals
    assert totals["certified"] == totals["rows_read"] > 0
    assert (totals["reasons"], totals["flags"]) == ({}, {})


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.slug)
def test_every_reason_stands_in_the_table(reason: Reason) -> None:
    table = RUN_CASES if reason.facts.scope is Scope.RUN else CASES
    assert [case for case in table if case.reason is reason], f"no case for {reason.slug}"


def test_no_two_cases_have_one_name() -> None:
    ids = [case.id for case in (*CASES, *RUN_CASES)]
    assert len(ids) == len(set(ids))
