"""OpenLineage events of a run: START, then COMPLETE, FAIL or ABORT, one JSON object per line, appended to a file.

The version of an output data set is the root digest of the certificate; the inputs are the files that were read.
Specification: https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import datetime
import json
import uuid
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pipeline
from pipeline.errors import CleanroomError, Exit
from pipeline.report.events import SilentWatch, exit_of
from pipeline.shards.files import storage_errors

if TYPE_CHECKING:
    from pipeline.report.events import Options, Summary

PRODUCER = f"urn:cleanroom-pipeline:{pipeline.__version__}"
SPECIFICATION = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = "https://openlineage.io/spec/facets"


class Lineage(SilentWatch):
    """Appends each event when it happens; raises ``StorageError``.

    Args:
        path: file of the events.
        raw, clean: folders of the run, or their URLs; the names of the data sets come from them.
    """

    def __init__(self, path: Path, raw: str, clean: str) -> None:
        self._path = path
        self._raw, self._clean = (
            (name if "://" in name else str(Path(name).absolute())).rstrip("/") for name in (raw, clean)
        )
        self._run = str(uuid.uuid4())
        self._ended = False

    def __enter__(self) -> Self:
        self._append("START", {})
        return self

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        self._ended = True
        self._append("COMPLETE", {}, self._inputs(summary), self._outputs(summary))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._ended:
            return
        words = error.what if isinstance(error, CleanroomError) else type(error).__name__
        message = f"{words} (exit {exit_of(error)})"
        facet = _facet("1-0-1/ErrorMessageRunFacet", message=message, programmingLanguage="Python")
        stopped = not isinstance(error, Exception)
        self._append("ABORT" if stopped else "FAIL", {"errorMessage": facet})

    def _append(
        self,
        kind: str,
        facets: dict[str, Any],
        inputs: list[Any] | None = None,
        outputs: list[Any] | None = None,
    ) -> None:
        event = {
            "eventType": kind,
            "eventTime": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "producer": PRODUCER,
            "schemaURL": SPECIFICATION,
            "run": {"runId": self._run, "facets": facets},
            "job": {"namespace": "cleanroom", "name": f"run {self._clean.rpartition('/')[2]}", "facets": {}},
            "inputs": inputs or [],
            "outputs": outputs or [],
        }
        with storage_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")

    def _inputs(self, summary: Summary) -> list[dict[str, Any]]:
        digests = {r.source: r.sha256 for r in summary.outcome.statement.receipts()}
        return [
            {
                "namespace": "file",
                "name": f"{self._raw}/{source}",
                "facets": {"version": _facet("1-0-1/DatasetVersionDatasetFacet", datasetVersion=digest)},
            }
            for source, digest in sorted(digests.items())
        ]

    def _outputs(self, summary: Summary) -> list[dict[str, Any]]:
        statement = summary.outcome.statement
        files = statement.files
        version = _facet("1-0-1/DatasetVersionDatasetFacet", datasetVersion=statement.root)
        outputs = []
        for name, dataset in sorted(statement.datasets.items()):
            sizes = [files[f"{name}/data/{part}"].bytes for part in dataset["parts"]]
            fields = [{"name": field, "type": kind} for field, kind, _ in dataset["fields"]]
            counts = {"rowCount": dataset["rows"], "size": sum(sizes), "fileCount": len(sizes)}
            outputs.append(
                {
                    "namespace": "file",
                    "name": f"{self._clean}/{name}",
                    "facets": {
                        "version": version,
                        "schema": _facet("1-2-0/SchemaDatasetFacet", fields=fields),
                    },
                    "outputFacets": {
                        "outputStatistics": _facet("1-0-2/OutputStatisticsOutputDatasetFacet", **counts)
                    },
                }
            )
        return outputs


def _facet(schema: str, **values: Any) -> dict[str, Any]:
    name = schema.rpartition("/")[2]
    return {"_producer": PRODUCER, "_schemaURL": f"{FACETS}/{schema}.json#/$defs/{name}", **values}
