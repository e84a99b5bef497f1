"""A commit: whole or nothing, one writer, the previous generation kept, nothing touched without need."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.certificate.cache import HashCache
from pipeline.certificate.folder import collect_garbage, locate, read_certificate
from pipeline.certificate.verify import verify
from pipeline.errors import BusyError, GateError, SchemaError, StorageError, VerificationError
from pipeline.publish import CleanFolder
from pipeline.shards.files import FolderLock
from tests import runs

SOURCES = st.dictionaries(
    st.sampled_from(["a.csv", "b.csv", "c/d.xlsx", "ü.jsonl"]),
    st.tuples(st.integers(0, 20), st.integers(0, 2)),
    min_size=1,
)


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and change time of every file: whether anything was touched."""
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_ctime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_run_publishes_what_verifies(tmp_path: Path) -> None:
    outcome = runs.run(tmp_path / "clean", {"a.csv": (20, 0), "b.csv": (3, 0)})
    verdict = verify(tmp_path / "clean", strict=True)
    assert verdict.failures == ()
    assert verdict.root == outcome.statement.root == read_certificate(tmp_path / "clean").root
    assert (outcome.unchanged, outcome.reused, outcome.removed) == (False, 0, 0)
    assert outcome.written == len(outcome.statement.files)
    assert sorted(path.name for path in (tmp_path / "clean").iterdir()) == [
        "certificate.json",
        "dataset_dict.json",
        "demo.eval",
        "demo.train",
        "quarantine",
    ]


def test_a_run_with_nothing_new_touches_no_file(tmp_path: Path) -> None:
    runs.run(tmp_path / "clean", {"a.csv": (20, 0), "b.csv": (3, 0)})
    before = files(tmp_path / "clean")
    outcome = runs.run(tmp_path / "clean", {"b.csv": (3, 0), "a.csv": (20, 0)})
    assert outcome.unchanged
    assert outcome.written == 0
    assert files(tmp_path / "clean") == before


def test_forced_work_that_gives_the_same_bytes_touches_no_file(tmp_path: Path) -> None:
    runs.run(tmp_path / "clean", {"a.csv": (20, 0)})
    before = files(tmp_path / "clean")
    assert runs.run(tmp_path / "clean", {"a.csv": (20, 0)}, force=True).unchanged
    assert files(tmp_path / "clean") == before


@settings(max_examples=30)
@given(history=st.lists(SOURCES, min_size=1, max_size=4))
def test_incremental_equals_from_scratch(
    tmp_path_factory: pytest.TempPathFactory, history: list[dict[str, tuple[int, int]]]
) -> None:
    place = tmp_path_factory.mktemp("h")
    published = None
    for sources in history:
        if any(rows for rows, _ in sources.values()):
            runs.run(place / "grown", sources)
            published = sources
    if published is None:
        return
    runs.run(place / "scratch", published)
    assert runs.tree(place / "grown") == runs.tree(place / "scratch")
    assert verify(place / "grown").failures == ()


def test_many_new_shards_are_known_to_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.publish.WORTH_A_TICK", 0)
    files = runs.run(tmp_path / "clean", {"a.csv": (20, 0)}).statement.files
    cache = HashCache(tmp_path / "clean")
    assert all(cache.knows(name, part.sha256) for name, part in files.items())


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    first = runs.run(clean, {f"{i}.csv": (20, 0) for i in range(10)})
    before = files(clean)
    second = runs.run(clean, {f"{i}.csv": (20, int(i == 3)) for i in range(10)})
    changed = {p.name for r in second.statement.receipts() if r.source == "3.csv" for p in r.files().values()}
    kept = {name: stamp for name, stamp in before.items() if name in second.statement.files}
    assert {name: stamp for name, stamp in files(clean).items() if name in kept} == kept
    assert second.written == len(changed - {Path(name).name for name in first.statement.files})


