"""Samples: ids, boxes and labels in step; windows that come together to the page again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.reasons import Policy
from pipeline.stages.layout.stage import LayoutKind
from pipeline.train.windows import page_of, stitch, stitch_tokens
from tests.stages.layout.documents import NAMES, Judged, context, encode, schema


def page(words: list[str], labels: list[str] | None = None) -> dict[str, Any]:
    boxes = [
        [float(i % 90), float(i // 90), float(i % 90) + 5, float(i // 90) + 5] for i in range(len(words))
    ]
    return {
        "words": words,
        "boxes": boxes,
        "labels": labels or ["O"] * len(words),
        "page_width": 100,
        "page_height": 100,
    }


def rows(judged: Judged) -> list[dict[str, Any]]:
    assert judged.samples is not None
    return judged.samples.table.to_pylist()


@pytest.mark.parametrize("align", ["first_subword", "all_subwords"])
def test_every_token_has_the_box_and_label_of_its_word(align: str) -> None:
    labels = {"column": "labels", "names": NAMES, "align": align}
    words = ["Rechnungsbetrag", "42,00", "EUR"]
    judged = encode([page(words, ["B-KEY", "B-VALUE", "I-VALUE"])], schema(labels=labels, geometry="off"))
    (row,) = rows(judged)
    tokenizer = context(schema()).tokenizer
    assert tokenizer is not None
    ids, counts = tokenizer.encode_words(words)
    owner = np.repeat(np.arange(3), counts)
    assert counts[0] > 1
    assert row["input_ids"] == [tokenizer.cls_id, *ids.tolist(), tokenizer.sep_id]
    assert row["attention_mask"] == [1] * len(row["input_ids"])
    assert row["word_ids"] == [-1, *owner.tolist(), -1]
    certified = judged.boxes()
    assert certified is not None
    assert row["bbox"] == [[0] * 4, *(certified[i] for i in owner), [0] * 4]
    first = np.append(True, owner[1:] != owner[:-1])
    expected = [
        [1, 3, 4][w] if align == "all_subwords" or f else -100 for w, f in zip(owner, first, strict=True)
    ]
    assert row["labels"] == [-100, *expected, -100]


def test_a_control_token_as_a_word_stays_text() -> None:
    judged = encode([page(["</s>", "<pad>"])], schema(geometry="off"))
    (row,) = rows(judged)
    tokenizer = context(schema()).tokenizer
    assert tokenizer is not None
    inner = row["input_ids"][1:-1]
    assert not set(inner) & set(tokenizer.control.values())
    assert tokenizer.decode(inner).replace(" ", "") == "</s><pad>"


def test_the_shard_schema_is_the_kinds_own_with_or_without_labels_and_record() -> None:
    for of in (schema(geometry="off"), schema(labels={}, geometry="off", output={"keep_record": True})):
        judged = encode([page(["a"])], of)
        assert judged.samples is not None
        assert judged.samples.table.schema.equals(LayoutKind().stages(context(of)).shard)
        assert pa.types.is_fixed_size_list(judged.samples.table.schema.field("bbox").type.value_type)


def test_the_record_is_kept_as_certified() -> None:
    given_page = page(["a", " ", "b"], ["B-KEY", "O", "O"])
    (row,) = rows(encode([given_page], schema(geometry="off", output={"keep_record": True})))
    assert (
        row["record"]
        == '{"words": ["a", "b"], "bboxes": [[0, 0, 50, 50], [20, 0, 70, 50]], "labels": ["B-KEY", "O"]}'
    )


def test_no_good_page_gives_no_sample() -> None:
    judged = encode([page([])], schema())
    assert judged.samples is not None
    assert judged.samples.table.num_rows == 0


def test_windows_are_recorded_and_named() -> None:
    words = [f"w{i}" for i in range(700)]
    judged = encode([page(["short"]), page(words)], schema(geometry="off"))
    found = rows(judged)
    long = [row for row in found if row["row"] == 2]
    assert len(long) > 1
    assert [row["window"] for row in long] == list(range(len(long)))
    assert {row["windows"] for row in long} == {len(long)}
    assert [row["sample_id"] for row in long] == [f"pages.jsonl#2#w{k}" for k in range(len(long))]
    assert max(len(row["input_ids"]) for row in found) <= 512
    assert judged.slugs(1, Policy.REPAIR) == ["sequence_too_long"]
    assert judged.slugs(0) == []
    assert judged.samples is not None
    assert judged.samples.ids.tolist() == [0] + [1] * len(long)


def test_windows_may_be_refused() -> None:
    judged = encode(
        [page([f"w{i}" for i in range(700)])], schema(policies={"sequence_too_long": "quarantine"})
    )
    assert judged.slugs(policy=Policy.QUARANTINE) == ["sequence_too_long"]


def test_the_family_limits_the_window() -> None:
    of = schema(geometry="off", window={"max_tokens": 5000, "stride": 0})
    judged = encode([page([f"w{i}" for i in range(900)])], of)
    assert max(len(row["input_ids"]) for row in rows(judged)) == 512


def test_a_stride_as_long_as_the_window_is_refused() -> None:
    with pytest.raises(SchemaError, match="move on"):
        encode([], schema(window={"max_tokens": 100, "stride": 98}))


def test_a_word_longer_than_a_window_gives_no_window_without_a_label() -> None:
    word = "x9" * 400
    judged = encode([page(["a", word, "b"])], schema(geometry="off", window={"max_tokens": 64, "stride": 8}))
    for row in rows(judged):
        assert any(label != -100 for label in row["labels"])
    words = {i for row in rows(judged) for i in row["word_ids"]}
    assert words == {-1, 0, 1, 2}


_text = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=("Cc", "Cf", "Zs")),
    min_size=1,
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(_text, st.integers(0, 9999).map(str)), min_size=1, max_size=60),
        min_size=1,
        max_size=3,
    ),
    st.integers(8, 40),
    st.integers(0, 30),
    st.sampled_from(["first_subword", "all_subwords"]),
)
def test_windows_come_together_to_the_page(
    pages: list[list[str]], longest: int, stride: int, align: str
) -> None:
    stride = min(stride, longest - 3)
    labels = {"column": "labels", "names": NAMES, "align": align}
    given_pages = [page(words, [NAMES[len(w) % 5] for w in words]) for words in pages]
    of = schema(labels=labels, geometry="off", window={"max_tokens": longest, "stride": stride})
    judged = encode(given_pages, of)
    found = rows(judged)
    tokenizer = context(of).tokenizer
    assert tokenizer is not None
    by_page: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        assert (
            len(row["input_ids"]) == len(row["bbox"]) == len(row["labels"]) == len(row["word_ids"]) <= longest
        )
        by_page.setdefault(page_of(row["sample_id"]), []).append(row)
    # Stitched by word, the labels of the windows are the labels of the page: nothing lost, nothing doubled.
    stitched = stitch(
        [page_of(row["sample_id"]) for row in reversed(found)],
        [row["window"] for row in reversed(found)],
        [row["word_ids"] for row in reversed(found)],
        [row["labels"] for row in reversed(found)],
    )
    for record, written in enumerate(given_pages):
        key = f"pages.jsonl#{record + 1}"
        assert stitched[key].words.tolist() == list(range(len(written["words"])))
        assert stitched[key].values.tolist() == [NAMES.index(name) for name in written["labels"]]
        learnt = [label for row in by_page[key] for label in row["labels"] if label != -100]
        if align == "first_subword":
            assert learnt == stitched[key].values.tolist()
        else:
            ids, counts = tokenizer.encode_words(written["words"])
            assert (
                stitch_tokens([np.array(row["input_ids"]) for row in by_page[key]], stride).tolist()
                == ids.tolist()
            )
            assert len(learnt) == int(counts.sum())
