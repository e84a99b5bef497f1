"""``clean/`` as links into DVC's cache, hard and symbolic: nothing is ever written through one."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dvc.conftest import dvc

pytest.importorskip("dvc", reason="needs the extra [dvc]")
pytestmark = pytest.mark.slow

LINE = {"text": "Came in the rain, dry inside.", "label": "positive", "stars": 5}


@pytest.fixture(scope="module", params=["hardlink", "symlink"])
def linked(request: pytest.FixtureRequest, make: Callable[[str], Path]) -> Path:
    """A project whose outputs were made once, and are links."""
    project = make(request.param)
    dvc(project, "config", "cache.type", request.param)
    dvc(project, "repro")
    return project


def test_outputs_are_read_only_links_and_verify(linked: Path) -> None:
    files = _files(linked)
    assert files and all(_is_link(path) for path in files)
    assert not any(path.stat().st_mode & stat.S_IWUSR for path in files)
    assert _verify(linked) == 0
    assert not _damaged(linked)


def test_a_changed_input_leaves_every_cached_object_as_it_was(linked: Path) -> None:
    before, shards = _cache(linked), {path.name for path in _files(linked)}
    _add_review(linked, "r-1")
    assert "Running stage 'sanitize'" in dvc(linked, "repro")
    assert {path.name for path in _files(linked)} - shards
    assert {name: digest for name, digest in _cache(linked).items() if name in before} == before
    assert all(_is_link(path) for path in _files(linked))
    assert _verify(linked) == 0


def test_a_run_without_dvc_replaces_links_and_writes_through_none(linked: Path) -> None:
    """DVC takes its links away before a stage; nobody does so before a run by hand."""
    before, root = _cache(linked), _root(linked)
    _add_review(linked, "r-2")
    folders = ["data_samples/raw", "clean", "--schemas", "schemas"]
    subprocess.run([sys.executable, "-m", "pipeline", "run", *folders], cwd=linked, check=True)
    assert _root(linked) != root
    assert _cache(linked) == before
    assert _verify(linked) == 0
    dvc(linked, "repro")
    assert not _damaged(linked)


def test_a_checkout_brings_the_same_folder_back(linked: Path) -> None:
    dvc(linked, "repro")
    root = _root(linked)
    shutil.rmtree(linked / "clean")
    dvc(linked, "checkout")
    assert all(_is_link(path) for path in _files(linked))
    assert (_root(linked), _verify(linked)) == (root, 0)


def test_a_damaged_cache_is_told_and_once_the_object_is_gone_repaired(linked: Path) -> None:
    """DVC trusts a read-only object of its cache, and links it back in as often as it is replaced."""
    dvc(linked, "repro")
    root = _root(linked)
    shard = max((linked / "clean/reviews/data").glob("*.arrow"), key=lambda path: path.stat().st_size)
    digest = hashlib.md5(shard.read_bytes(), usedforsecurity=False).hexdigest()
    cached = linked / ".dvc/cache/files/md5" / digest[:2] / digest[2:]
    content = bytearray(cached.read_bytes())
    content[len(content) // 2] ^= 1
    cached.chmod(0o644)
    cached.write_bytes(content)
    cached.chmod(0o444)

    assert _verify(linked) == 5
    dvc(linked, "repro", code=255)  # the stage `verify` fails

    cached.unlink()
    shard.unlink(missing_ok=True)
    dvc(linked, "repro")
    assert (_root(linked), _verify(linked)) == (root, 0)
    assert not _damaged(linked)


def _files(project: Path) -> list[Path]:
    """What DVC keeps of the output folder."""
    return [path for path in sorted((project / "clean").glob("[!.]*/**/*.*")) if path.is_file()]


def _is_link(path: Path) -> bool:
    return path.is_symlink() or path.stat().st_nlink > 1


def _cache(project: Path) -> dict[str, str]:
    """Digest of each object of the cache, by the digest that it is named after."""
    place = project / ".dvc/cache/files/md5"
    return {
        path.parent.name + path.name: hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def _damaged(project: Path) -> list[str]:
    return [name for name, digest in _cache(project).items() if name.removesuffix(".dir") != digest]


def _add_review(project: Path, key: str) -> None:
    with (project / "data_samples/raw/reviews/winter.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": key, **LINE}) + "\n")


def _root(project: Path) -> object:
    return json.loads((project / "clean/certificate.json").read_bytes())["subject"]


def _verify(project: Path) -> int:
    command = [sys.executable, "-m", "pipeline", "verify", "clean", "--strict"]
    return subprocess.run(command, cwd=project, check=False, capture_output=True).returncode
