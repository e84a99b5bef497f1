"""The tokenizer: loaded once, its special tokens known, its digests taken, its texts encoded in batches.

Every text is encoded as plain text: nothing is added, and text that spells a control token never becomes one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.arrow_lists import within
from pipeline.errors import TokenizerError
from pipeline.models.fingerprint import canonical_digest, probe_digest
from pipeline.models.token_offsets import byte_places, bytes_of_characters, character_spans, token_bytes
from pipeline.models.tokenizer_engines import Engine, Int32s, Int64s, Reference, choose
from pipeline.models.tokenizer_files import ROLES, TokenizerFiles, alter, marks_first, read_folder

if TYPE_CHECKING:
    import numpy.typing as npt

    from pipeline.schema.model import Tokenizer as TokenizerSpec


# The special tokens that a tokenizer puts around one plain text, as its post-processor says.


PROBE, PROBE_ID = "a", 2**31 - 1


def affixes(state: dict[str, Any]) -> tuple[Int32s, Int32s]:
    """Ids before and after a text (``[CLS] … [SEP]``, ``<s> … </s>``, a start token alone), int32.

    The post-processor carries its ids, so it is asked over a vocabulary of one word: loading the tokenizer itself
    again would cost more than all else at the start of a run.

    Args:
        state: the parsed tokenizer.json.
    """
    import tokenizers

    processor = state.get("post_processor")
    if processor is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    model = {"type": "WordLevel", "vocab": {PROBE: PROBE_ID}, "unk_token": PROBE}
    small = {"version": "1.0", "added_tokens": [], "model": model, "post_processor": processor}
    names = ("truncation", "padding", "normalizer", "pre_tokenizer", "decoder")
    backend = tokenizers.Tokenizer.from_str(json.dumps(dict.fromkeys(names) | small))
    whole = np.asarray(backend.encode(PROBE, add_special_tokens=True).ids, np.int64)
    at = int(np.flatnonzero(whole == PROBE_ID)[0])
    return whole[:at].astype(np.int32), whole[at + 1 :].astype(np.int32)


# Words of pages, each tokenized once: pages repeat their words, so that a bounded memory of them pays.


CAPACITY = 200_000
"""Most words remembered; then the memory starts anew."""

Encode = Callable[[Sequence[str]], tuple[Int32s, Int64s]]


class WordCache:
    """Ids of words seen before."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._forget()

    def _forget(self) -> None:
        self._places: dict[str, int] = {}
        self._ids = np.empty(0, np.int32)
        self._lengths = np.empty(0, np.int64)

    def encode(self, words: Sequence[str] | pa.Array) -> tuple[Int32s, Int64s]:
        """Ids of all words one after the other, and the count of each."""
        array = words if isinstance(words, pa.Array) else pa.array(words, pa.string())
        if not len(array):
            return np.empty(0, np.int32), np.empty(0, np.int64)
        coded = array.dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        places = self._places_of(distinct)[coded.indices.to_numpy(zero_copy_only=False)]
        starts = np.cumsum(self._lengths) - self._lengths
        lengths = self._lengths[places]
        return self._ids[np.repeat(starts[places], lengths) + within(lengths)], lengths

    def _places_of(self, distinct: list[str]) -> Int64s:
        """Place of each word in the memory; words not seen before are tokenized and kept."""
        if len(self._places) + len(distinct) > max(CAPACITY, len(distinct)):
            self._forget()
        fresh = [word for word in distinct if word not in self._places]
        if fresh:
            ids, lengths = self._encode(fresh)
            self._places |= {word: len(self._places) + i for i, word in enumerate(fresh)}
            self._ids = np.concatenate([self._ids, ids])
            self._lengths = np.concatenate([self._lengths, lengths])
        return np.fromiter((self._places[word] for word in distinct), np.int64, len(distinct))


# The tokenizer: loaded once, its special tokens known, its digests taken, its texts encoded in batches.


