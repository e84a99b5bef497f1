"""A folder in a store: what lies there, and moving files to and from it."""

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
    """Whether an argument names a store rather than a folder of this machine."""
    return URL.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in a store.

    Attributes:
        url: as given.
        fs, root: its fsspec file system, and the folder's path in it.
    """

    url: str
    fs: Any
    root: str

    def list(self) -> dict[str, Mapping[str, Any]]:
        """Every file by its name relative to the folder, with the store's own facts. Raises ``InputError`` where the
        store cannot be read, or names lead out of the folder."""
        try:
            self.fs.invalidate_cache()
            found = self.fs.find(self.root, detail=True)
        except FileNotFoundError:
            return {}
        except Exception as error:
            raise self._unreachable(error) from error
        names = {path[len(self.root) :].lstrip("/"): facts for path, facts in sorted(found.items())}
        for name in names:
            if not name or ".." in PurePosixPath(name).parts:
                raise InputError("a name that leaves its folder", where=self.url, remedy="rename the object")
        return names

    def version(self, name: str, facts: Mapping[str, Any]) -> str:
        """What changes when the file does: the store's tag of its content, else its size and time."""
        tag = next((facts[key] for key in ("ETag", "etag", "md5Hash", "content_md5") if facts.get(key)), None)
        times = [
            facts[key]
            for key in ("mtime", "LastModified", "created", "updated")
            if facts.get(key) is not None
        ]
        return f"{facts.get('size')} {tag or times}"

    def read(self, name: str) -> bytes | None:
        """Content of a file, None where there is none."""
        try:
            content: bytes = self.fs.cat_file(self._path(name))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._unreachable(error) from error
        return content

    def fetch(self, name: str, local: Path) -> None:
        """Copy a file here, whole or not at all."""
        with storage_errors(local):
            local.parent.mkdir(parents=True, exist_ok=True)
            beside = local.with_name(f".{local.name}.{os.getpid()}.tmp")
            try:
                self.fs.get_file(self._path(name), str(beside))
            except OSError:
                beside.unlink(missing_ok=True)
                raise
            except Exception as error:
                beside.unlink(missing_ok=True)
                raise self._unreachable(error) from error
            beside.replace(local)

    def write(self, name: str, content: bytes) -> None:
        """Put a file, over an older one."""
        with self._writing():
            self.fs.pipe_file(self._path(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """Put a file where there is none; False where there is one. Of two writers at once, one gets True."""
        with self._writing():
            try:
                self.fs.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
        return True

    def send(self, local: Path, name: str) -> None:
        """Copy a file there."""
        with self._writing():
            self.fs.put_file(str(local), self._path(name))

    def move(self, name: str, to: str) -> None:
        """Give a file another name."""
        with self._writing():
            self.fs.mv(self._path(name), self._path(to))

    def age(self, facts: Mapping[str, Any]) -> float:
        """Seconds since a file was put, by the store's own time; 0 where the store does not say."""
        for key in ("LastModified", "mtime", "updated", "created"):
            value = facts.get(key)
            if isinstance(value, datetime.datetime):
                value = (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp()
            if isinstance(value, int | float):
                return max(0.0, time.time() - value)
        return 0.0

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone already is no error."""
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
    """Names whatever a store answers as a ``StorageError``."""

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


def place_of(url: str) -> Place:
    """The folder that a URL names; raises ``SchemaError`` where its file system is not installed."""
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
    return Place(url, fs, root.rstrip("/"))


def working_copy(url: str, what: str) -> Path:
    """Where the files of a store are kept on this machine between two runs: below the user's cache folder."""
    return cache_folder() / "stores" / hashlib.sha256(url.encode()).hexdigest()[:32] / what
