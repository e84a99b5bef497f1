"""Keys kept from run to run are the keys of the shards; what cannot be trusted is read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.duplicates import KeyCache, Keys

SHARDS = st.dictionaries(
    st.text("0123456789abcdef", min_size=1, max_size=4),
    st.lists(st.integers(0, 2**60 - 1), max_size=4),
    max_size=4,
)


def read(keys: list[int]) -> Iterator[Keys]:
    """A shard of batches of one record."""
    yield from (np.array([key], np.uint64) for key in keys)


def unread() -> Iterator[Keys]:
    raise AssertionError("a shard was read that is known")


@given(SHARDS, SHARDS)
def test_what_was_asked_for_is_known_the_next_time(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, list[int]], second: dict[str, list[int]]
) -> None:
    place = tmp_path_factory.mktemp("kept")
    for shards in (first, second):
        kept = KeyCache(Path("/clean"), place)
        for digest, keys in shards.items():
            kept.of(digest, lambda keys=keys: read(keys))  # type: ignore[misc]
        kept.save()
    again = KeyCache(Path("/clean"), place)
    # The same digest is the same shard: keys known before are kept as they were.
    for digest, keys in second.items():
        assert again.of(digest, unread).tolist() == first.get(digest, keys)
    for digest in first.keys() - second.keys():
        assert again.of(digest, lambda: read([7])).tolist() == [7]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder in which the keys of two shards are kept."""
    kept = KeyCache(Path("/clean"), tmp_path)
    kept.of("aa", lambda: read([1, 2]))
    kept.of("bb", lambda: read([3]))
    kept.save()
    return tmp_path


def test_any_flipped_or_missing_byte_makes_them_unknown(place: Path) -> None:
    (path,) = place.iterdir()
    content = path.read_bytes()
    damaged = [content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :] for i in range(len(content))]
    for one in [*damaged, *(content[:i] for i in range(len(content)))]:
        path.write_bytes(one)
        assert KeyCache(Path("/clean"), place).of("aa", lambda: read([9])).tolist() == [9]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"aa": 1}\n',
        b'{"aa": "x"}\n',
        b'{"aa": 1}\n1234567',
        b'{"aa": -1, "bb": 2}\n12345678',
        b'{"aa": 2}\n12345678',
        b'{"aa": 1}\n1234567812345678',
    ],
)
def test_another_form_is_unknown(place: Path, content: bytes) -> None:
    from pipeline.certificate.cache import CacheFile
    from pipeline.duplicates import SUFFIX

    CacheFile(Path("/clean"), SUFFIX, place).write_bytes(content)
    assert KeyCache(Path("/clean"), place).of("aa", lambda: read([9])).tolist() == [9]


def test_records_that_lie_in_no_shard_are_not_kept(place: Path) -> None:
    kept = KeyCache(Path("/clean"), place)
    assert kept.of("", lambda: read([5])).tolist() == [5]
    kept.save()
    assert KeyCache(Path("/clean"), place).of("", lambda: read([6])).tolist() == [6]


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = KeyCache()
    assert kept.of("aa", lambda: read([5])).tolist() == [5]
    kept.save()
    assert not any(tmp_path.iterdir())


def test_keys_of_another_version_or_semantics_are_read_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert KeyCache(Path("/clean"), place).of("aa", unread).tolist() == [1, 2]
    monkeypatch.setattr("pipeline.SEMANTICS", -1)
    assert KeyCache(Path("/clean"), place).of("aa", lambda: read([9])).tolist() == [9]


def test_a_forced_run_takes_no_key_over(place: Path) -> None:
    assert KeyCache(Path("/clean"), place, force=True).of("aa", lambda: read([9])).tolist() == [9]
