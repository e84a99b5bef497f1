"""Readers that resolve everything through the certificate, while a writer goes on publishing."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from pipeline.certificate.folder import locate, read_certificate
from pipeline.errors import VerificationError
from tests import runs


@pytest.mark.slow
def test_a_reader_never_fails_while_a_writer_makes_300_generations(tmp_path: Path) -> None:
    clean, generations = tmp_path / "clean", 300
    runs.run(clean, {"a.csv": (20, 0)})
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for seed in range(1, generations + 1):
                runs.run(clean, {"a.csv": (20, seed), "b.csv": (5, 0)})
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    seen, shards = set(), 0
    while writer.is_alive():
        statement = read_certificate(clean)
        for name, part in statement.files.items():
            try:
                content = locate(clean, name).read_bytes()
            except (VerificationError, FileNotFoundError):
                # Two generations went by since the certificate was read: the reader takes the newer one.
                assert read_certificate(clean).root != statement.root
                break
            assert hashlib.sha256(content).hexdigest() == part.sha256
            shards += 1
        seen.add(statement.root)
    writer.join()
    assert failed == []
    assert len(seen) > 10
    assert shards > 50


def test_a_folder_without_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="certificate missing"):
        read_certificate(tmp_path)
