"""A copy of a raw folder that follows its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.stores.remote import RemoteFolder, open_remote
from pipeline.stores.sync import mirror


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_only_what_changed_is_fetched(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = open_remote(f"{store}/raw")
    fetched: list[str] = []
    fetch = RemoteFolder.fetch
    monkeypatch.setattr(
        RemoteFolder, "fetch", lambda self, name, local: fetched.append(name) or fetch(self, name, local)
    )
    for name in ("a.csv", "b/c.csv", "b/d.csv"):
        remote.write(name, name.encode())
    folder = mirror(remote, tmp_path / "copy")
    assert files(folder) == {name: name.encode() for name in ("a.csv", "b/c.csv", "b/d.csv")}
    assert sorted(fetched) == ["a.csv", "b/c.csv", "b/d.csv"]

    fetched.clear()
    assert mirror(remote, tmp_path / "copy") == folder
    assert fetched == []

    remote.write("b/c.csv", b"other content")
    remote.remove("a.csv")
    remote.write("e.csv", b"new")
    (folder / "b" / "d.csv").unlink()
    mirror(remote, tmp_path / "copy")
    assert files(folder) == {"b/c.csv": b"other content", "b/d.csv": b"b/d.csv", "e.csv": b"new"}
    assert sorted(fetched) == ["b/c.csv", "b/d.csv", "e.csv"]


@pytest.mark.parametrize("record", ["", "[]", '{"a.csv": 1}'])
def test_a_damaged_record_is_none(tmp_path: Path, record: str) -> None:
    remote = open_remote("memory://damaged")
    remote.write("a.csv", b"x")
    folder = mirror(remote, tmp_path)
    (tmp_path / ".versions.json").write_text(record)
    mirror(remote, tmp_path)
    assert files(folder) == {"a.csv": b"x"}


def test_an_empty_place_is_an_error_of_the_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no file"):
        mirror(open_remote("memory://nothing-here"), tmp_path)
