"""The tokenizer: load it once, know its special tokens and digests, and encode texts in batches.

Every text is encoded as plain text: no token is added, and a text that spells a control token never becomes one.
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
from pipeline.models.token_offsets import byte_spans, bytes_of_characters, token_bytes
from pipeline.models.tokenizer_engines import Engine, Int32s, Int64s, Reference, choose
from pipeline.models.tokenizer_files import ROLES, TokenizerFiles, alter, marks_first, read_folder

if TYPE_CHECKING:
    import numpy.typing as npt

    from pipeline.schema.model import Tokenizer as TokenizerSpec


PROBE, PROBE_ID = "a", 2**31 - 1


def affixes(state: dict[str, Any]) -> tuple[Int32s, Int32s]:
    """The ids that a tokenizer adds before and after a text (``[CLS] … [SEP]``, ``<s> … </s>``, a start token), int32.

    The post-processor holds these ids, so a vocabulary of one word is enough to get them. To load the tokenizer a
    second time would be the largest cost at the start of a run.

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
    ids = np.asarray(backend.encode(PROBE, add_special_tokens=True).ids, np.int64)
    word = int(np.flatnonzero(ids == PROBE_ID)[0])
    return ids[:word].astype(np.int32), ids[word + 1 :].astype(np.int32)


CAPACITY = 200_000
"""Largest number of words in a ``WordCache``; a full cache is emptied."""

Encode = Callable[[Sequence[str]], tuple[Int32s, Int64s]]


