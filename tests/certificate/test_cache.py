"""What is kept between runs speeds them up; damaged, cut, stale, forged or racy, it never says anything false."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.certificate import cache as caches
from pipeline.certificate.cache import CacheFile, HashCache
from pipeline.shards.files import file_sha256


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one file whose digest is kept in ``tmp_path/kept``."""
    monkeypatch.setattr(caches, "RACY_NS", 0)
    made = tmp_path / "folder"
    made.mkdir()
    (made / "a").write_text("one")
    time.sleep(0.02)
    cache = HashCache(made, tmp_path / "kept")
    cache.digest("a")
    cache.save()
    return made


def kept(folder: Path) -> Path:
    """The one file that is kept."""
    (path,) = (folder.parent / "kept").iterdir()
    return path


def cache_of(folder: Path) -> HashCache:
    return HashCache(folder, folder.parent / "kept")


def test_a_file_that_did_not_change_is_known(folder: Path) -> None:
    assert cache_of(folder).recall("a") == file_sha256(folder / "a")


def test_a_changed_file_is_not_known(folder: Path) -> None:
    facts = (folder / "a").stat()
    (folder / "a").write_text("two")
    os.utime(folder / "a", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert cache_of(folder).recall("a") is None
    assert cache_of(folder).digest("a") == file_sha256(folder / "a")


def test_a_file_put_in_its_place_is_not_known(folder: Path) -> None:
    facts = (folder / "a").stat()
    (folder / "b").write_text("two")
    os.utime(folder / "b", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    (folder / "b").replace(folder / "a")
    assert cache_of(folder).recall("a") is None


def test_a_file_changed_just_before_it_was_hashed_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another edit within the same tick of the clock leaves the same times, however long the hashing takes."""
    monkeypatch.setattr(caches, "RACY_NS", 200_000_000)
    (tmp_path / "a").write_text("one")
    cache = HashCache(tmp_path, tmp_path / "kept")
    before = cache.stamp("a")
    time.sleep(0.3)
    cache.learn("a", file_sha256(tmp_path / "a"), before)
    cache.save()
    assert HashCache(tmp_path, tmp_path / "kept").recall("a") is None


def test_a_file_changed_while_it_was_hashed_is_not_kept(folder: Path) -> None:
    cache = cache_of(folder)
    before = cache.stamp("a")
    digest = file_sha256(folder / "a")
    (folder / "a").write_text("two")
    cache.learn("a", digest, before)
    assert cache.recall("a") is None


def written(folder: Path) -> tuple[str, int]:
    """A file written, hashed and moved, as a shard is: its digest and the mtime it was hashed with."""
    (folder / "tmp").write_text("shard")
    facts = (folder / "tmp").stat()
    (folder / "tmp").rename(folder / "shard")
    return file_sha256(folder / "shard"), facts.st_mtime_ns


def test_a_file_that_the_run_wrote_need_not_be_hashed_again(folder: Path) -> None:
    digest, mtime = written(folder)
    time.sleep(caches.TICK_NS / 1e9 + 0.02)
    cache = cache_of(folder)
    cache.learn_written("shard", digest, mtime)
    cache.save()
    assert cache_of(folder).recall("shard") == digest


def test_a_file_that_the_run_moved_just_now_is_hashed_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "TICK_NS", 10**12)
    cache = cache_of(folder)
    cache.learn_written("shard", *written(folder))
    assert cache.recall("shard") is None


@pytest.mark.parametrize("coarse", [1_000_000, 2_000_000_000])
def test_where_the_clock_is_coarse_it_is_hashed_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, coarse: int
) -> None:
    monkeypatch.setattr(caches, "TICK_NS", 0)
    digest, mtime = written(folder)
    exact = caches.file_stamp

    def rounded(path: str | Path) -> caches.Stamp | None:
        found = exact(path)
        return found and (*found[:4], found[4] - found[4] % coarse)

    monkeypatch.setattr(caches, "file_stamp", rounded)
    cache = cache_of(folder)
    cache.learn_written("shard", digest, mtime)
    cache.save()
    assert cache_of(folder).recall("shard") is None


def test_a_file_edited_after_the_run_hashed_it_is_hashed_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "TICK_NS", 0)
    digest, mtime = written(folder)
    time.sleep(0.02)
    (folder / "shard").write_text("other")
    cache = cache_of(folder)
    for known in (mtime, 0):
        cache.learn_written("shard", digest, known)
        cache.save()
        assert cache_of(folder).recall("shard") is None


def test_any_flipped_byte_makes_it_worthless(folder: Path) -> None:
    content = kept(folder).read_bytes()
    for place in range(len(content)):
        kept(folder).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert cache_of(folder).recall("a") is None


def test_cut_anywhere_it_is_worthless(folder: Path) -> None:
    content = kept(folder).read_bytes()
    for size in range(len(content)):
        kept(folder).write_bytes(content[:size])
        assert cache_of(folder).recall("a") is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_may_write_is_not_read(folder: Path, mode: int) -> None:
    kept(folder).chmod(mode)
    assert cache_of(folder).recall("a") is None


def test_what_another_user_wrote_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache_of(folder).recall("a") is None


@pytest.mark.parametrize(
    "value", [None, [], 1, {"a": 1}, {"a": [[1], "f" * 64]}, {"a": [[1, 2, 3, 4, 5], "x"]}, {"a": [1, 2]}]
)
def test_another_form_is_worthless(folder: Path, value: object) -> None:
    CacheFile(folder, cache=folder.parent / "kept").write(value)
    assert cache_of(folder).recall("a") is None


def test_nobody_else_may_read_or_write_what_is_kept(folder: Path) -> None:
    assert kept(folder).stat().st_mode & 0o777 == 0o600


def test_a_link_laid_in_its_place_is_replaced_and_not_written_through(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "else").write_text("other")
    place = kept(folder)
    place.unlink()
    place.symlink_to(tmp_path / "else")
    CacheFile(folder, cache=folder.parent / "kept").write({"x": 1})
    assert (tmp_path / "else").read_text() == "other"
    assert CacheFile(folder, cache=folder.parent / "kept").read() == {"x": 1}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_notes_are_read_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    notes = CacheFile(Path("/somewhere"), cache=tmp_path_factory.getbasetemp() / "notes")
    notes.write(value)
    assert notes.read() == json.loads(json.dumps(value))


def test_two_folders_and_two_kinds_have_notes_of_their_own(tmp_path: Path) -> None:
    all_ = [CacheFile(tmp_path / name, suffix, tmp_path / "kept") for name in "ab" for suffix in ("", ".run")]
    for number, notes in enumerate(all_):
        notes.write(number)
    assert [notes.read() for notes in all_] == [0, 1, 2, 3]


def test_a_missing_file_and_a_folder_have_no_digest(folder: Path) -> None:
    (folder / "below").mkdir()
    digest = file_sha256(folder / "a")
    assert cache_of(folder).have({"a": digest, "none": "", "below": "", "a/b": ""})
    assert not cache_of(folder).have({"none": digest})
    assert not cache_of(folder).have({"a": ""})