def test_shards_stay_for_one_generation_after_they_are_replaced(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    first = runs.run(clean, {"a.csv": (20, 0)}).statement
    second = runs.run(clean, {"a.csv": (20, 1)}).statement
    for name, part in first.files.items():
        assert locate(clean, name).stat().st_size == part.bytes
    for name in second.files:
        assert locate(clean, name) == clean / name
    runs.run(clean, {"a.csv": (20, 2)})
    gone = set(first.files) - set(second.files)
    assert gone
    for name in gone:
        with pytest.raises(VerificationError, match="shard missing"):
            locate(clean, name)
    for name in second.files:
        assert locate(clean, name).exists()


def test_a_lost_or_cut_shard_is_made_again(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    whole = runs.run(clean, {"a.csv": (20, 0), "b.csv": (20, 0)})
    before = runs.tree(clean)
    lost, cut = sorted(name for name in whole.statement.files if name.startswith("demo.train"))[:2]
    (clean / lost).unlink()
    os.truncate(clean / cut, 100)
    assert not verify(clean).ok
    runs.run(clean, {"a.csv": (20, 0), "b.csv": (20, 0)})
    assert runs.tree(clean) == before


def test_an_edited_shard_is_not_taken_over(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    outcome = runs.run(clean, {"a.csv": (20, 0)})
    before = runs.tree(clean)
    name = min(n for n in outcome.statement.files if n.startswith("demo.train"))
    content = bytearray((clean / name).read_bytes())
    content[len(content) // 2] ^= 1
    (clean / name).write_bytes(content)
    runs.run(clean, {"a.csv": (20, 0)})
    assert runs.tree(clean) == before


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"not json", b'{"_type": 1}', b"[" * 100_000])
def test_a_damaged_certificate_is_no_memory_to_build_on(tmp_path: Path, damage: bytes) -> None:
    clean = tmp_path / "clean"
    runs.run(clean, {"a.csv": (20, 0)})
    before = runs.tree(clean)
    (clean / "certificate.json").write_bytes(damage)
    with CleanFolder(clean, fsync=False) as folder:
        assert folder.previous is None
        assert folder.find(runs.memo("a.csv", 20)) is None
    runs.run(clean, {"a.csv": (20, 0)})
    assert runs.tree(clean) == before


def test_a_certificate_that_was_edited_is_no_memory_to_build_on(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    runs.run(clean, {"a.csv": (20, 0)})
    text = (clean / "certificate.json").read_text()
    (clean / "certificate.json").write_text(text.replace('"rows_read":22', '"rows_read":23'))
    with CleanFolder(clean, fsync=False) as folder:
        assert folder.previous is None


def test_over_the_budget_nothing_is_published_and_the_quarantine_can_be_looked_at(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    runs.run(clean, {"a.csv": (20, 0)})
    before = runs.tree(clean)
    with pytest.raises(GateError, match="over the quarantine budget") as caught:
        runs.run(clean, {"a.csv": (20, 0), "b.csv": (1, 0)}, facts={"max_rate": 0.01})
    assert caught.value.exit == 3
    assert "value_type 2" in caught.value.found
    assert runs.tree(clean) == before
    assert len(list((clean / ".refused" / "quarantine" / "demo").glob("*.arrow"))) == 2
    verdict = verify(clean)
    assert verdict.ok
    assert [note.code for note in verdict.notes] == ["run_refused"]
    runs.run(clean, {"a.csv": (20, 0)})
    assert not (clean / ".refused").exists()


def test_nothing_certified_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GateError, match="no record can be trained on"):
        runs.run(tmp_path / "clean", {"a.csv": (0, 0)})
    assert [path.name for path in (tmp_path / "clean").iterdir()] == [".refused"]
    assert not verify(tmp_path / "clean").ok


def test_accounts_that_do_not_add_up_are_a_fault_of_the_program(tmp_path: Path) -> None:
    import dataclasses

    with CleanFolder(tmp_path / "clean", fsync=False) as folder:
        receipt = runs.receipt(folder.staging, "a.csv", 5)
        for facts, words in (
            ({"rows_read": 8}, "8 records read, but 5 certified"),
            ({"quarantined": 2, "rows_read": 8}, "1 rows in the quarantine shards"),
        ):
            with pytest.raises(RuntimeError, match=words):
                folder.publish(runs.inputs(), [dataclasses.replace(receipt, **facts)])
    assert not (tmp_path / "clean").exists()


def test_a_run_that_ends_early_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyError), CleanFolder(tmp_path / "new" / "clean", fsync=False) as folder:
        runs.receipt(folder.staging, "a.csv", 5)
        raise KeyError
    assert not (tmp_path / "new" / "clean").exists()
    runs.run(tmp_path / "clean", {"a.csv": (20, 0)})
    before = files(tmp_path / "clean")
    with pytest.raises(KeyError), CleanFolder(tmp_path / "clean", fsync=False) as folder:
        runs.receipt(folder.staging, "b.csv", 5)
        raise KeyError
    assert files(tmp_path / "clean") == before
    assert not (tmp_path / "clean" / ".staging").exists()


def test_work_of_a_killed_run_is_wiped(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    leftover = clean / ".staging" / "run-old" / "demo.train" / "data" / ("part-" + "0" * 20 + ".arrow")
    stray = clean / "demo.train" / "data" / ("part-" + "1" * 20 + ".arrow")
    for path in (leftover, stray):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"half a shard")
    runs.run(clean, {"a.csv": (20, 0)})
    assert verify(clean, strict=True).ok
    assert not leftover.exists()
    assert not stray.exists()


def test_a_file_that_is_no_shard_is_never_removed(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    runs.run(clean, {"a.csv": (20, 0)})
    kept = [clean / "notes.txt", clean / "demo.train" / "data" / "mine.arrow", clean / "other" / "x.bin"]
    for path in kept:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
    runs.run(clean, {"a.csv": (20, 1)})
    runs.run(clean, {"a.csv": (20, 2)})
    assert all(path.read_bytes() == b"mine" for path in kept)


def test_a_second_writer_is_turned_away(tmp_path: Path) -> None:
    with CleanFolder(tmp_path / "clean", fsync=False):
        with pytest.raises(BusyError, match="another run") as caught, CleanFolder(tmp_path / "clean"):
            pass
        assert caught.value.exit == 75
    with CleanFolder(tmp_path / "clean"):
        pass


def _hold(path: str, ready: Any) -> None:
    with FolderLock(Path(path)):
        ready.set()
        signal_free = multiprocessing.Event()
        signal_free.wait(60)


def test_a_killed_writer_holds_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), ready))
    holder.start()
    assert ready.wait(60)
    with pytest.raises(BusyError), FolderLock(tmp_path):
        pass
    holder.kill()
    holder.join()
    with FolderLock(tmp_path):
        pass


