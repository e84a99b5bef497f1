"""Write the raw samples: ``python data_samples/make_samples.py [FOLDER]``.

Every format (.xlsx .csv .json .jsonl) and every kind, page images included, the same bytes each time. What is
planted where stands in ``faults.csv`` beside the raw folder.
"""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

from sets import clinical, forms, reviews, support


def main() -> None:
    """Write ``raw/`` and ``faults.csv`` under the folder given, or beside this script."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    raw = target / "raw"
    if raw.exists():
        shutil.rmtree(raw)
    faults = [fault for part in (forms, clinical, support, reviews) for fault in part.build(raw)]
    (raw / "clinical/~$letters.xlsx").write_bytes(b"\x05desk" + b" " * 50)
    (raw / "reviews/about.txt").write_text("Reviews of household goods, four seasons.\n", encoding="utf-8")
    with (target / "faults.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("source", "sheet", "row", "reason", "outcome"))
        for fault in faults:
            writer.writerow((fault.source, fault.sheet, fault.row, fault.reason, fault.outcome))
    size = sum(path.stat().st_size for path in raw.rglob("*") if path.is_file())
    print(
        f"{raw}: {sum(p.is_file() for p in raw.rglob('*'))} files, {size // 1024} KiB, {len(faults)} faults"
    )


if __name__ == "__main__":
    main()