class Tokenizer:
    """A tokenizer and what is known of it.

    Attributes:
        name: folder name or hub id.
        kind: class named by its configuration.
        size: number of tokens, added ones counted (``len(tokenizer)``).
        bos_id, eos_id, pad_id, cls_id, sep_id, unk_id, mask_id: ids of the special tokens, None when unset.
        control: id of each special token by its text.
        chat_template: its own template's source, or None.
        add_prefix_space: whether each text is encoded as if a space came before it.
    """

    def __init__(self, files: TokenizerFiles) -> None:
        self._files = files
        self._backend = _backend(files)
        self.name, self.kind = files.name, files.kind
        self.chat_template, self.add_prefix_space = files.chat_template, files.add_prefix_space
        self.max_length = files.max_length
        self.size = int(self._backend.get_vocab_size(with_added_tokens=True))
        self.special_texts = dict(files.specials)
        ids = {role: self._id_of(role) for role in ROLES}
        self.bos_id, self.eos_id, self.pad_id = ids["bos"], ids["eos"], ids["pad"]
        self.cls_id, self.sep_id = ids["cls"], ids["sep"]
        self.unk_id, self.mask_id = ids["unk"], ids["mask"]
        added = self._backend.get_added_tokens_decoder()
        self.added: dict[str, int] = {t.content: int(i) for i, t in sorted(added.items())}
        self.control: dict[str, int] = {t.content: int(i) for i, t in sorted(added.items()) if t.special}
        self.reference = Reference(self._backend)
        self._engine: Engine = self.reference
        self._characters = 0  # encoded so far; -1 once the engine is settled

    @cached_property
    def digest(self) -> str:
        """sha256 of its files (``fingerprint.canonical_digest``); taken when first asked for."""
        return canonical_digest({**self._files.state, **self._files.as_written})

    @cached_property
    def affixes(self) -> tuple[Int32s, Int32s]:
        """Special tokens before and after one plain text (``affixes.affixes``)."""
        return affixes(self._files.state)

    @cached_property
    def probe_digest(self) -> str:
        """sha256 of the ids of fixed texts (``fingerprint.probe_digest``)."""
        return probe_digest(self.reference.encode)

    @cached_property
    def is_control(self) -> npt.NDArray[np.bool_]:
        """bool [largest id + 1], true for the ids of control tokens."""
        top = max([self.size - 1, *self.added.values()]) + 1
        table = np.zeros(top, np.bool_)
        table[list(self.control.values())] = True
        return table

    @cached_property
    def byte_lengths(self) -> Int32s | None:
        """Bytes of text each token stands for, by id (``token_bytes``); None where tokens do not spell it."""
        return token_bytes(self._files.state, self.added)

    @cached_property
    def _words(self) -> WordCache:

        # Always the reference: distinct words are few, and fastokens 0.3.5 slows down with the square of their number
        # under RoBERTa's vocabulary (80,000 words of six letters: 5.9 s against 0.4 s).
        return WordCache(self.reference.encode)

    @property
    def engine(self) -> str:
        """Name of the engine that encodes now; for the run record."""
        return self._engine.name

    def expect(self, characters: int) -> None:
        """Say that about so many characters will be encoded, so that the faster engine is there from the first."""
        if self._characters >= 0:
            self._characters = max(self._characters, characters)

    def encode(self, texts: Sequence[str]) -> tuple[Int32s, Int64s]:
        """Ids of all texts one after the other, int32 [sum of lengths]; count of each, int64 [len(texts)]."""
        if self._characters >= 0:
            self._characters += sum(map(len, texts))
            if (engine := choose(self._files.state, self.reference, self._characters)) is not None:
                self._engine, self._characters = engine, -1
        return self._engine.encode(texts)

    def encode_bytes(self, texts: Sequence[str]) -> tuple[Int32s, Int64s, Int64s, Int64s]:
        """As ``encode``; then, for each id, the first and one past the last byte (UTF-8) within its own text."""
        table = self.byte_lengths
        if table is None:
            ids, lengths, starts, ends = self.reference.offsets(texts)
            odd = np.arange(len(texts))
        else:
            ids, lengths = self.encode(texts)
            starts, ends, sums = byte_places(ids, lengths, table)
            sizes = np.fromiter(
                (len(t) if t.isascii() else len(t.encode()) for t in texts), np.int64, len(texts)
            )
            odd = np.flatnonzero(sums != sizes)
            if not len(odd):
                return ids, lengths, starts, ends
        heads = np.cumsum(lengths) - lengths
        for i in odd.tolist():
            place = slice(int(heads[i]), int(heads[i] + lengths[i]))
            _, _, first, last = self.reference.offsets([texts[i]])
            starts[place], ends[place] = (bytes_of_characters(texts[i], part) for part in (first, last))
        return ids, lengths, starts, ends

    def encode_offsets(self, texts: Sequence[str]) -> tuple[Int32s, Int64s, Int64s, Int64s]:
        """As ``encode``; then, for each id, the first and one past the last character within its own text."""
        if self.byte_lengths is None:
            return self.reference.offsets(texts)
        ids, lengths, starts, ends = self.encode_bytes(texts)
        heads = np.cumsum(lengths) - lengths
        for i, text in enumerate(texts):
            if not text.isascii():
                place = slice(int(heads[i]), int(heads[i] + lengths[i]))
                starts[place], ends[place] = character_spans(text, starts[place], ends[place])
        return ids, lengths, starts, ends

    def encode_words(self, words: Sequence[str]) -> tuple[Int32s, Int64s]:
        """Ids of the words of pages, each encoded as one word of a pre-tokenized text; ``words`` may be an Arrow
        array of strings."""
        return self._words.encode(words)

    def altered(self, *, control: Sequence[str] = (), continuing: bool = False) -> Tokenizer:
        """The same tokenizer with more control tokens; or one that takes each text as the continuation of another
        (SentencePiece-style ones put a space before the first piece of a text only)."""
        return Tokenizer(alter(self._files, frozenset(control), continuing))

    def eating(self, side: str) -> list[str]:
        """Control tokens that swallow the white space after (``rstrip``) or before (``lstrip``) them."""
        tokens = self._backend.get_added_tokens_decoder().values()
        return sorted(t.content for t in tokens if t.special and getattr(t, side))

    @property
    def marks_first(self) -> bool:
        """Whether the first piece of a text is encoded otherwise than one that continues it."""
        return marks_first(self._files.state)

    def decode(self, ids: Sequence[int] | Int32s) -> str:
        """Text of the ids, special tokens included."""
        return str(self._backend.decode([int(i) for i in ids], skip_special_tokens=False))

    def token(self, token_id: int) -> str | None:
        """The token with this id as the vocabulary spells it."""
        text = self._backend.id_to_token(int(token_id))
        return None if text is None else str(text)

    def id_of(self, text: str) -> int | None:
        """Id of a token by its spelling in the vocabulary."""
        found = self._backend.token_to_id(text)
        return None if found is None else int(found)

    def describe(self) -> dict[str, object]:
        """What the certificate says of it; deterministic."""
        return {
            "class": self.kind or type(self).__name__,
            "size": self.size,
            "digest": self.digest,
            "probe_digest": self.probe_digest,
            "special_ids": {f"{role}_id": getattr(self, f"{role}_id") for role in ROLES},
        }

    def _id_of(self, role: str) -> int | None:
        text = self._files.specials.get(role)
        return None if text is None else self.id_of(text)