def test_a_certificate_changed_under_the_lock_stops_the_commit(tmp_path: Path) -> None:
    """As on a file system whose locks do not hold."""
    clean = tmp_path / "clean"
    runs.run(clean, {"a.csv": (20, 0)})
    other = tmp_path / "other"
    runs.run(other, {"a.csv": (20, 1)})
    with CleanFolder(clean, fsync=False) as folder:
        receipt = runs.receipt(folder.staging, "a.csv", 20, 2)
        (clean / "certificate.json").write_bytes((other / "certificate.json").read_bytes())
        with pytest.raises(BusyError, match="changed while this run held the folder"):
            folder.publish(runs.inputs(), [receipt])
    assert (clean / "certificate.json").read_bytes() == (other / "certificate.json").read_bytes()


@pytest.mark.parametrize("fails_at", range(12))
def test_a_full_disk_at_any_write_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    clean = tmp_path / "clean"
    runs.run(clean, {"a.csv": (20, 0)})
    runs.run(tmp_path / "scratch", {"a.csv": (20, 1)})
    calls = [0]

    def full(*_: object, **__: object) -> None:
        calls[0] += 1
        if calls[0] > fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        for name in ("shards.writer.sync_file", "shards.files.sync_file", "shards.files.sync_folder"):
            patch.setattr(f"pipeline.{name}", full)
        patch.setattr("pipeline.certificate.folder.sync_folder", full)
        try:
            runs.run(clean, {"a.csv": (20, 1)}, fsync=True)
        except StorageError as error:
            assert error.exit == 74
    verdict = verify(clean)
    assert verdict.ok or {f.code for f in verdict.failures} <= {"pointer_torn", "foreign_shard"}
    runs.run(clean, {"a.csv": (20, 1)})
    assert runs.tree(clean) == runs.tree(tmp_path / "scratch")


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clean").write_text("x")
    with pytest.raises(StorageError, match="not a folder"), CleanFolder(tmp_path / "clean"):
        pass


def test_a_data_set_may_not_take_a_name_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="taken"):
        runs.run(tmp_path / "clean", {"a.csv": (5, 0)}, facts={"datasets": {"quarantine": runs.SCHEMA}})


def test_shards_that_are_links_into_a_cache_keep_the_cache_whole(tmp_path: Path) -> None:
    """As a data version control system lays them out, by hard or symbolic link."""
    clean, cache = tmp_path / "clean", tmp_path / "cache"
    cache.mkdir()
    runs.run(clean, {"a.csv": (20, 0), "b.csv": (20, 0)})
    for number, path in enumerate(sorted(p for p in clean.rglob("*") if p.is_file())):
        kept = cache / f"{number}-{path.name}"
        path.rename(kept)
        if number % 2:
            path.hardlink_to(kept)
        else:
            path.symlink_to(kept)
    held = {path.name: path.read_bytes() for path in cache.iterdir()}
    assert verify(clean).ok
    runs.run(clean, {"a.csv": (20, 0), "b.csv": (20, 1)})
    runs.run(clean, {"a.csv": (20, 2), "b.csv": (20, 1)})
    assert verify(clean).ok
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == held


def test_a_data_set_that_is_no_more_leaves_nothing_a_loader_could_take(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    runs.run(clean, {"a.csv": (20, 0)})
    kept = clean / "mine" / "state.json"
    kept.parent.mkdir()
    kept.write_text('{"_split": "mine", "_data_files": [{"filename": "data/mine.arrow"}]}')
    runs.run(clean, {"a.csv": (20, 1)}, facts={"datasets": {"demo.train": runs.SCHEMA}})
    assert sorted(path.name for path in clean.iterdir() if path.name[0] != ".") == [
        "certificate.json",
        "dataset_dict.json",
        "demo.train",
        "mine",
        "quarantine",
    ]
    assert kept.exists()
    kept.unlink()
    assert verify(clean).ok


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_during_the_commit_takes_effect_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    class StopError(BaseException):
        pass

    def stop(*_: object) -> None:
        raise StopError

    def collect_and_stop(*args: Any, **facts: Any) -> int:
        os.kill(os.getpid(), number)
        return collect_garbage(*args, **facts)

    held = signal.signal(number, stop)
    try:
        monkeypatch.setattr("pipeline.publish.collect_garbage", collect_and_stop)
        with pytest.raises(StopError):
            runs.run(tmp_path / "clean", {"a.csv": (20, 0)})
        assert signal.getsignal(number) is stop
    finally:
        signal.signal(number, held)
    assert verify(tmp_path / "clean", strict=True).ok
