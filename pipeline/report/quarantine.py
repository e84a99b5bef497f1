"""The quarantine as people read it: place, reason, what was found and expected, what to do."""

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
    """Quarantined records in order, as the rows of their shards with the ``schema`` that judged them: those of the
    last run, also where it was refused.

    Args:
        clean: the output folder.
        wanted: reasons to keep; empty for all.
        source: file to keep; None for all.
        published: whether a refused run does not count.

    Raises:
        InputError: there is neither a certificate nor a refused run in the folder.
        VerificationError: a quarantine shard that the certificate names is not there or does not open.
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
        console.print(f"[bold]{escape(place(row))}[/]  ({row['schema']})")
        for reason in row["reasons"]:
            facts = Reason.of(reason["reason"])
            where = escape(place_inside(reason))
            said = escape(facts.message(reason["found"], reason["expected"]))
            console.print(f"  [red]{reason['reason']}[/]{where and ' ' + where}: {said}")
            console.print(f"    to do: {escape(facts.facts.remedy)}", style="dim")
        if cells:
            console.print(f"    as read: {escape(original(row))}")
    more = next(found, None) is not None
    if not shown:
        console.print("no quarantined record" + " matches" * bool(limit))
    elif more:
        console.print(
            f"… more than {limit} records; see more with --limit, or all with --json --limit 1000000"
        )


def print_json(found: Iterator[dict[str, Any]], limit: int) -> None:
    """Print records as JSON, one object a line."""
    for row in islice(found, limit):
        raw = row.pop("raw")
        row["raw"] = None if raw is None else raw.decode("utf-8", "backslashreplace")
        print(json.dumps(row, ensure_ascii=False))  # noqa: T201


def place_inside(reason: dict[str, str]) -> str:
    """Where in the record: a JSON path says it all, another path goes on from its column."""
    return reason["path"] if reason["path"].startswith("$") else reason["column"] + reason["path"]


def place(row: dict[str, Any]) -> str:
    """``file, sheet S, row N``."""
    sheet = f", sheet {row['sheet']}" if row["sheet"] is not None else ""
    return f"{row['source']}{sheet}, row {row['row']}"


def original(row: dict[str, Any]) -> str:
    """The record as it was read: its cells, or its bytes."""
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
            "a quarantine shard cannot be read", where=str(path), found=type(error).__name__,
            remedy="`python -m pipeline verify` lists all damage; a run repairs it",
        ) from None  # fmt: skip
