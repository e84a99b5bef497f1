"""The tokenizer: what a folder says, plain text stays plain, places and digests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Exit, TokenizerError
from pipeline.models.tokenizer import Tokenizer, load
from pipeline.models.tokenizer_files import read_folder
from pipeline.schema.model import Tokenizer as Spec

TINY = Path(__file__).resolve().parents[2] / "data_samples" / "tokenizers"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.fixture(scope="module")
def llama() -> Tokenizer:
    return Tokenizer(read_folder(TINY / "tiny-llama3", "tiny-llama3"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the small tokenizer that a test may change."""
    return Path(shutil.copytree(TINY / "tiny-llama3", tmp_path / "copy"))


def config(folder: Path, **settings: object) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | settings), "utf-8")


def rows(flat: tuple[np.ndarray, np.ndarray]) -> list[list[int]]:
    ids, lengths = flat
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if len(lengths) else []


def test_a_folder_says_its_special_tokens(llama: Tokenizer) -> None:
    assert llama.token(llama.bos_id or -1) == "<|begin_of_text|>"
    assert llama.token(llama.eos_id or -1) == "<|eot_id|>"
    assert llama.control["<|start_header_id|>"] == llama.id_of("<|start_header_id|>")
    assert llama.pad_id is not None
    assert llama.pad_id < llama.size


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: shutil.rmtree(folder), "folder not found"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{", "utf-8"), "cannot be read"),
        (lambda folder: (folder / "tokenizer.json").write_text("[]", "utf-8"), "no JSON object"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}", "utf-8"), "no model"),
        (
            lambda folder: (folder / "tokenizer.json").write_text('{"model": {"type": "?"}}', "utf-8"),
            "not usable",
        ),
    ],
)
def test_a_folder_that_is_none_is_one_clear_error(copy: Path, change, words: str) -> None:  # type: ignore[no-untyped-def]
    change(copy)
    with pytest.raises(TokenizerError, match=words) as caught:
        load(Spec(path=str(copy)), Path("/"))
    assert caught.value.exit is Exit.USAGE


def test_a_hub_id_without_a_network_says_what_to_do() -> None:
    with pytest.raises(TokenizerError) as caught:
        load(Spec(hub="nobody/no-such-tokenizer", revision="0" * 40), Path("/"))
    assert "save the tokenizer to a folder" in caught.value.remedy


def test_one_tokenizer_a_process() -> None:
    spec = Spec(path="tiny-llama3")
    assert load(spec, TINY) is load(spec, TINY)


@given(
    st.lists(texts, max_size=4), st.sampled_from(["<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>"])
)
def test_control_text_never_becomes_a_control_token(parts: list[str], token: str) -> None:
    tokenizer = load(Spec(path="tiny-llama3"), TINY)
    text = token.join(["", *parts, ""])
    ids, _ = tokenizer.encode([text])
    assert not set(ids.tolist()) & set(tokenizer.control.values())
    assert tokenizer.decode(ids) == text


def offsets(tokenizer: Tokenizer, batch: list[str]) -> tuple[list[int], list[int], list[int], list[int]]:
    """As ``Reference.offsets``, from the bytes: a token that holds part of a character spans all of it."""
    ids, lengths, starts, ends = tokenizer.encode_bytes(batch)
    owner = np.repeat(np.arange(len(batch)), lengths)
    firsts, pasts = [], []
    for i, start, end in zip(owner.tolist(), starts.tolist(), ends.tolist(), strict=True):
        begun = np.cumsum((np.frombuffer(batch[i].encode(), np.uint8) & 0xC0) != 0x80)
        first = int(begun[min(start, len(begun) - 1)]) - 1
        firsts.append(first)
        pasts.append(int(begun[max(end - 1, 0)]) if end > start else first)
    return ids.tolist(), lengths.tolist(), firsts, pasts


@pytest.mark.parametrize("name", ["tiny-llama3", "tiny-layoutlmv3"])
@given(batch=st.lists(texts, max_size=5))
def test_places_are_the_references(name: str, batch: list[str]) -> None:
    tokenizer = load(Spec(path=name), TINY)
    for ours, theirs in zip(offsets(tokenizer, batch), tokenizer.reference.offsets(batch), strict=True):
        assert ours == theirs.tolist()


@given(st.lists(texts, min_size=1, max_size=4))
def test_byte_places_cut_the_bytes_of_the_text(batch: list[str]) -> None:
    tokenizer = load(Spec(path="tiny-llama3"), TINY)
    _, lengths, starts, ends = tokenizer.encode_bytes(batch)
    owner = np.repeat(np.arange(len(batch)), lengths)
    for i, text in enumerate(batch):
        pieces = [text.encode()[a:b] for a, b in zip(starts[owner == i], ends[owner == i], strict=True)]
        assert b"".join(pieces) == text.encode()


@given(st.lists(texts, max_size=12))
def test_words_are_encoded_as_if_each_stood_alone(words: list[str]) -> None:
    tokenizer = load(Spec(path="tiny-layoutlmv3"), TINY)
    repeated = words + words[::2]
    assert rows(tokenizer.encode_words(repeated)) == rows(tokenizer.reference.encode(repeated))