class WordCache:
    """The ids of the words of pages. Pages repeat their words, so each word is encoded once."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._clear()

    def _clear(self) -> None:
        self._indices: dict[str, int] = {}
        self._ids = np.empty(0, np.int32)
        self._lengths = np.empty(0, np.int64)

    def encode(self, words: Sequence[str] | pa.Array) -> tuple[Int32s, Int64s]:
        """The ids of all words one after the other, and the number of ids of each word."""
        array = words if isinstance(words, pa.Array) else pa.array(words, pa.string())
        if not len(array):
            return np.empty(0, np.int32), np.empty(0, np.int64)
        coded = array.dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        indices = self._indices_of(distinct)[coded.indices.to_numpy(zero_copy_only=False)]
        starts = np.cumsum(self._lengths) - self._lengths
        lengths = self._lengths[indices]
        return self._ids[np.repeat(starts[indices], lengths) + within(lengths)], lengths

    def _indices_of(self, distinct: list[str]) -> Int64s:
        """The index of each word in the cache; new words are encoded and added."""
        if len(self._indices) + len(distinct) > max(CAPACITY, len(distinct)):
            self._clear()
        fresh = [word for word in distinct if word not in self._indices]
        if fresh:
            ids, lengths = self._encode(fresh)
            self._indices |= {word: len(self._indices) + i for i, word in enumerate(fresh)}
            self._ids = np.concatenate([self._ids, ids])
            self._lengths = np.concatenate([self._lengths, lengths])
        return np.fromiter((self._indices[word] for word in distinct), np.int64, len(distinct))


class Tokenizer:
    """A tokenizer with its special tokens and digests.

    Attributes:
        name: folder name or hub id.
        kind: the class in its configuration.
        size: number of tokens, with added ones (``len(tokenizer)``).
        bos_id, eos_id, pad_id, cls_id, sep_id, unk_id, mask_id: ids of the special tokens; None when unset.
        special_texts: texts of the special tokens by role.
        added, control: ids of the added tokens and of the special tokens, by text.
        chat_template: source of its own template; None without one.
        add_prefix_space: whether each text is encoded as if a space came before it.
        max_length: ``model_max_length``; None when unset.
        reference: the engine of the ``tokenizers`` library.
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
        self._characters = 0  # number of encoded characters; -1 once the engine is chosen

    @cached_property
    def digest(self) -> str:
        """The sha256 of its files (``fingerprint.canonical_digest``)."""
        return canonical_digest({**self._files.state, **self._files.as_written})

    @cached_property
    def affixes(self) -> tuple[Int32s, Int32s]:
        """The ids that it adds before and after one plain text, int32."""
        return affixes(self._files.state)

    @cached_property
    def probe_digest(self) -> str:
        """The sha256 of the ids of fixed texts (``fingerprint.probe_digest``)."""
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
        """Number of bytes of each token by id (``token_bytes``); None where tokens do not spell their text."""
        return token_bytes(self._files.state, self.added)

    @cached_property
    def _words(self) -> WordCache:
        # Always the reference: distinct words are few, and fastokens 0.3.5 slows down with the square of their number
        # under RoBERTa's vocabulary (80,000 words of six letters: 5.9 s against 0.4 s).
        return WordCache(self.reference.encode)

    @property
    def engine(self) -> str:
        """The name of the current engine."""
        return self._engine.name

    def expect(self, characters: int) -> None:
        """Announce the number of characters to come, so that the faster engine encodes the first text already."""
        if self._characters >= 0:
            self._characters = max(self._characters, characters)

    def encode(self, texts: Sequence[str]) -> tuple[Int32s, Int64s]:
        """The ids of all texts one after the other, int32 [sum of lengths], and the number of ids of each text, int64
        [len(texts)]."""
        if self._characters >= 0:
            self._characters += sum(map(len, texts))
            if (engine := choose(self._files.state, self.reference, self._characters)) is not None:
                self._engine, self._characters = engine, -1
        return self._engine.encode(texts)

    def encode_bytes(self, texts: Sequence[str]) -> tuple[Int32s, Int64s, Int64s, Int64s]:
        """As ``encode``, and for each id the start and the end of its UTF-8 bytes within its own text."""
        table = self.byte_lengths
        if table is None:
            ids, lengths, starts, ends = self.reference.offsets(texts)
            unproven = np.arange(len(texts))
        else:
            ids, lengths = self.encode(texts)
            starts, ends, sums = byte_spans(ids, lengths, table)
            sizes = np.fromiter(
                (len(t) if t.isascii() else len(t.encode()) for t in texts), np.int64, len(texts)
            )
            unproven = np.flatnonzero(sums != sizes)
            if not len(unproven):
                return ids, lengths, starts, ends
        firsts = np.cumsum(lengths) - lengths
        for i in unproven.tolist():
            own = slice(int(firsts[i]), int(firsts[i] + lengths[i]))
            _, _, first, last = self.reference.offsets([texts[i]])
            starts[own], ends[own] = (bytes_of_characters(texts[i], part) for part in (first, last))
        return ids, lengths, starts, ends

    def encode_words(self, words: Sequence[str]) -> tuple[Int32s, Int64s]:
        """The ids of the words of pages, each encoded as one word of a pre-tokenized text; ``words`` may be an Arrow
        array of strings."""
        return self._words.encode(words)

    def altered(self, *, control: Sequence[str] = (), continuing: bool = False) -> Tokenizer:
        """The tokenizer with more control tokens, or one that encodes each text as the continuation of another
        (SentencePiece tokenizers put a space before the first piece of a text only)."""
        return Tokenizer(alter(self._files, frozenset(control), continuing))

    def eating(self, side: str) -> list[str]:
        """Control tokens that strip the white space after (``rstrip``) or before (``lstrip``) them."""
        tokens = self._backend.get_added_tokens_decoder().values()
        return sorted(t.content for t in tokens if t.special and getattr(t, side))

    @property
    def marks_first(self) -> bool:
        """Whether the first piece of a text has another encoding than one that continues a text."""
        return marks_first(self._files.state)

    def decode(self, ids: Sequence[int] | Int32s) -> str:
        """The text of some ids, with special tokens."""
        return str(self._backend.decode([int(i) for i in ids], skip_special_tokens=False))

    def token(self, token_id: int) -> str | None:
        """The token with this id, in the spelling of the vocabulary; None for an unknown id."""
        text = self._backend.id_to_token(int(token_id))
        return None if text is None else str(text)

    def id_of(self, text: str) -> int | None:
        """The id of a token by its spelling in the vocabulary; None for an unknown token."""
        found = self._backend.token_to_id(text)
        return None if found is None else int(found)

    def describe(self) -> dict[str, object]:
        """The entry of the tokenizer in a certificate, as plain JSON values."""
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
    """The tokenizer that a schema names, loaded once per process and again when a file of its folder changed.

    Raises:
        TokenizerError: the folder or hub id gives no usable tokenizer.
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
    """Names, sizes and times of the files of a folder; "" where it does not exist."""
    if not folder.is_dir():
        return ""
    found = sorted((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    return " ".join(f"{name} {info.st_size} {info.st_mtime_ns}" for name, info in found)


def _backend(files: TokenizerFiles) -> Any:
    """The tokenizer of the library, without post-processor, and with the tokens that only the configuration names,
    added as transformers does it."""
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
