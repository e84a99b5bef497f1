"""One reading, in a process of its own: ``python -m benchmarks.reading_job (ours|peer) FORMAT FILE``.

Imports are done before the clock starts. Prints ``{"cpu_s", "wall_s", "rss_mb", "rows"}``; the CPU time of child
processes is counted.
"""

from __future__ import annotations

import atexit
import json
import resource
import sys
import time
from pathlib import Path

COLUMNS = {
    "id": "text",
    "text": "text",
    "label": "text",
    "score": "number",
    "count": "integer",
    "flag": "boolean",
}


def ours(format_: str, path: Path) -> int:
    """Inspect, read and cast; rows with places and findings, a batch at a time."""
    from pipeline.plan import inspect_file
    from pipeline.readers.discover import Claim
    from pipeline.schema.fields import fields_of
    from pipeline.schema.model import schema_of
    from pipeline.stages.cast import Cast
    from pipeline.worker import read_partition

    columns = {name: {"type": type_} for name, type_ in COLUMNS.items()}
    schema = schema_of(
        {"version": 1, "name": "reading", "kind": "table", "files": ("**",), "table": {}, "columns": columns}
    )
    fields = fields_of(schema)
    cast = Cast(schema, fields)
    claim = Claim(0, path.name, path, format_, path.stat().st_size)
    rows = 0
    for partition in inspect_file(claim, schema, fields).partitions:
        for batch, findings in read_partition(partition, path, schema, fields):
            batch, more = cast(batch)
            assert not findings.rejected().size and not more.rejected().size
            rows += batch.frame.height
    return rows


def peer(format_: str, path: Path) -> int:
    """The whole file into one typed frame by polars."""
    import polars as pl

    types = {"text": pl.String, "number": pl.Float64, "integer": pl.Int64, "boolean": pl.Boolean}
    schema = {name: types[type_] for name, type_ in COLUMNS.items()}
    if format_ == "csv":
        return pl.read_csv(path, schema=schema).height
    if format_ == "jsonl":
        return pl.scan_ndjson(path, schema=schema).collect().height
    return pl.read_excel(path).height


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    """Run one reading and print what it cost."""
    who, format_, path = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    found: dict[str, float] = {}

    def report() -> None:
        # Registered before anything else, this runs last: child processes have ended, and their time counts.
        found["cpu_s"] += _cpu()
        print(json.dumps(found))

    atexit.register(report)
    if who == "ours":
        from pipeline.process import use_one_thread

        use_one_thread()  # as every run does
    import fastexcel  # noqa: F401
    import polars  # noqa: F401

    if who == "ours":
        import msgspec  # noqa: F401
        import numpy.ma  # noqa: F401 - polars does when it is first given an array
        import pyarrow.csv  # noqa: F401

    found["cpu_s"], wall = -_cpu(), time.perf_counter()
    found["rows"] = (ours if who == "ours" else peer)(format_, path)
    found["wall_s"] = time.perf_counter() - wall
    found["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