_LOADED: dict[tuple[str, str], Tokenizer] = {}


def load(spec: TokenizerSpec, schema_dir: Path) -> Tokenizer:
    """The tokenizer that a schema names; one a process, and another when a file of its folder changed since.

    Raises TokenizerError (exit 2) where the folder or hub id gives no usable tokenizer.
    """
    if spec.path is not None:
        folder = (schema_dir / spec.path).resolve()
        key = (str(folder), _stamp(folder))
        if key not in _LOADED:
            _LOADED[key] = Tokenizer(read_folder(folder, spec.path))
    else:
        from pipeline.models.tokenizer_files import read_hub

        key = (str(spec.hub), str(spec.revision))
        if key not in _LOADED:
            _LOADED[key] = Tokenizer(read_hub(str(spec.hub), str(spec.revision)))
    return _LOADED[key]


def _stamp(folder: Path) -> str:
    """Names, sizes and times of a folder's files; "" where there is none."""
    if not folder.is_dir():
        return ""
    found = sorted((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    return " ".join(f"{name} {facts.st_size} {facts.st_mtime_ns}" for name, facts in found)


def _backend(files: TokenizerFiles) -> Any:
    """The library's tokenizer: no post-processor, and the tokens which only the configuration names added to it,
    as transformers adds them."""
    import tokenizers

    state = {**files.state, "post_processor": None}
    try:
        backend = tokenizers.Tokenizer.from_buffer(msgspec.json.encode(state))
    except Exception as error:
        raise TokenizerError(
            "tokenizer.json is not usable",
            where=files.name,
            found=str(error)[:200],
            expected="a file that the tokenizers library can read",
            remedy="save the tokenizer again with this version of transformers",
        ) from None
    for token_id, (text, special) in sorted(files.added.items()):
        if backend.token_to_id(text) is None:
            _add(backend, text, special)
            if backend.token_to_id(text) != token_id:
                raise TokenizerError(
                    "tokenizer_config.json and tokenizer.json disagree on an added token",
                    where=files.name,
                    found=f"{text!r} gets id {backend.token_to_id(text)}",
                    expected=f"id {token_id}",
                    remedy="save the tokenizer again with this version of transformers",
                )
    for text in dict.fromkeys(files.specials.values()):
        known = backend.get_added_tokens_decoder()
        if not any(t.content == text and t.special for t in known.values()):
            _add(backend, text, special=True)
    return backend


def _add(backend: Any, text: str, special: bool) -> None:
    from tokenizers import AddedToken

    token = AddedToken(text, special=special, normalized=False)
    backend.add_special_tokens([token]) if special else backend.add_tokens([token])


def same_ids(left: tuple[Int32s, Int64s], right: tuple[Int32s, Int64s]) -> bool:
    """Whether two encodings of the same texts are equal."""
    return bool(np.array_equal(left[1], right[1]) and np.array_equal(left[0], right[0]))
