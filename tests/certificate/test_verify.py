"""Nothing in an output folder can change unnoticed, and everything that is wrong is said at once."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

from pipeline.certificate import cache as caches
from pipeline.certificate.failures import REMEDIES, Code
from pipeline.certificate.verify import Level, Verdict, verify
from pipeline.errors import VerificationError
from tests import runs


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    runs.run(tmp_path / "clean", {"a.csv": (20, 0), "b.csv": (20, 1)})
    return tmp_path / "clean"


def shards(clean: Path) -> list[Path]:
    return sorted((clean / "demo.train" / "data").glob("part-*.arrow"))


def codes(verdict: Verdict) -> set[str]:
    return {failure.code for failure in verdict.failures}


def wheres(verdict: Verdict, code: Code) -> list[str]:
    return [failure.where for failure in verdict.failures if failure.code is code]


def test_a_whole_folder_verifies_at_every_level(clean: Path) -> None:
    for level in Level:
        verdict = verify(clean, level, strict=True)
        assert verdict.failures == verdict.notes == ()
        assert verdict.shards == len(list(clean.rglob("*.arrow")))
        assert verdict.rows == 40 + 2
    assert (
        verify(clean).hashed == verdict.bytes == sum(path.stat().st_size for path in clean.rglob("*.arrow"))
    )


def test_every_code_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Code)


@pytest.mark.slow
def test_every_single_byte_flip_is_detected(tmp_path: Path) -> None:
    """All bits of all bytes of a shard, the certificate and the pointers of a small folder, one at a time."""
    clean = tmp_path / "clean"
    runs.run(clean, {"a.csv": (2, 0)})
    assert verify(clean).ok
    flips = missed = 0
    for path in sorted(p for p in clean.rglob("*") if p.is_file()):
        content = path.read_bytes()
        for offset in range(len(content)):
            damaged = bytearray(content)
            damaged[offset] ^= 1 << (offset % 8)
            path.write_bytes(damaged)
            flips += 1
            missed += verify(clean, threads=1).ok
        path.write_bytes(content)
    assert verify(clean).ok
    assert flips > 5_000
    assert missed == 0


def test_a_cut_at_every_batch_border_is_detected(clean: Path) -> None:
    cuts = 0
    for path in shards(clean):
        content = path.read_bytes()
        with pa.OSFile(str(path)) as file:
            stream = pa.ipc.open_stream(file)
            borders = [file.tell(), *(file.tell() for _ in stream)]
        for border in borders[:-1]:
            path.write_bytes(content[:border])
            # Arrow itself opens what is left, with fewer rows.
            pa.ipc.open_stream(content[:border]).read_all()
            for level in (Level.FULL, Level.STAT, Level.CACHED):
                assert wheres(verify(clean, level), Code.SHARD_SIZE) == [str(path.relative_to(clean))]
            cuts += 1
        path.write_bytes(content)
    assert cuts > 5


def test_a_cut_stream_of_the_right_length_is_altered(clean: Path) -> None:
    path = shards(clean)[0]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    verdict = verify(clean)
    assert codes(verdict) == {"shard_altered"}


def _delete(clean: Path) -> None:
    shards(clean)[0].unlink()


def _rename(clean: Path) -> None:
    shards(clean)[0].rename(clean / "demo.train" / "data" / "part-00000000000000000000.arrow")


def _swap(clean: Path) -> None:
    first, second = sorted(shards(clean), key=lambda path: path.stat().st_size)[:2]
    assert first.stat().st_size == second.stat().st_size
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def _add(clean: Path) -> None:
    shutil.copyfile(shards(clean)[0], clean / "demo.train" / "data" / ("part-" + "f" * 20 + ".arrow"))


def _plant_cache(clean: Path) -> None:
    shutil.copyfile(shards(clean)[0], clean / "demo.train" / "data" / "cache-0123456789abcdef.arrow")


def _plant_beside(clean: Path) -> None:
    (clean / "demo.train" / "data" / "extra.parquet").write_bytes(b"x")


def _add_split(clean: Path) -> None:
    shutil.copytree(clean / "demo.eval", clean / "demo.more")


def _edit_pointer(clean: Path) -> None:
    path = clean / "demo.train" / "state.json"
    name = shards(clean)[0].name
    path.write_text(path.read_text().replace(name, "part-" + "0" * 20 + ".arrow"))


def _lose_pointer(clean: Path) -> None:
    (clean / "dataset_dict.json").unlink()


def _folder_for_shard(clean: Path) -> None:
    path = shards(clean)[0]
    path.unlink()
    path.mkdir()


def _dangling(clean: Path) -> None:
    path = shards(clean)[0]
    path.unlink()
    path.symlink_to(clean / "nowhere")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (_delete, {"shard_missing"}),
        (_rename, {"shard_missing", "foreign_shard"}),
        (_swap, {"shard_altered"}),
        (_add, {"foreign_shard"}),
        (_plant_cache, {"foreign_shard"}),
        (_plant_beside, {"foreign_file"}),
        (_add_split, {"foreign_shard", "foreign_file"}),
        (_edit_pointer, {"pointer_torn"}),
        (_lose_pointer, {"pointer_torn"}),
        (_folder_for_shard, {"shard_missing"}),
        (_dangling, {"shard_missing"}),
    ],
)
def test_tampering_is_named(clean: Path, damage: Callable[[Path], None], expected: set[str]) -> None:
    damage(clean)
    assert codes(verify(clean)) == expected
    if damage is not _swap:
        assert not verify(clean, Level.STAT).ok


def test_everything_wrong_is_listed_at_once(clean: Path) -> None:
    first, second = shards(clean)[:2]
    first.unlink()
    second.write_bytes(second.read_bytes() + b"x")
    _plant_cache(clean)
    _lose_pointer(clean)
    verdict = verify(clean)
    assert {"shard_missing", "shard_size", "foreign_shard", "pointer_torn"} <= codes(verdict)
    assert all(failure.remedy for failure in verdict.failures)
    with pytest.raises(VerificationError) as caught:
        verdict.require()
    assert caught.value.exit == 5
    for name in (first.name, second.name, "cache-0123456789abcdef.arrow", "dataset_dict.json"):
        assert name in str(caught.value)


def test_a_forged_certificate_does_not_agree_with_itself(clean: Path) -> None:
    """Whoever changes a count and the root with it is found by the sums that are made again."""
    import dataclasses

    from pipeline.certificate.statement import parse

    path = clean / "certificate.json"
    original = path.read_bytes()
    for find, put, where in (
        ('"certified":20', '"certified":19', "partition a.csv"),
        ('"rows_read":44', '"rows_read":43', "quarantine demo"),
        ('"longest":6,"nulls":0,"shortest":2,"total"', '"longest":5,"nulls":0,"shortest":2,"total"', ""),
        ('"lengths":{"8":40}', '"lengths":{"8":39}', "data set demo.train, lengths"),
        ('"rows":40', '"rows":39', "data set demo.train, rows"),
    ):
        text = original.decode()
        assert find in text
        statement = parse(text.replace(find, put, 1).encode())
        path.write_bytes(dataclasses.replace(statement, root=statement.recomputed_root()).to_bytes())
        verdict = verify(clean)
        assert "root_mismatch" not in codes(verdict)
        assert codes(verdict) & {"accounts_mismatch", "shard_statistics"}
        if where:
            assert where in wheres(verdict, Code.ACCOUNTS_MISMATCH)
    path.write_bytes(original)
    assert verify(clean).ok


@pytest.mark.parametrize(
    "key", ["contracts", "datasets", "quarantine", "files", "partitions", "totals", "notes"]
)
@pytest.mark.parametrize(
    "value", [None, {}, [], 3, "x", [[]], {"demo": {}}, {"demo.train": 1}, [{"name": "x"}]]
)
def test_a_forged_certificate_of_any_shape_is_refused_without_a_crash(
    clean: Path, key: str, value: object
) -> None:
    import json

    from pipeline.certificate.statement import Statement

    path = clean / "certificate.json"
    predicate = json.loads(path.read_bytes())["predicate"]
    if predicate[key] == value:
        return
    predicate[key] = value
    try:
        root = Statement("", predicate).recomputed_root()
    except (KeyError, TypeError, AttributeError, ValueError):
        root = "0" * 64
    path.write_bytes(Statement(root, predicate).to_bytes())
    verdict = verify(clean)
    # Contracts and notes are bound by the root alone; nothing else in the certificate speaks of them.
    assert not verdict.ok or key in ("notes", "contracts")


def test_a_torn_folder_is_explained_and_a_run_repairs_it(clean: Path, tmp_path: Path) -> None:
    """Pointers newer than the certificate, as a kill between the two leaves them."""
    other = tmp_path / "other"
    runs.run(other, {"a.csv": (20, 2), "b.csv": (20, 1)})
    shutil.copyfile(other / "demo.train" / "state.json", clean / "demo.train" / "state.json")
    verdict = verify(clean)
    assert codes(verdict) == {"pointer_torn"}
    assert "run again" in verdict.failures[0].remedy
    runs.run(clean, {"a.csv": (20, 2), "b.csv": (20, 1)})
    assert verify(clean).ok


def test_files_that_are_no_data_are_notes_and_fail_under_strict(clean: Path) -> None:
    (clean / "README").write_text("mine")
    (clean / ".gitignore").write_text("/data\n")
    (clean / ".staging" / "run-x").mkdir(parents=True)
    (clean / ".staging" / "run-x" / "y.tmp").write_text("")
    verdict = verify(clean)
    assert verdict.ok
    assert [note.code for note in verdict.notes] == ["foreign_file", "run_unfinished"]
    assert codes(verify(clean, strict=True)) == {"foreign_file", "run_unfinished"}


def test_a_folder_of_bare_shards_has_no_certificate_and_its_cut_files_are_named(
    tmp_path: Path, clean: Path
) -> None:
    whole, cut, empty, as_file, cut_file = (tmp_path / "bare" / f"{name}.arrow" for name in "abcde")
    whole.parent.mkdir()
    content = shards(clean)[0].read_bytes()
    whole.write_bytes(content)
    cut.write_bytes(content[:-8])  # a stream without its end mark
    empty.write_bytes(b"")
    table = pa.table({"x": list(range(1000))})
    with pa.ipc.new_file(str(as_file), table.schema) as writer:
        writer.write_table(table)
    cut_file.write_bytes(as_file.read_bytes()[:-100])
    verdict = verify(whole.parent)
    assert wheres(verdict, Code.CERTIFICATE_MISSING) == ["certificate.json"]
    assert wheres(verdict, Code.SHARD_CORRUPT) == ["b.arrow", "c.arrow", "e.arrow"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert codes(verify(tmp_path / "none")) == {"folder_missing"}
    (tmp_path / "file").write_text("")
    assert codes(verify(tmp_path / "file")) == {"folder_missing"}


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00", b'{"_type":"x"}'])
def test_a_certificate_that_is_none_is_named(clean: Path, content: bytes) -> None:
    (clean / "certificate.json").write_bytes(content)
    assert codes(verify(clean)) == {"certificate_invalid"}


@pytest.mark.parametrize("number", [b"1.0", b"1e0", b"NaN", b"Infinity"])
def test_a_number_that_a_certificate_cannot_hold_is_invalid(clean: Path, number: bytes) -> None:
    path = clean / "certificate.json"
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":' + number, 1))
    assert codes(verify(clean)) == {"certificate_invalid"}


def test_a_certificate_in_other_words_is_altered(clean: Path) -> None:
    path = clean / "certificate.json"
    path.write_bytes(path.read_bytes().replace(b",", b", ", 1))
    assert codes(verify(clean)) == {"certificate_altered"}


class TestCached:
    """The record of what was hashed before."""

    def test_what_did_not_change_is_not_hashed_again(
        self, clean: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(caches, "RACY_NS", 0)
        time.sleep(0.02)
        assert verify(clean, Level.CACHED).hashed > 0
        assert verify(clean, Level.CACHED).hashed == 0
        assert verify(clean, Level.FULL).hashed > 0

    def test_an_edit_with_its_old_mtime_is_found(self, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(caches, "RACY_NS", 0)
        time.sleep(0.02)
        verify(clean)
        path = shards(clean)[0]
        facts = path.stat()
        with path.open("r+b") as file:
            file.seek(facts.st_size // 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        assert path.stat().st_mtime_ns == facts.st_mtime_ns
        assert "shard_altered" in codes(verify(clean, Level.CACHED))

    def test_a_file_changed_just_now_is_not_remembered(self, clean: Path) -> None:
        """Another edit within the same tick of the clock would leave the same times."""
        assert verify(clean, Level.CACHED).hashed > 0
        assert verify(clean, Level.CACHED).hashed > 0

    @pytest.mark.parametrize("record", ["", "{", "[]", '{"x": 1}', '{"x": [[1], "y"]}', "null"])
    def test_a_damaged_record_is_none(self, clean: Path, tmp_path: Path, record: str) -> None:
        place = tmp_path / "cache"
        verify(clean, cache=place)
        place.mkdir(exist_ok=True)
        for path in place.iterdir():
            path.write_text(record)
        assert verify(clean, Level.CACHED, cache=place).ok

    def test_a_record_that_cannot_be_written_is_no_failure(self, clean: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert verify(clean, Level.CACHED, cache=tmp_path / "file" / "below").ok
