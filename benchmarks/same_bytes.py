"""Whether two checkouts make the same bytes.

    python -m benchmarks.same_bytes record OUT.json [--checkout DIR] [--shared ../shared] [--jobs 2] [--only PATTERN]
    python -m benchmarks.same_bytes compare A.json B.json [--ignore libraries,dropped]

``record`` runs ``python -m pipeline run`` of a checkout over samples, acceptance cases, real sets and made tables
(``benchmarks.byte_jobs``) and keeps what came out: exit code, root, names and rows of every shard (a name is the
digest of the content), the account of every input, findings, notes, and the digest of each part of the certificate.
It reads the output folder and imports nothing of the program, so that it works on any checkout.

``compare`` prints every difference and exits with 1 when one is left unexplained. ``--ignore libraries`` explains the
parts that name versions (``libraries``, memo keys and so the root); ``--ignore dropped`` takes a count of zero for an
absent one. The root is explained only where nothing else differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.byte_jobs import Job, all_jobs

Record = dict[str, Any]

SECONDS = 1800
"""Longest time for one job: more is written down as a hang."""
EXPLAINED = ("libraries", "dropped")
_VERSIONS = ("libraries", "program")
_COUNTS = ("rows_read", "certified", "quarantined", "dropped", "reasons", "repairs", "flags")


def record(job: Job, checkout: Path, tokenizers: Path) -> Record:
    """Run one job in a folder of its own and read what it left.

    Args:
        job: the run.
        checkout: whose program runs.
        tokenizers: folder that the job finds as ``tokenizers`` beside its raw folder.
    """
    with tempfile.TemporaryDirectory(prefix="bytes-") as name:
        root = Path(name).resolve()
        _place(job, root, tokenizers)
        environment = {**os.environ, "PYTHONPATH": str(checkout), "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
        command = [
            sys.executable,
            "-m",
            "pipeline",
            "run",
            *job.arguments,
            "--no-fsync",
            "--log-format",
            "json",
        ]
        try:
            done = subprocess.run(
                command,
                cwd=root,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return {"exit": f"no end after {SECONDS} s"}
        traceback = "Traceback (most recent call last)" in done.stderr
        return {
            "exit": done.returncode,
            "traceback": traceback,
            **_events(done.stderr),
            **read_output(root / "clean"),
        }


def _place(job: Job, root: Path, tokenizers: Path) -> None:
    if tokenizers.is_dir():
        (root / "tokenizers").symlink_to(tokenizers.resolve())
    (root / "raw").mkdir()
    for source, place in job.copies:
        target = root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    for place, content in job.contents.items():
        target = root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _events(log: str) -> Record:
    """Notes of whole files and the accounts told while running, from the log for machines."""
    notes, told = [], {}
    for line in log.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if not isinstance(event, dict):
            continue
        if event.get("event") == "file.note":
            notes.append([event["reason"], event["source"], event["found"], event["expected"]])
        elif event.get("event") == "partition.end":
            told[_place_of(event)] = {key: event[key] for key in (*_COUNTS[:3], "reasons")}
    return {"file notes": sorted(notes, key=str), "told": told}


def _place_of(partition: Mapping[str, Any]) -> str:
    return " | ".join(str(partition[key]) for key in ("source", "sheet", "chunk"))


def read_output(clean: Path) -> Record:
    """What lies in an output folder, published or refused.

    Returns:
        ``shards`` and ``refused``: by folder, the name and rows of each shard, in order of the names; ``root``,
        ``accounts`` by input, ``totals``, ``notes``, ``certificate`` (digest of each part, without versions, memo
        keys and counts of zero), and ``libraries``, ``memos``, ``dropped`` as written, which those leave out.
    """
    found: Record = {"refused": _refused(clean / ".refused/quarantine")}
    if not (clean / "certificate.json").is_file():
        return found
    statement = json.loads((clean / "certificate.json").read_bytes())
    predicate = statement["predicate"]
    shards: dict[str, list[list[Any]]] = {}
    for entry in predicate["files"]:
        shards.setdefault(entry["folder"], []).append([entry["name"], entry["rows"]])
        content = (clean / entry["folder"] / entry["name"]).read_bytes()
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise ValueError(f"{entry['name']} is not what the certificate says")
    partitions = predicate["partitions"]
    accounts = {
        _place_of(part): {key: part[key] for key in _COUNTS} | {"repeats": len(part["repeats"])}
        for part in partitions
    }
    bare = _bare(predicate)
    return found | {
        "root": statement["subject"][0]["digest"]["sha256"],
        "shards": {folder: sorted(names) for folder, names in shards.items()},
        "accounts": {place: _without_dropped(account) for place, account in accounts.items()},
        "totals": _without_dropped(predicate["totals"]),
        "notes": sorted(predicate["notes"]),
        "certificate": {key: _digest(value) for key, value in bare.items()} | {"whole": _digest(bare)},
        "dropped": {place: account["dropped"] for place, account in accounts.items()},
        "libraries": {key: predicate[key] for key in _VERSIONS},
        "memos": _digest([part["memo"] for part in partitions]),
    }


def _refused(folder: Path) -> dict[str, list[list[Any]]]:
    """Quarantine of a run that was not published."""
    found: dict[str, list[list[Any]]] = {}
    for path in sorted(folder.glob("*/*.arrow")):
        with pa.memory_map(str(path)) as source:
            found.setdefault(path.parent.name, []).append(
                [path.name, pa.ipc.open_stream(source).read_all().num_rows]
            )
    return found


def _bare(predicate: Mapping[str, Any]) -> dict[str, Any]:
    """The predicate without versions, memo keys and counts of zero."""

    def thinned(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: thinned(item) for key, item in value.items() if key != "memo"}
            return _without_zeros(kept)
        return [thinned(item) for item in value] if isinstance(value, list) else value

    return {key: thinned(value) for key, value in predicate.items() if key not in _VERSIONS}


def _without_zeros(account: dict[str, Any]) -> dict[str, Any]:
    if isinstance(account.get("dropped"), dict):
        account["dropped"] = {name: count for name, count in account["dropped"].items() if count}
    return account


def _without_dropped(account: Mapping[str, Any]) -> dict[str, Any]:
    return _without_zeros(dict(account))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def differences(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Any]]:
    """Every place where two JSON values differ: (path, before, after); what one lacks is ``None``."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), (*path, key))
    elif before != after:
        yield " › ".join(path), before, after


