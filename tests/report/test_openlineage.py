"""Events have the structure that the OpenLineage specification asks for.

The structs below are the required and the known fields of https://openlineage.io/spec/2-0-2/OpenLineage.json and of the
facets at https://openlineage.io/spec/facets; whatever has another name or type is refused.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from pipeline.errors import Exit, GateError
from pipeline.report.events import Options
from pipeline.report.openlineage import Lineage
from pipeline.run import run

Uri = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9+.-]*:\S+$")]  # RFC 3986: a scheme, and no white space
Time = Annotated[datetime, Meta(tz=True)]  # RFC 3339 asks for the offset
FACETS = "https://openlineage.io/spec/facets"


class Closed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An object with these members and no other."""


class Facet(Closed):
    producer: Uri = msgspec.field(name="_producer")
    schema_url: Uri = msgspec.field(name="_schemaURL")


class Version(Facet):
    """1-0-1/DatasetVersionDatasetFacet"""

    datasetVersion: str


class Column(Closed):
    name: str
    type: str | None = None
    description: str | None = None
    ordinal_position: int | None = None
    fields: list[Column] = []


class Columns(Facet):
    """1-2-0/SchemaDatasetFacet"""

    fields: list[Column]


class Statistics(Facet):
    """1-0-2/OutputStatisticsOutputDatasetFacet"""

    rowCount: Annotated[int, Meta(ge=0)]
    size: Annotated[int, Meta(ge=0)]
    fileCount: Annotated[int, Meta(ge=0)]


class ErrorMessage(Facet):
    """1-0-1/ErrorMessageRunFacet"""

    message: str
    programmingLanguage: str
    stackTrace: str | None = None


class RunFacets(Closed):
    errorMessage: ErrorMessage | None = None


class DatasetFacets(Closed):
    version: Version
    schema: Columns | None = None


class OutputFacets(Closed):
    outputStatistics: Statistics


class Run(Closed):
    runId: uuid.UUID
    facets: RunFacets


class Job(Closed):
    namespace: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(min_length=1)]
    facets: dict[str, Facet]


class Input(Closed):
    namespace: str
    name: str
    facets: DatasetFacets


class Output(Input):
    outputFacets: OutputFacets


class RunEvent(Closed):
    eventType: Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]
    eventTime: Time
    producer: Uri
    schemaURL: Literal["https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"]
    run: Run
    job: Job
    inputs: list[Input]
    outputs: list[Output]


SCHEMA = """\
version: 1
name: notes
kind: table
files: ["**/*.csv"]
columns: {id: {}, text: {}}
table: {}
"""


@pytest.fixture
def options(tmp_path: Path) -> Options:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_text("id,text\na,one\nb,two\n")
    (tmp_path / "notes.yaml").write_text(SCHEMA)
    return Options(tmp_path / "raw", tmp_path / "clean", (tmp_path / "notes.yaml",))


def _events(path: Path) -> list[RunEvent]:
    return [msgspec.json.decode(line, type=RunEvent) for line in path.read_bytes().splitlines()]


def test_a_run_that_ends(options: Options, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        with Lineage(path, str(options.raw), str(options.clean)) as watch:
            watch.end(options, run(options, watch), Exit.OK)
    first, last, *again = _events(path)
    assert [event.eventType for event in (first, last, *again)] == ["START", "COMPLETE"] * 2
    assert first.run.runId == last.run.runId != again[0].run.runId
    assert first.eventTime <= last.eventTime
    (made,) = last.outputs
    assert (made.outputFacets.outputStatistics.rowCount, len(last.inputs)) == (2, 1)
    assert again[1].outputs == last.outputs and again[1].inputs == last.inputs


@pytest.mark.parametrize(
    ("error", "kind"),
    [(GateError("over budget"), "FAIL"), (ValueError("x"), "FAIL"), (KeyboardInterrupt(), "ABORT")],
)
def test_a_run_that_does_not(tmp_path: Path, error: BaseException, kind: str) -> None:
    path = tmp_path / "events.jsonl"
    with pytest.raises(type(error)), Lineage(path, "s3://raw", "s3://clean"):
        raise error
    first, last = _events(path)
    assert (first.eventType, last.eventType) == ("START", kind)
    assert first.run.facets.errorMessage is None
    assert last.run.facets.errorMessage is not None


def test_each_facet_names_the_schema_it_follows(options: Options, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Lineage(path, str(options.raw), str(options.clean)) as watch:
        watch.end(options, run(options, watch), Exit.OK)
    with pytest.raises(ValueError, match="x"), Lineage(path, "raw", "clean"):
        raise ValueError("x")
    seen = {type(facet): facet.schema_url for event in _events(path) for facet in _facets(event)}
    assert seen == {
        kind: f"{FACETS}/{kind.__doc__}.json#/$defs/{str(kind.__doc__).split('/')[1]}"
        for kind in (Version, Columns, Statistics, ErrorMessage)
    }


@pytest.mark.parametrize("lost", ["eventTime", "producer", "schemaURL", "run", "job"])
def test_the_structure_is_asked_for(options: Options, tmp_path: Path, lost: str) -> None:
    path = tmp_path / "events.jsonl"
    with Lineage(path, str(options.raw), str(options.clean)):
        pass
    event: dict[str, Any] = msgspec.json.decode(path.read_bytes().splitlines()[0])
    for broken in ({k: v for k, v in event.items() if k != lost}, {**event, lost: 1}, {**event, "more": 1}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(broken, RunEvent)


def _facets(value: Any) -> list[Facet]:
    """Every facet in an event."""
    if isinstance(value, Facet):
        return [value]
    if isinstance(value, list):
        return [facet for one in value for facet in _facets(one)]
    if isinstance(value, msgspec.Struct):
        return [facet for name in value.__struct_fields__ for facet in _facets(getattr(value, name))]
    return []
