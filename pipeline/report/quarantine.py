"""The quarantine for people: the place of each record, its reasons, what was found and expected, and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.markup import escape

from pipeline.certificate.folder import refused_parts
from pipeline.certificate.statement import CERTIFICATE, Statement, parse, quarantine_parts
from pipeline.errors import InputError, VerificationError
from pipeline.reasons import Reason


def records(
    clean: Path, wanted: set[str], source: str | None, *, published: bool = False
) -> Iterator[dict[str, Any]]:
    """The quarantined records of the last run in order, also of a refused run: the rows of the quarantine shards, with
    ``schema``, the name of their schema.

    Args:
        clean: the output folder.
        wanted: slugs of the reasons to show; empty for all.
        source: file to show; None for all.
        published: whether to ignore a refused run.

    Raises:
        InputError: the folder holds neither a certificate nor a refused run.
        VerificationError: a quarantine shard is missing or cannot be read.
    """
    for schema, shards in _shards(clean, published=published).items():
        for shard in shards:
            for row in _rows(shard):
                if source is not None and row["source"] != source:
                    continue
                if wanted and not wanted & {reason["reason"] for reason in row["reasons"]}:
                    continue
                yield {"schema": schema, **row}


def print_records(found: Iterator[dict[str, Any]], limit: int, *, cells: bool) -> None:
    """Print records for people."""
    console = Console(highlight=False)
    shown = 0
    for row in islice(found, limit):
        shown += 1
        console.print(f"[bold]{escape(place_of(row))}[/]  ({row['schema']})")
        for hit in row["reasons"]:
            reason = Reason.of(hit["reason"])
            where = escape(place_inside(hit))
            message = escape(reason.message(hit["found"], hit["expected"]))
            console.print(f"  [red]{hit['reason']}[/]{where and ' ' + where}: {message}")
            console.print(f"    to do: {escape(reason.facts.remedy)}", style="dim")
        if cells:
            console.print(f"    as read: {escape(record_text(row))}")
    more = next(found, None) is not None
    if not shown:
        console.print("no quarantined record" + " matches" * bool(limit))
    elif more:
        console.print(
            f"… more than {limit} records; see more with --limit, or all with --json --limit 1000000"
        )


def print_json(found: Iterator[dict[str, Any]], limit: int) -> None:
    """Print records as JSON, one object per line."""
    for row in islice(found, limit):
        raw = row.pop("raw")
        row["raw"] = None if raw is None else raw.decode("utf-8", "backslashreplace")
        print(json.dumps(row, ensure_ascii=False))  # noqa: T201


def place_inside(hit: dict[str, str]) -> str:
    """The place of a finding inside its record: a JSON path as it is, another path behind its column."""
    return hit["path"] if hit["path"].startswith("$") else hit["column"] + hit["path"]


def place_of(row: dict[str, Any]) -> str:
    """The place of a record: ``file, sheet S, row N``."""
    sheet = f", sheet {row['sheet']}" if row["sheet"] is not None else ""
    return f"{row['source']}{sheet}, row {row['row']}"


def record_text(row: dict[str, Any]) -> str:
    """The record as it was read: its cells or its bytes."""
    raw = row["raw"]
    text = row["cells"] if raw is None else raw.decode("utf-8", "backslashreplace")
    return str(text or "").rstrip("\r\n")


def _shards(clean: Path, *, published: bool) -> dict[str, list[Path]]:
    """The quarantine shards of each schema, in order."""
    refused = None if published else refused_parts(clean)
    if refused is not None:
        return refused
    statement = _statement(clean)
    return {
        schema: [clean / name for name in quarantine_parts(statement, schema)]
        for schema in statement.predicate["quarantine"]
    }


def _statement(clean: Path) -> Statement:
    try:
        return parse((clean / CERTIFICATE).read_bytes())
    except OSError:
        raise InputError(
            "no certificate in this folder", where=str(clean), remedy="give the output folder of a run"
        ) from None
    except ValueError:
        raise VerificationError(
            "the certificate cannot be read",
            where=str(clean / CERTIFICATE),
            remedy="run again: it repairs the folder",
        ) from None


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                yield from batch.to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise VerificationError(
            "a quarantine shard cannot be read",
            where=str(path),
            found=type(error).__name__,
            remedy="`python -m pipeline verify` lists all damage; a run repairs it",
        ) from None
