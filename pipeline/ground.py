"""The ground a result stands on, beside the raw files: the program, its libraries, the options, and every file that a
schema names. Taken before a run and compared before the next one, without reading a schema or loading a tokenizer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipeline
from pipeline.certificate.cache import settled, stamp
from pipeline.certificate.digest import digest_of

if TYPE_CHECKING:
    from pipeline.job import Options
    from pipeline.schema.load import LoadedSchema

FILES = 10_000
"""Most files of a folder that a schema names; a larger one is not watched, so its runs are whole runs."""

Facts = list[Any] | None
"""Of a file its stamp; of a folder the name and stamp of each file in it; of what is not there, None."""


def circumstances(options: Options) -> str:
    """Digest of the program's own files, the interpreter, the installed libraries, and the options that decide."""
    return digest_of(
        {
            "version": [pipeline.__version__, pipeline.SEMANTICS, sys.version],
            "program": sorted(_files(Path(pipeline.__file__).parent)),
            "libraries": list(_installed()),
            "raw": os.fsdecode(os.path.realpath(options.raw)),
            "schemas": [str(path.absolute()) for path in options.schemas],
            "max_quarantine": repr(options.max_quarantine),
        }
    )


def named_by(schemas: Iterable[LoadedSchema]) -> list[Path] | None:
    """Files and folders that schemas name, the schema files included; None where one names something of the network.

    A model's configuration stands for its whole folder: the weights beside it are looked at, too.
    """
    paths: list[Path] = []
    for loaded in schemas:
        schema, folder = loaded.schema, loaded.folder
        paths.append(loaded.path)
        if schema.tokenizer is not None:
            if schema.tokenizer.path is None:
                return None
            paths.append(folder / schema.tokenizer.path)
        if schema.chat is not None and schema.chat.template.file is not None:
            paths.append(folder / schema.chat.template.file)
        if schema.model.config is not None:
            config = folder / schema.model.config
            paths += [config, config if config.is_dir() else config.parent]
    return paths


def look(paths: Sequence[Path]) -> dict[str, Facts]:
    """Each path as it stands."""
    return {str(path.absolute()): _facts(path) for path in paths}


def is_settled(looked: Mapping[str, Facts]) -> bool:
    """Whether all files are there and none changed just now, so that their stamps can be trusted from now on."""
    stamps = [one for facts in looked.values() if facts for one in _stamps(facts)]
    return None not in looked.values() and all(settled(tuple(one)) for one in stamps)


def _stamps(facts: list[Any]) -> list[Any]:
    return [facts] if isinstance(facts[0], int) else [one for _, one in facts]


def _facts(path: Path) -> Facts:
    if not path.is_dir():
        found = stamp(path)
        return None if found is None else list(found)
    names = sorted(os.listdir(path))  # noqa: PTH208 - names alone
    if len(names) > FILES:
        return None
    stamps = [(name, stamp(path / name)) for name in names]
    return [[name, list(found)] for name, found in stamps if found is not None]


def _files(folder: Path) -> Iterator[list[Any]]:
    """Name, size and time of each file of the program."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _files(Path(entry.path))
        else:
            facts = entry.stat()
            yield [entry.path, facts.st_size, facts.st_mtime_ns]


def _installed() -> Iterator[list[str]]:
    """Every library that can be imported, with its version: installers name its folder of facts by both."""
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208 - names alone
        except OSError:
            continue
        yield sorted(
            name for name in names if name.endswith((".dist-info", ".egg-info", ".egg-link", ".pth"))
        )
