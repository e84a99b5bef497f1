"""Labels are ids of the closed list, in BIO order, with something to learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.reasons import Policy
from pipeline.schema.layout import Labels
from pipeline.stages.layout.labels import LabelNames, orphaned
from tests.stages.layout.documents import NAMES, Judged, judge, schema


def one(labels: list[Any], **declared: Any) -> Judged:
    words = [f"w{i}" for i in range(len(labels))]
    boxes = [[10.0 * i, 100.0, 10.0 * i + 9, 120.0] for i in range(len(labels))]
    page = {"words": words, "boxes": boxes, "labels": labels, "page_width": 1000, "page_height": 1000}
    policies = declared.pop("policies", {})
    of = schema(labels={"column": "labels", "names": NAMES, **declared}, geometry="off", policies=policies)
    return judge([page], of)


def test_names_become_their_places_in_the_list() -> None:
    judged = one(["O", "B-KEY", "I-KEY", "B-VALUE"])
    assert judged.column("@labels") == [0, 1, 2, 3]
    assert judged.slugs() == []


@pytest.mark.parametrize(
    ("name", "near"), [("b-key", "B-KEY"), ("B-KEYS", "B-KEY"), ("S-QUESTION", None), (None, None)]
)
def test_a_name_outside_the_list_is_shown_with_the_nearest(name: str | None, near: str | None) -> None:
    judged = one(["O", name])
    assert judged.slugs(policy=Policy.QUARANTINE) == ["label_unknown"]
    (finding,) = judged.findings.items
    assert list(finding.paths) == ["[1]"]
    assert "O, B-KEY, I-KEY, B-VALUE, I-VALUE" in finding.expected[0]
    assert (f"nearest: {near}" in finding.expected[0]) == (near is not None)


def test_case_is_folded_only_where_declared_and_recorded() -> None:
    judged = one(["b-key", "I-KEY"], fold_case=True)
    assert judged.good()
    assert judged.column("@labels") == [1, 2]
    assert judged.slugs(policy=Policy.REPAIR) == ["label_case_folded"]
    assert not one(["b-keys"], fold_case=True).good()


def test_case_is_not_folded_where_two_names_fit() -> None:
    judged = one(["b-key"], names=["O", "B-KEY", "B-Key"], fold_case=True)
    assert judged.slugs(policy=Policy.QUARANTINE) == ["label_unknown"]


@pytest.mark.parametrize(
    ("declared", "given", "ids"),
    [({}, -100, [1, -100]), ({"ignore_id": -1}, -1, [1, -100]), ({"ignore_id": 0}, 0, [1, -100])],
)
def test_the_declared_id_means_no_label(declared: dict[str, int], given: int, ids: list[int]) -> None:
    judged = one([1, given], form="ids", scheme="none", **declared)
    assert judged.good()
    assert judged.column("@labels") == ids


@pytest.mark.parametrize("declared", [{"ignore_id": -1}, {"ignore_id": None}])
def test_what_means_no_label_elsewhere_is_out_of_range_here(declared: dict[str, int | None]) -> None:
    judged = one([1, -100], form="ids", scheme="none", **declared)
    assert judged.slugs(policy=Policy.QUARANTINE) == ["label_out_of_range"]


@pytest.mark.parametrize("bad", [5, -1, -99, 2**40])
def test_ids_outside_the_list(bad: int) -> None:
    judged = one([1, bad], form="ids")
    assert judged.slugs(policy=Policy.QUARANTINE) == ["label_out_of_range"]
    assert list(judged.findings.items[0].found) == [str(bad)]


def test_ids_within_the_list_and_the_ignored_one() -> None:
    judged = one([0, 4, -100], form="ids", scheme="none")
    assert judged.good()
    assert judged.column("@labels") == [0, 4, -100]


def test_null_is_no_id() -> None:
    assert "label_not_integer" in one([0, None], form="ids").slugs(policy=Policy.QUARANTINE)


def test_a_page_with_ignored_labels_only_teaches_nothing() -> None:
    assert one([-100, -100], form="ids").slugs(policy=Policy.QUARANTINE) == ["label_all_ignored"]
    assert one([-100, 0], form="ids").good()


def test_broken_order_is_flagged_or_refused() -> None:
    judged = one(["O", "I-KEY"])
    assert judged.good()
    assert judged.slugs(policy=Policy.FLAG) == ["label_scheme_invalid"]
    assert list(judged.findings.items[0].found) == ["I-KEY after O"]
    assert not one(["O", "I-KEY"], policies={"label_scheme_invalid": "quarantine"}).good()
    assert one(["I-KEY"], scheme="none").slugs() == []


_BIOES = ("O", "B-K", "I-K", "E-K", "S-K", "B-V", "I-V", "E-V", "S-V")
_BIO = ("O", "B-K", "I-K", "B-V", "I-V")


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=7), min_size=1, max_size=4))
def test_bio_order_as_a_machine_sees_it(pages: list[list[int]]) -> None:
    names = LabelNames.of(Labels(column="l", names=_BIO, scheme="bio"))
    got = names.breaks(np.concatenate(pages), np.array([len(page) for page in pages]))
    expected = []
    for page in pages:
        previous = "O"
        for label in (_BIO[i] for i in page):
            expected.append(label[0] == "I" and previous[2:] != label[2:])
            previous = label
    assert got.tolist() == expected


@given(st.lists(st.integers(0, 8), min_size=1, max_size=8))
def test_bioes_order_as_a_machine_sees_it(page: list[int]) -> None:
    names = LabelNames.of(Labels(column="l", names=_BIOES, scheme="bioes"))
    got = names.breaks(np.array(page), np.array([len(page)]))
    state: str | None = None  # the entity that must go on
    sound = True
    for label in (_BIOES[i] for i in page):
        part, kind = label[0], label[2:] or None
        sound &= (kind == state) if part in "IE" else state is None
        state = kind if part in "BI" else None
    sound &= state is None
    assert (not got.any()) == sound


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=10))
def test_dropping_words_keeps_every_entity_whole_or_is_refused(page: list[tuple[int, bool]]) -> None:
    names = LabelNames.of(Labels(column="l", names=_BIO, scheme="bio"))
    ids, keep = np.array([label for label, _ in page]), np.array([kept for _, kept in page])
    refused = orphaned(names, ids, np.array([len(page)]), keep)[0]
    if refused or names.breaks(ids, np.array([len(ids)])).any():
        return
    whole, left = _entities([_BIO[i] for i in ids]), _entities([_BIO[i] for i in ids[keep]])
    numbers = np.cumsum(keep) - 1
    expected = [[int(numbers[at]) for at in entity if keep[at]] for entity in whole]
    assert left == [entity for entity in expected if entity]


def _entities(labels: list[str]) -> list[list[int]]:
    """Places of the words of each entity."""
    found: list[list[int]] = []
    for at, label in enumerate(labels):
        if label[0] == "B":
            found.append([at])
        elif label[0] == "I":
            found[-1].append(at)
    return found
