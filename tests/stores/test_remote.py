"""Files of a store: put, put only where there is none, fetched whole, never out of their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import InputError, SchemaError, StorageError
from pipeline.stores.remote import is_url, open_remote


@pytest.mark.parametrize("name", ["s3://bucket/x", "memory://a", "gs://b", "file:///tmp/x"])
def test_a_url_is_one(name: str) -> None:
    assert is_url(name)


@pytest.mark.parametrize("name", ["raw", "/data/raw", "C:/raw", "./a://b", "s3:/x", "s3://"])
def test_a_folder_is_no_url(name: str) -> None:
    assert not is_url(name)


def test_files_come_back_as_they_were_put(store: str, tmp_path: Path) -> None:
    folder = open_remote(f"{store}/x")
    assert folder.list() == {}
    assert folder.read("a") is None
    (tmp_path / "local").write_bytes(b"\x00\xff")
    folder.send(tmp_path / "local", "ü/b.bin")
    folder.write("a", b"1")
    assert list(folder.list()) == ["a", "ü/b.bin"]
    assert folder.read("ü/b.bin") == b"\x00\xff"
    folder.fetch("ü/b.bin", tmp_path / "deep" / "back")
    assert (tmp_path / "deep" / "back").read_bytes() == b"\x00\xff"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["back"]
    folder.move("a", "c/a")
    folder.remove("ü/b.bin")
    folder.remove("ü/b.bin")
    assert list(folder.list()) == ["c/a"]


def test_a_file_is_created_once(store: str) -> None:
    folder = open_remote(f"{store}/x")
    assert folder.create("g/1", b"first")
    assert not folder.create("g/1", b"second")
    assert folder.read("g/1") == b"first"


def test_the_version_of_a_file_changes_with_its_content(store: str) -> None:
    folder = open_remote(f"{store}/x")
    versions = []
    for content in (b"one", b"two"):
        folder.write("a", content)
        versions.append(folder.version(folder.list()["a"]))
    assert versions[0] != versions[1]
    assert versions[1] == folder.version(folder.list()["a"])
    assert folder.age(folder.list()["a"]) < 3600


def test_a_url_without_a_file_system_is_named() -> None:
    with pytest.raises(SchemaError, match="no file system"):
        open_remote("nosuchthing://x/y")


def test_a_store_that_answers_with_errors_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_remote("memory://broken")

    def broken(*_: object, **__: object) -> None:
        raise PermissionError("no")

    for name in ("find", "cat_file", "pipe_file", "put_file"):
        monkeypatch.setattr(folder.fs, name, broken)
    with pytest.raises(InputError, match="cannot be read"):
        folder.list()
    with pytest.raises(InputError, match="cannot be read"):
        folder.read("a")
    with pytest.raises(StorageError, match="cannot be written"):
        folder.write("a", b"")
    with pytest.raises(StorageError, match="cannot be written"):
        folder.create("a", b"")
    with pytest.raises(StorageError, match="cannot be written"):
        folder.send(tmp_path, "a")


def test_a_name_that_leaves_its_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_remote("memory://bucket/x")
    monkeypatch.setattr(folder.fs, "find", lambda *_, **__: {"/bucket/x/../../etc/passwd": {}})
    with pytest.raises(InputError, match="leaves its folder"):
        folder.list()
