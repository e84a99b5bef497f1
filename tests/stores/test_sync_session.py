"""Runs between stores give what runs between folders give."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipeline.cli.app import main
from pipeline.errors import BusyError
from pipeline.stores import sync as clean_module
from pipeline.stores.remote import RemoteFolder, open_remote
from pipeline.stores.sync import fetched, session
from tests import runs

TABLE = """\
version: 1
name: notes
kind: table
files: ["**/*.jsonl"]
columns:
  id: {}
  text: {}
table: {}
"""


def cli(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["pipeline", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def content(folder: RemoteFolder) -> dict[str, bytes]:
    """What a reader of a store sees: hidden folders left out."""
    names = [name for name in folder.list() if name[0] != "."]
    return {name: folder.read(name) or b"" for name in names}


def publish(store: str, sources: dict[str, tuple[int, int]]) -> None:
    """A small run into a store."""
    with session("raw", f"{store}/clean") as places:
        places.publish(runs.run(places.clean, sources).statement)


def test_a_run_between_urls_gives_the_same_bytes_as_one_between_folders(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, schema = tmp_path / "raw", tmp_path / "notes.yaml"
    raw.mkdir()
    schema.write_text(TABLE)
    folder = open_remote(f"{store}/raw")
    for round_ in range(3):
        for number in range(3 + round_):
            text = f'{{"id": "{number}", "text": "text {number * round_}"}}\n{{"id": ""}}\n'
            (raw / f"{number}.jsonl").write_text(text)
            folder.write(f"{number}.jsonl", text.encode())
        if round_ == 2:
            (raw / "0.jsonl").unlink()
            folder.remove("0.jsonl")
        assert cli(monkeypatch, "run", raw, tmp_path / "clean", "--schema", schema) == 0
        assert cli(monkeypatch, "run", f"{store}/raw", f"{store}/clean", "--schema", schema) == 0
        assert content(open_remote(f"{store}/clean")) == runs.tree(tmp_path / "clean")
    assert cli(monkeypatch, "verify", f"{store}/clean", "--strict") == 0


def test_a_machine_that_never_saw_the_folder_builds_on_it(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, {"a.csv": (20, 0), "b.csv": (5, 0)})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    with session("raw", f"{store}/clean") as places:
        outcome = runs.run(places.clean, {"a.csv": (20, 0), "b.csv": (5, 1)})
        places.publish(outcome.statement)
    assert outcome.reused > 0
    runs.run(tmp_path / "scratch", {"a.csv": (20, 0), "b.csv": (5, 1)})
    assert content(open_remote(f"{store}/clean")) == runs.tree(tmp_path / "scratch")


def test_the_quarantine_of_a_refused_run_lies_in_the_store(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, schema = tmp_path / "raw", tmp_path / "notes.yaml"
    raw.mkdir()
    schema.write_text(TABLE)
    (raw / "0.jsonl").write_text('{"id": "a", "text": "x"}\n{"id": ""}\n')
    run = ("run", raw, f"{store}/clean", "--schema", schema, "--max-quarantine")
    assert cli(monkeypatch, *run, "0.1") == 3
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    capsys.readouterr()
    assert cli(monkeypatch, "quarantine", "show", f"{store}/clean") == 0
    assert "0.jsonl, row 2" in capsys.readouterr().out
    assert cli(monkeypatch, *run, "1") == 0
    assert not [name for name in open_remote(f"{store}/clean").list() if name.startswith(".refused/")]
    assert cli(monkeypatch, "verify", f"{store}/clean", "--strict") == 0


def test_of_two_runs_that_began_together_one_publishes(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, {"a.csv": (20, 0)})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))
    with session("raw", f"{store}/clean") as first:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
        with session("raw", f"{store}/clean") as second:
            mine = runs.run(first.clean, {"a.csv": (20, 1)}).statement
            other = runs.run(second.clean, {"a.csv": (20, 2)}).statement
            second.publish(other)
            with pytest.raises(BusyError, match="another run published"):
                first.publish(mine)
    runs.run(tmp_path / "scratch", {"a.csv": (20, 2)})
    kept = content(open_remote(f"{store}/clean"))
    expected = runs.tree(tmp_path / "scratch")
    # The shards that the other sent are named by nobody; they go when they are old.
    assert {name: kept[name] for name in expected} == expected


def test_runs_of_one_machine_share_a_copy_one_at_a_time(store: str) -> None:
    with (
        session("raw", f"{store}/clean"),
        pytest.raises(BusyError, match="another run"),
        session("raw", f"{store}/clean"),
    ):
        pass


def test_a_run_killed_between_generation_and_certificate_is_put_right(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, {"a.csv": (20, 0)})

    class KilledError(BaseException):
        pass

    def killed(self: RemoteFolder, name: str, value: bytes) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "write", killed)
        with pytest.raises(KilledError):
            publish(store, {"a.csv": (20, 1)})
    folder = open_remote(f"{store}/clean")
    runs.run(tmp_path / "before", {"a.csv": (20, 0)})
    assert folder.read("certificate.json") == (tmp_path / "before" / "certificate.json").read_bytes()
    publish(store, {"a.csv": (20, 1)})
    runs.run(tmp_path / "scratch", {"a.csv": (20, 1)})
    kept = content(folder)
    expected = runs.tree(tmp_path / "scratch")
    assert {name: kept[name] for name in expected} == expected


def test_shards_stay_for_one_generation_and_go_when_they_are_old(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = open_remote(f"{store}/clean")
    publish(store, {"a.csv": (20, 0)})
    first = {name for name in folder.list() if name.startswith("demo.train/data")}
    publish(store, {"a.csv": (20, 1)})
    second = {name for name in folder.list() if name.startswith("demo.train/data")}
    gone = first - second
    assert gone
    assert {f".previous/{name}" for name in gone} <= set(folder.list())
    monkeypatch.setattr(clean_module, "GRACE_SECONDS", -1)
    time.sleep(0.01)
    publish(store, {"a.csv": (20, 2)})
    publish(store, {"a.csv": (20, 3)})
    assert not {f".previous/{name}" for name in gone} & set(folder.list())
    assert len([name for name in folder.list() if name.startswith(".generations/")]) == 2


def test_what_was_altered_in_a_store_is_found(store: str) -> None:
    from pipeline.certificate.verify import verify

    publish(store, {"a.csv": (20, 0)})
    with fetched(f"{store}/clean") as copy:
        assert verify(copy, strict=True).ok
    folder = open_remote(f"{store}/clean")
    name = next(name for name in folder.list() if name.startswith("demo.train/data"))
    damaged = bytearray(folder.read(name) or b"")
    damaged[100] ^= 1
    folder.write(name, bytes(damaged))
    with fetched(f"{store}/clean") as copy:
        assert [failure.code for failure in verify(copy).failures] == ["shard_altered"]
