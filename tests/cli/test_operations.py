"""Running unattended: stops, full disks, several runs at once, metrics and lineage for other systems."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.certificate.verify import Trust, verify
from pipeline.errors import Exit
from tests.cli.conftest import Call

TABLE = """\
version: 1
name: notes
kind: table
files: ["**/*.jsonl"]
columns:
  id: {}
  text: {}
table: {}
quarantine: {max_rate: 1}
output: {shard_rows: 500, batch_rows: 100}
"""


def fill(raw: Path, files: int, rows: int, seed: str = "") -> None:
    raw.mkdir(exist_ok=True)
    for number in range(files):
        lines = (
            json.dumps({"id": f"{seed}{number}-{row}", "text": f"text {row} " * 20}) for row in range(rows)
        )
        (raw / f"{number}.jsonl").write_text("\n".join(lines))


def start(raw: Path, clean: Path, schema: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pipeline", "run", str(raw), str(clean), "--schema", str(schema)]
    return subprocess.Popen(
        [*command, "--log-format", "json", *options],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.yaml"
    path.write_text(TABLE)
    return path


class TestStops:
    """SIGTERM and SIGINT."""

    @pytest.mark.slow
    @pytest.mark.parametrize("workers", ["1", "2"])
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_a_stop_leaves_the_last_certificate_and_nothing_else(
        self, call: Call, tmp_path: Path, notes: Path, number: signal.Signals, code: int, workers: str
    ) -> None:
        raw, clean = tmp_path / "raw", tmp_path / "clean"
        fill(raw, 3, 50)
        assert call("run", raw, clean, "--schema", notes).code == 0
        before = tree(clean)
        fill(raw, 8, 20_000, "x")
        with start(raw, clean, notes, "--workers", workers) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if json.loads(line)["event"] == "partition.end":
                    break
            process.send_signal(number)
            said = process.stderr.read()
            assert process.wait(60) == code
        *events, last = [line for line in said.splitlines() if line]
        assert "the output folder holds its last certificate" in last
        end = json.loads(events[-1])
        assert (end["event"], end["exit"], end["published"]) == ("run.end", code, False)
        assert tree(clean) == before
        assert _of_session(process.pid) == []
        assert call("run", raw, clean, "--schema", notes).code == 0


def _of_session(leader: int) -> list[int]:
    """Processes of a session that still live; the last of them may take a moment to go."""
    deadline = time.monotonic() + 10
    while True:
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                facts = stat.read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(facts[3]) == leader and facts[0] != "Z":
                found.append(int(stat.parent.name))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


@pytest.mark.slow
def test_of_five_runs_at_once_one_publishes_and_four_are_busy(tmp_path: Path, notes: Path) -> None:
    raw, clean = tmp_path / "raw", tmp_path / "clean"
    fill(raw, 4, 20_000)
    runs = [start(raw, clean, notes) for _ in range(5)]
    said = [run.communicate()[1] for run in runs]
    codes = [run.returncode for run in runs]
    # A run that starts after another has ended finds everything unchanged: that is no conflict.
    published = [
        json.loads(text.splitlines()[-1]) for text, code in zip(said, codes, strict=True) if code == 0
    ]
    assert sorted(set(codes)) == [0, 75]
    assert sum(not event["unchanged"] for event in published) == 1
    assert verify(clean, strict=True).ok


class TestDisk:
    """Folders that cannot be written."""

    @pytest.fixture
    def small(self, tmp_path: Path) -> Iterator[Path]:
        """A file system of 3 MiB."""
        place = tmp_path / "small"
        place.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("no right to mount a small file system")
        yield place
        subprocess.run(["umount", str(place)], check=True)

    def test_a_full_disk_loses_nothing(self, call: Call, tmp_path: Path, notes: Path, small: Path) -> None:
        raw, clean = tmp_path / "raw", small / "clean"
        fill(raw, 3, 500)
        assert call("run", raw, clean, "--schema", notes).code == 0
        before = tree(clean)
        fill(raw, 3, 20_000)
        for workers in ("1", "2"):
            said = call("run", raw, clean, "--schema", notes, "--workers", workers)
            assert said.code == Exit.IO
            assert "no space left to write" in said.err
            assert tree(clean) == before
        fill(raw, 3, 400)
        assert call("run", raw, clean, "--schema", notes).code == 0
        assert verify(clean, strict=True).ok

    def test_a_read_only_folder(self, call: Call, tmp_path: Path, notes: Path, small: Path) -> None:
        raw, clean = tmp_path / "raw", small / "clean"
        fill(raw, 3, 50)
        assert call("run", raw, clean, "--schema", notes).code == 0
        before = tree(clean)
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        for place in (clean, small / "new"):
            said = call("run", raw, place, "--schema", notes)
            assert said.code == Exit.IO
            assert "cannot be written" in said.err
        assert tree(clean) == before
        assert call("verify", clean).code == 0
        assert call("verify", clean, "--level", "cached").code == 0


def test_a_run_that_finds_nothing_new_ends_as_asked(
    call: Call, raw: Path, schema: Path, tmp_path: Path
) -> None:
    arguments = ("run", raw, tmp_path / "clean", "--schema", schema, "--unchanged-exit-code", 42)
    assert call(*arguments).code == 0
    assert call(*arguments).code == 42
    (raw / "b.csv").write_text("id,text\n9,more\n")
    assert call(*arguments).code == 0


def test_a_run_signs_what_it_publishes(call: Call, raw: Path, schema: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    assert call("keygen", tmp_path / "keys" / "a").code == 0
    clean, key = tmp_path / "clean", tmp_path / "keys" / "a"
    assert call("run", raw, clean, "--schema", schema, "--sign", key).code == 0
    assert len(verify(clean, strict=True, trust=Trust(tmp_path / "keys")).signers) == 1
    ask = ("verify", clean, "--require-signature", "--trusted-keys", tmp_path / "keys")
    assert call(*ask).code == 0
    (raw / "b.csv").write_text("id,text\n9,more\n")
    assert call("run", raw, clean, "--schema", schema).code == 0
    assert call(*ask).code == Exit.VERIFY


class TestPrometheus:
    """The textfile."""

    LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+]+')

    def test_it_holds_the_accounts_of_the_run(
        self, call: Call, raw: Path, schema: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "metrics" / "cleanroom.prom"
        call("run", raw, tmp_path / "clean", "--schema", schema, "--prometheus", path)
        lines = path.read_text().splitlines()
        samples = [line for line in lines if line[0] != "#"]
        assert all(self.LINE.fullmatch(line) for line in samples)
        assert len({line.rpartition(" ")[0] for line in samples}) == len(samples)
        assert "cleanroom_run_exit_code 0" in samples
        assert 'cleanroom_records{schema="notes",outcome="certified"} 2' in samples
        assert (
            'cleanroom_records_by_reason{schema="notes",reason="text_blank",policy="quarantine"} 1' in samples
        )
        assert 'cleanroom_samples{dataset="notes"} 2' in samples
        assert [path.name for path in path.parent.iterdir()] == ["cleanroom.prom"]

    def test_a_refused_run_leaves_its_exit_code(
        self, call: Call, raw: Path, schema: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "cleanroom.prom"
        arguments = ("--schema", schema, "--prometheus", path, "--max-quarantine", "0.1")
        assert call("run", raw, tmp_path / "clean", *arguments).code == 3
        lines = path.read_text().splitlines()
        assert "cleanroom_run_exit_code 3" in lines
        assert "cleanroom_run_published 0" in lines


class TestLineage:
    """OpenLineage events."""

    @staticmethod
    def events(path: Path) -> list[dict[str, dict[str, object]]]:
        return [json.loads(line) for line in path.read_text().splitlines()]

    def test_a_run_starts_and_completes_with_the_root_as_version(
        self, call: Call, raw: Path, schema: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "lineage.jsonl"
        call("run", raw, tmp_path / "clean", "--schema", schema, "--lineage", path)
        first, last = self.events(path)
        assert (first["eventType"], last["eventType"]) == ("START", "COMPLETE")
        assert first["run"]["runId"] == last["run"]["runId"]
        (given,) = last["inputs"]
        assert given["name"] == str(raw / "a.csv")
        (made,) = last["outputs"]
        certificate = json.loads((tmp_path / "clean" / "certificate.json").read_bytes())
        root = certificate["subject"][0]["digest"]["sha256"]
        assert made["facets"]["version"]["datasetVersion"] == root
        assert made["outputFacets"]["outputStatistics"]["rowCount"] == 2
        assert "good" not in path.read_text()

    def test_a_refused_run_fails_and_events_are_appended(
        self, call: Call, raw: Path, schema: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "lineage.jsonl"
        for _ in range(2):
            call("run", raw, tmp_path / "c", "--schema", schema, "--lineage", path, "--max-quarantine", "0.1")
        assert [event["eventType"] for event in self.events(path)] == ["START", "FAIL"] * 2
        message = self.events(path)[-1]["run"]["facets"]["errorMessage"]["message"]
        assert message == "over the quarantine budget (exit 3)"


def test_links_into_a_cache_keep_the_cache_whole(call: Call, tmp_path: Path, notes: Path) -> None:
    """As a data version control system lays out a folder: read-only links into its cache."""
    raw, clean, cache = tmp_path / "raw", tmp_path / "clean", tmp_path / "cache"
    cache.mkdir()
    fill(raw, 3, 50)
    call("run", raw, clean, "--schema", notes)
    for number, path in enumerate(sorted(p for p in clean.rglob("*") if p.is_file())):
        path.rename(cache / f"{number}")
        (cache / f"{number}").chmod(0o444)
        path.symlink_to(cache / f"{number}") if number % 2 else path.hardlink_to(cache / f"{number}")
    held = {path.name: path.read_bytes() for path in cache.iterdir()}
    assert call("verify", clean).code == 0
    for rows in (60, 70):
        fill(raw, 1, rows)
        assert call("run", raw, clean, "--schema", notes).code == 0
        assert call("verify", clean).code == 0
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == held
