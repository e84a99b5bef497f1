"""A folder in a remote store, addressed by a URL through fsspec: list, read, write and move files."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.certificate.cache import cache_folder
from pipeline.errors import InputError, SchemaError, StorageError
from pipeline.shards.files import storage_errors

URL = re.compile(r"[a-z][a-z0-9+.-]+://.+")


def is_url(name: str) -> bool:
    """Whether an argument of the command line names a store, not a local folder."""
    return URL.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A folder in a store.

    Every method that reads raises ``InputError`` where the store cannot be read; every method that writes raises
    ``StorageError`` where the store refuses.

    Attributes:
        url: as given.
        fs, root: the fsspec file system, and the path of the folder in it.
    """

    url: str
    fs: Any
    root: str

    def list(self) -> dict[str, Mapping[str, Any]]:
        """The store's information on every file, by name relative to the folder. Raises ``InputError`` also for a name
        that leads out of the folder."""
        try:
            self.fs.invalidate_cache()
            found = self.fs.find(self.root, detail=True)
        except FileNotFoundError:
            return {}
        except Exception as error:
            raise self._unreachable(error) from error
        listed = {path[len(self.root) :].lstrip("/"): info for path, info in sorted(found.items())}
        for name in listed:
            if not name or ".." in PurePosixPath(name).parts:
                raise InputError("a name that leaves its folder", where=self.url, remedy="rename the object")
        return listed

    def version(self, info: Mapping[str, Any]) -> str:
        """A text that changes with the file: its size, and the store's tag of its content or, without one, its
        times."""
        tag = next((info[key] for key in ("ETag", "etag", "md5Hash", "content_md5") if info.get(key)), None)
        times = [
            info[key] for key in ("mtime", "LastModified", "created", "updated") if info.get(key) is not None
        ]
        return f"{info.get('size')} {tag or times}"

    def read(self, name: str) -> bytes | None:
        """Content of a file; None where it does not exist."""
        try:
            content: bytes = self.fs.cat_file(self._path(name))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._unreachable(error) from error
        return content

    def fetch(self, name: str, local: Path) -> None:
        """Copy a file to this machine, completely or not at all."""
        with storage_errors(local):
            local.parent.mkdir(parents=True, exist_ok=True)
            temporary = local.with_name(f".{local.name}.{os.getpid()}.tmp")
            try:
                self.fs.get_file(self._path(name), str(temporary))
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
            except Exception as error:
                temporary.unlink(missing_ok=True)
                raise self._unreachable(error) from error
            temporary.replace(local)

    def write(self, name: str, content: bytes) -> None:
        """Write a file; an older one is replaced."""
        with self._writing():
            self.fs.pipe_file(self._path(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """Write a file that does not exist yet; False where it exists. Of two concurrent writers, one gets True."""
        with self._writing():
            try:
                self.fs.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
        return True

    def send(self, local: Path, name: str) -> None:
        """Copy a local file to the store."""
        with self._writing():
            self.fs.put_file(str(local), self._path(name))

    def move(self, name: str, to: str) -> None:
        """Rename a file."""
        with self._writing():
            self.fs.mv(self._path(name), self._path(to))

    def age(self, info: Mapping[str, Any]) -> float:
        """Seconds since a file was written, by the time that the store gives; 0 where it gives none."""
        for key in ("LastModified", "mtime", "updated", "created"):
            value = info.get(key)
            if isinstance(value, datetime.datetime):
                value = (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp()
            if isinstance(value, int | float):
                return max(0.0, time.time() - value)
        return 0.0

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is no error."""
        with self._writing():
            try:
                self.fs.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _writing(self) -> _Writing:
        return _Writing(self.url)

    def _unreachable(self, error: Exception) -> InputError:
        return InputError(
            "the store cannot be read",
            where=self.url,
            found=type(error).__name__,
            remedy="check the address, the credentials and the network",
        )


class _Writing:
    """Raises every error of a store on writing as a ``StorageError``."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, StorageError):
            raise StorageError(
                "the store cannot be written",
                where=self._url,
                found=type(error).__name__,
                remedy="check the address, the credentials and the network; run again",
            ) from error


def open_remote(url: str) -> RemoteFolder:
    """The folder of a URL; raises ``SchemaError`` where its file system is not installed."""
    try:
        import fsspec
    except ImportError:
        raise SchemaError(
            "a URL needs the package fsspec", where=url, remedy="pip install 'cleanroom-pipeline[store]'"
        ) from None
    try:
        options = {"auto_mkdir": True} if url.startswith("file:") else {}
        fs, root = fsspec.core.url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise SchemaError(
            "no file system for this URL",
            where=url,
            found=str(error)[:160],
            remedy="install its fsspec package (s3fs, gcsfs …)",
        ) from None
    return RemoteFolder(url, fs, root.rstrip("/"))


def working_copy(url: str, what: str) -> Path:
    """The local folder that keeps the files of a store between two runs, below the user's cache folder."""
    return cache_folder() / "stores" / hashlib.sha256(url.encode()).hexdigest()[:32] / what