def test_the_memory_of_words_starts_anew_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.models import tokenizer as module

    monkeypatch.setattr(module, "CAPACITY", 3)
    tokenizer = load(Spec(path="tiny-layoutlmv3"), TINY)
    memory = module.WordCache(tokenizer.reference.encode)
    for batch in (["a", "b"], ["c", "d", "a"], ["e"] * 3, [], ["a", "b", "c", "d", "e"]):
        assert rows(memory.encode(batch)) == rows(tokenizer.reference.encode(batch))


def test_tokens_that_only_the_configuration_names_are_added(copy: Path, llama: Tokenizer) -> None:
    config(copy, pad_token="<|my_pad|>")  # noqa: S106
    changed = Tokenizer(read_folder(copy, "copy"))
    assert (changed.size, changed.pad_id) == (llama.size + 1, llama.size)


def test_an_added_token_with_another_id_is_an_error(copy: Path) -> None:
    config(copy, added_tokens_decoder={"99999": {"content": "<|far|>", "special": True}})
    with pytest.raises(TokenizerError, match="disagree"):
        Tokenizer(read_folder(copy, "copy"))


def test_the_template_file_wins_over_the_configuration(copy: Path) -> None:
    (copy / "chat_template.jinja").write_text("mine", "utf-8")
    assert read_folder(copy, "copy").chat_template == "mine"
    config(copy, chat_template=[{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}])
    (copy / "chat_template.jinja").unlink()
    assert read_folder(copy, "copy").chat_template == "d"


def test_the_digest_sees_the_vocabulary_and_not_a_truncating_call(copy: Path, llama: Tokenizer) -> None:
    path = copy / "tokenizer.json"
    state = json.loads(path.read_text("utf-8"))
    path.write_text(
        json.dumps({"truncation": {"max_length": 9}, **state} | {"truncation": {"max_length": 9}})
    )
    assert Tokenizer(read_folder(copy, "copy")).digest == llama.digest
    state["added_tokens"][-1]["content"] = "<|other|>"
    path.write_text(json.dumps(state))
    assert Tokenizer(read_folder(copy, "copy")).digest != llama.digest


def test_the_digest_is_of_the_file_as_written(copy: Path, llama: Tokenizer) -> None:
    config(copy, add_prefix_space=True)
    assert Tokenizer(read_folder(copy, "copy")).digest == llama.digest


def test_the_probe_digest_sees_another_behaviour(copy: Path, llama: Tokenizer) -> None:
    path = copy / "tokenizer.json"
    state = json.loads(path.read_text("utf-8"))
    state["model"]["merges"] = state["model"]["merges"][:-200]
    path.write_text(json.dumps(state))
    assert Tokenizer(read_folder(copy, "copy")).probe_digest != llama.probe_digest


def test_more_control_tokens_on_demand(copy: Path) -> None:
    path = copy / "tokenizer.json"
    state = json.loads(path.read_text("utf-8"))
    for token in state["added_tokens"]:
        token["special"] = token["content"] != "<|eot_id|>"
    path.write_text(json.dumps(state))
    config(copy, eos_token="<|end_of_text|>")  # noqa: S106
    weak = Tokenizer(read_folder(copy, "copy"))
    strong = weak.altered(control=["<|eot_id|>"])
    assert weak.encode(["<|eot_id|>"])[0].tolist() == [weak.id_of("<|eot_id|>")]
    assert len(strong.encode(["<|eot_id|>"])[0]) > 1
    assert "<|eot_id|>" in strong.control


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["llama3", "qwen2_5", "mistral_v3", "layoutlmv3-base", "bert-base-uncased"])
def test_ids_are_those_of_transformers(shared: Path, name: str) -> None:
    from transformers import AutoTokenizer

    from pipeline.models.fingerprint import PROBE_TEXTS

    ours = load(Spec(path=name), shared / "tokenizers")
    theirs = AutoTokenizer.from_pretrained(shared / "tokenizers" / name)
    assert ours.size == len(theirs)
    assert ours.bos_id == theirs.bos_token_id
    assert ours.pad_id == theirs.pad_token_id
    plain = [text for text in PROBE_TEXTS if "<s>" not in text]
    if name == "layoutlmv3-base":
        expected = [
            theirs([text], boxes=[[0, 0, 0, 0]], add_special_tokens=False)["input_ids"] for text in plain
        ]
    else:
        expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in plain]
    assert rows(ours.encode(plain)) == expected


@pytest.mark.shared
@pytest.mark.parametrize("name", ["llama3", "qwen2_5", "mistral_v3"])
def test_places_of_large_vocabularies_are_the_references(shared: Path, name: str) -> None:
    from pipeline.models.tokenizer_engines import selftest_texts

    tokenizer = load(Spec(path=name), shared / "tokenizers")
    probes = selftest_texts()
    for ours, theirs in zip(offsets(tokenizer, probes), tokenizer.reference.offsets(probes), strict=True):
        assert ours == theirs.tolist()
