"""The second pass finds the same repeats whether conversations stand alone or are packed into sequences."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.duplicates import _keys
from pipeline.report.events import Options, SilentWatch
from pipeline.run import run

SCHEMA = """\
version: 1
name: talks
kind: chat
files: ["*.jsonl"]
chat:
  source: {{format: messages}}
  max_tokens: 64
{packing}tokenizer: {{path: {tokenizer}}}
quarantine: {{max_rate: 1.0}}
policies: {{duplicate_row: {policy}}}
split: {{key: content, shares: {{train: 0.6, eval: 0.4}}}}
"""
ANSWERS = st.lists(
    st.sampled_from(["yes", "no", "maybe so", "not today", "ask again"]), min_size=1, max_size=12
)


def found(
    folder: Path, files: list[list[str]], policy: str, *, packed: bool
) -> tuple[set[str], set[str], dict[str, int]]:
    """Conversations certified, those set aside, and the counts of repeats."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "raw").mkdir(parents=True)
    for number, answers in enumerate(files):
        talks = [
            {"messages": [{"role": "user", "content": "well?"}, {"role": "assistant", "content": a}]}
            for a in answers
        ]
        (folder / "raw" / f"{number}.jsonl").write_text("\n".join(map(json.dumps, talks)))
    tokenizer = Path(__file__).resolve().parents[1] / "data_samples" / "tokenizers" / "tiny-llama3"
    packing = "  packing: {capacity: 64}\n" if packed else ""
    schema = folder / "s.yaml"
    schema.write_text(SCHEMA.format(packing=packing, tokenizer=tokenizer, policy=policy))
    run(Options(folder / "raw", folder / "clean", (schema,), fsync=False, max_quarantine=1.0), SilentWatch())
    certified: set[str] = set()
    noted: set[str] = set()
    predicate = json.loads((folder / "clean" / "certificate.json").read_bytes())["predicate"]
    for entry in predicate["files"]:
        if entry["folder"].startswith("quarantine"):
            continue
        with pa.ipc.open_stream((folder / "clean" / entry["folder"] / entry["name"]).read_bytes()) as stream:
            for row in stream.read_all().to_pylist():
                inside = row["samples"] if packed else [row["sample_id"]]
                certified |= set(inside)
                noted |= set(inside) if not packed and row["notes"] else set()
                assert not packed or policy == "quarantine" or len(row["notes"]) <= 2
    return certified, noted, predicate["totals"]["reasons"] | dict(predicate["repeated"].get("talks", {}))


@settings(max_examples=12, deadline=None)
@given(st.lists(ANSWERS, min_size=1, max_size=3), st.sampled_from(["quarantine", "flag"]))
def test_packed_and_unpacked_find_the_same_repeats_and_overlaps(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], policy: str
) -> None:
    folder = tmp_path_factory.mktemp("talks")
    alone, noted, counts = found(folder / "alone", files, policy, packed=False)
    packed, _, counts_packed = found(folder / "packed", files, policy, packed=True)
    assert packed == alone
    assert counts_packed == counts
    texts = [answer for answers in files for answer in answers]
    repeated = len(texts) - len(set(texts))
    # The split follows the content, so that equal conversations are never in two splits.
    assert counts == ({"duplicate_row": repeated} if repeated else {})
    assert len(noted) == (repeated if policy == "flag" else 0)


def test_content_ids_of_another_type_than_the_shards_have_are_refused() -> None:
    with pytest.raises(TypeError, match="large_string"):
        _keys(pa.array(["0123456789abcdef"], pa.large_string()))
