"""The lock of an output folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import BusyError
from pipeline.shards.files import FolderLock


def test_a_folder_removed_while_it_is_waited_for_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clean").mkdir()

    def flock(*_: object) -> None:
        (tmp_path / "clean").rmdir()

    monkeypatch.setattr("pipeline.shards.files.fcntl.flock", flock)
    with pytest.raises(BusyError), FolderLock(tmp_path / "clean"):
        pass
    with pytest.raises(BusyError), FolderLock(tmp_path / "clean"):
        pass