def compare(before: Record, after: Record, ignore: Sequence[str]) -> tuple[list[tuple[str, Any, Any]], bool]:
    """The differences of one job that ``ignore`` does not explain, and whether any was explained.

    Args:
        before, after: what ``record`` gave for the job.
        ignore: names of ``EXPLAINED``.
    """
    found = list(differences(before, after))
    if "dropped" in ignore:
        found = [one for one in found if not _only_zeros(*one)]
    if "libraries" in ignore:
        found = [one for one in found if one[0].split(" › ")[0] not in ("libraries", "memos")]
    if ignore and [place for place, _, _ in found] == ["root"] and "root" in before and "root" in after:
        written = [(r["libraries"], r["memos"]) if "libraries" in ignore else () for r in (before, after)]
        written = [
            (*w, r["dropped"]) if "dropped" in ignore else w
            for w, r in zip(written, (before, after), strict=True)
        ]
        if written[0] != written[1]:
            found = []
    return found, not found and before != after


def _only_zeros(place: str, before: Any, after: Any) -> bool:
    """Whether a difference is a count of dropped rows that is zero on one side and absent on the other."""
    return (
        place.startswith("dropped › ") and {before or 0, after or 0} == {0}
        if not (isinstance(before, dict) or isinstance(after, dict))
        else False
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else text[:157] + "…"


def record_command(options: argparse.Namespace) -> int:
    """Run the jobs side by side; write the records, sorted by name."""
    checkout, shared = options.checkout.resolve(), options.shared.resolve()
    jobs = [job for job in all_jobs(checkout, shared) if re.search(options.only, job.name)]
    if options.sample:
        jobs = random.Random(options.seed).sample(jobs, max(1, round(len(jobs) * options.sample)))
    records: dict[str, Record] = {}

    def one(job: Job) -> None:
        began = time.monotonic()
        records[job.name] = record(job, checkout, shared / "tokenizers")
        done = records[job.name]
        read = done.get("totals", {}).get("rows_read", "–")
        print(f"{time.monotonic() - began:6.1f} s  exit {done['exit']}  rows {read}  {job.name}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, jobs))
    options.out.write_text(
        json.dumps(dict(sorted(records.items())), indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    print(f"{len(records)} jobs, {sum('root' in r for r in records.values())} published")
    return 0


def compare_command(options: argparse.Namespace) -> int:
    """Print the differences by job; 1 when any is left."""
    before, after = (json.loads(path.read_text("utf-8")) for path in (options.before, options.after))
    ignore = [name for name in options.ignore.split(",") if name]
    if unknown := [name for name in ignore if name not in EXPLAINED]:
        print(f"--ignore knows {', '.join(EXPLAINED)}, not {', '.join(unknown)}")
        return 2
    names = sorted({*before, *after} if not options.common else {*before} & {*after})
    explained = differing = 0
    for name in names:
        found, excused = compare(before.get(name, {}), after.get(name, {}), ignore)
        explained += excused
        differing += bool(found)
        for number, (place, was, now) in enumerate(found):
            if number == options.most:
                print(f"{name}: {len(found) - number} more")
                break
            print(f"{name}: {place}\n    before {_short(was)}\n    after  {_short(now)}")
    if explained:
        print(f"{explained} jobs differ in what is ignored ({options.ignore}) and so in the root")
    print(f"{len(names)} jobs: {len(names) - differing} equal, {differing} differ")
    return 1 if differing or not names else 0


def main() -> int:
    """Read the command line and run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_bytes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record", help="run the jobs and write what came out")
    one.add_argument("out", type=Path)
    one.add_argument("--checkout", type=Path, default=Path())
    one.add_argument("--shared", type=Path, default=Path("../shared"))
    one.add_argument("--jobs", type=int, default=2, help="runs side by side")
    one.add_argument("--only", default="", metavar="PATTERN", help="jobs whose name holds this expression")
    one.add_argument("--sample", type=float, default=0, metavar="SHARE", help="a random share of the jobs")
    one.add_argument("--seed", type=int, default=0, help="of --sample")
    one.set_defaults(call=record_command)
    two = commands.add_parser("compare", help="print how two records differ")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    two.add_argument("--ignore", default="", help=f"comma-separated: {', '.join(EXPLAINED)}")
    two.add_argument("--common", action="store_true", help="only jobs that both records hold")
    two.add_argument("--most", type=int, default=12, help="differences shown of one job")
    two.set_defaults(call=compare_command)
    options = parser.parse_args()
    code: int = options.call(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
