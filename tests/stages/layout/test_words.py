"""Words stay aligned with boxes and labels, whatever is dropped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.reasons import Policy
from tests.stages.layout.documents import NAMES, Judged, judge, schema


def page(words: list[Any], labels: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """Words in a row, each with a box that tells its place."""
    boxes = [[10.0 * i, 100.0, 10.0 * i + 9, 120.0] for i in range(len(words))]
    return {
        "words": words,
        "boxes": boxes,
        "labels": labels or ["O"] * len(words),
        "page_width": 1000,
        "page_height": 1000,
        **more,
    }


def one(words: list[Any], labels: list[str] | None = None, **options: Any) -> Judged:
    return judge([page(words, labels)], schema(geometry="off", **options))


@pytest.mark.parametrize(
    "blank", ["", " ", "\t\n", "\u200b", "\ufeff", "\u00ad", "\u2060\u200d", "\u3164", "\x01", "\xa0"]
)
def test_blank_words_go_with_their_box_and_label(blank: str) -> None:
    judged = one(["Telefon", blank, "0421"], ["B-KEY", "I-KEY", "B-VALUE"])
    assert judged.good()
    assert judged.slugs(policy=Policy.REPAIR) == ["word_empty"]
    assert judged.column("@words") == ["Telefon", "0421"]
    assert judged.boxes() == [[0, 100, 9, 120], [20, 100, 29, 120]]
    assert judged.column("@labels") == [1, 3]
    assert judged.column("@word_index") == [0, 2]


@pytest.mark.parametrize(
    "visible", ["-", ".", "☐", "e\u0301", "a\u200bb", "\U0001f468\u200d\U0001f469", "|", "\ue000"]
)
def test_what_can_be_seen_is_no_blank(visible: str) -> None:
    judged = one(["a", visible])
    assert judged.column("@words") == ["a", visible]
    assert judged.slugs() == []


def test_blank_words_may_be_refused() -> None:
    assert not one(["a", ""], policies={"word_empty": "quarantine"}).good()


@pytest.mark.parametrize(
    ("words", "labels", "good"),
    [
        (["", "b"], ["B-KEY", "I-KEY"], False),  # the I- would be alone
        (["", ""], ["B-KEY", "I-KEY"], False),  # no word is left
        (["", "", "c"], ["B-KEY", "I-KEY", "O"], True),  # the whole entity goes
        (["a", "", "c"], ["B-KEY", "I-KEY", "I-KEY"], True),
        (["a", "", "c"], ["B-KEY", "B-KEY", "I-KEY"], False),  # the I- would join another entity
        (["a", "", "c"], ["B-KEY", "O", "B-KEY"], True),
        (["", "b"], ["B-KEY", "B-KEY"], True),
    ],
)
def test_a_blank_first_word_of_an_entity_rejects_the_page(
    words: list[str], labels: list[str], good: bool
) -> None:
    judged = one(words, labels)
    assert judged.good() == good
    assert "word_empty" in judged.slugs(policy=Policy.REPAIR if good else None)


def test_the_end_of_a_bioes_entity_is_not_dropped_either() -> None:
    of = schema(labels={"column": "labels", "names": ["O", "B-K", "I-K", "E-K", "S-K"], "scheme": "bioes"})
    pages = [
        page(["a", ""], ["B-K", "E-K"]),
        page(["a", "", "c"], ["B-K", "I-K", "E-K"]),
        page(["a", ""], ["O", "S-K"]),
    ]
    judged = judge(pages, of)
    assert [judged.good(record) for record in range(3)] == [False, True, True]


def test_a_page_of_blank_words_is_empty() -> None:
    judged = one(["", "  "])
    assert "doc_empty" in judged.slugs(policy=Policy.QUARANTINE)
    assert "doc_empty" in one([]).slugs(policy=Policy.QUARANTINE)


def test_declared_pseudo_words_go_before_their_boxes_are_judged() -> None:
    given_page = page(["Tabelle", "##LTLine##", "42"], ["B-KEY", "nonsense", "B-VALUE"])
    given_page["boxes"][1] = [100, 130, 900, 130]  # no area
    judged = judge([given_page], schema(drop_words=["^##LT.*##$"]))
    assert judged.good()
    assert judged.slugs() == ["word_dropped"]
    assert judged.column("@words") == ["Tabelle", "42"]
    assert judged.column("@labels") == [1, 3]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError, match="drop_words"):
        judge([], schema(drop_words=["(?<=a)b"]))


@pytest.mark.parametrize(
    ("words", "boxes", "labels", "reason", "found"),
    [
        (["a", "b", "c"], 2, 3, "words_boxes_mismatch", "3 words, 2 boxes"),
        (["a", "b"], 2, 1, "words_labels_mismatch", "2 words, 1 labels"),
        (["a"], 0, 1, "words_boxes_mismatch", "1 words, 0 boxes"),
    ],
)
def test_lists_of_different_length_are_never_cut(
    words: list[str], boxes: int, labels: int, reason: str, found: str
) -> None:
    given_page = page(words)
    given_page["boxes"] = [[1, 1, 5, 5]] * boxes
    given_page["labels"] = ["O"] * labels
    judged = judge([given_page, page(["fine"])], schema())
    assert judged.slugs(0) == [reason]
    assert [list(item.found) for item in judged.findings.items] == [[found]]
    assert judged.column("@words", 0) is None
    assert judged.good(1)
    assert judged.column("@words", 1) == ["fine"]


def test_records_that_are_bad_already_pass_through() -> None:
    nothing = {"words": None, "boxes": None, "labels": None, "page_width": None, "page_height": None}
    judged = judge(
        [nothing, page(["a"]), {**page(["b"]), "boxes": None}, {**page(["c"]), "labels": None}], schema()
    )
    assert judged.column("@words") is None
    assert judged.boxes(1) == [[0, 100, 9, 120]]
    assert judged.column("@words", 2) is None
    assert judged.column("@words", 3) is None


def test_a_page_without_labels_where_they_are_optional_teaches_nothing() -> None:
    labels = {"column": "labels", "names": NAMES, "required": False}
    judged = judge([{**page(["c"]), "labels": None}], schema(labels=labels))
    assert judged.slugs(policy=Policy.QUARANTINE) == ["label_all_ignored"]


def test_null_is_no_word() -> None:
    judged = one(["a", None])
    assert judged.slugs(policy=Policy.QUARANTINE) == ["word_not_text"]
    assert judged.slugs() == ["word_not_text"]


@pytest.mark.parametrize(("bad", "repaired"), [("a\x00b", "ab"), ("caf\ufffd", "caf")])
def test_characters_that_are_none(bad: str, repaired: str) -> None:
    assert one([bad]).slugs(policy=Policy.QUARANTINE) == ["text_invalid_unicode"]
    judged = one([bad], policies={"text_invalid_unicode": "repair"})
    assert judged.good()
    assert judged.column("@words") == [repaired]


def test_white_space_around_a_word_is_taken_off_and_recorded() -> None:
    judged = one([" Total\n", "New York"])
    assert judged.column("@words") == ["Total", "New York"]
    assert judged.slugs(policy=Policy.REPAIR) == ["word_trimmed"]


def test_a_word_that_spells_a_control_token_is_named() -> None:
    judged = one(["</s>", "a<pad>b", "<s", "s>"])
    assert judged.good()
    (finding,) = judged.findings.items
    assert (finding.reason.slug, list(finding.paths)) == ("word_control_token", ["[0]", "[1]"])
    assert not one(["</s>"], policies={"word_control_token": "quarantine"}).good()


_words = st.lists(st.sampled_from(["a", "Beleg", "", " ", "\u200b", "##X##", "7"]), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(_words, min_size=1, max_size=4), st.data())
def test_each_kept_word_keeps_its_own_box_and_label(pages: list[list[str]], data: st.DataObject) -> None:
    given_pages = [
        page(
            words,
            data.draw(st.lists(st.sampled_from(["O", "B-KEY"]), min_size=len(words), max_size=len(words))),
        )
        for words in pages
    ]
    judged = judge(given_pages, schema(drop_words=["^##"], geometry="off"))
    for record, written in enumerate(given_pages):
        kept = [
            i for i, word in enumerate(written["words"]) if word.strip() and word not in ("\u200b", "##X##")
        ]
        assert judged.column("@word_index", record) == kept
        assert judged.column("@words", record) == [written["words"][i] for i in kept]
        assert judged.boxes(record) == [written["boxes"][i] for i in kept]
        assert judged.column("@labels", record) == [NAMES.index(written["labels"][i]) for i in kept]
