"""Stores to test with: in memory, a folder behind ``file://``, and an S3 server that runs here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """An S3 server on this machine; skips where its packages are not installed."""
    pytest.importorskip("s3fs", reason="the extra [store] is not installed")
    server_module = pytest.importorskip("moto.server", reason="no S3 server to test with")
    server = server_module.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=pytest.mark.filterwarnings("default"))])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of an empty place, without a slash at its end."""
    name = uuid.uuid4().hex
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "memory":
        return f"memory://{name}"
    if request.param == "file":
        return f"file://{tmp_path}/{name}"
    endpoint = request.getfixturevalue("s3_server")
    for key, value in (
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", endpoint),
    ):
        monkeypatch.setenv(key, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}"
