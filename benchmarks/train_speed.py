"""How fast certified shards train: loader cost, padding, packing, memory.

    python -m benchmarks.train_speed build PLACE --data DATA --tokenizers TOKENIZERS   # needs the whole program
    python -m benchmarks.train_speed run PLACE OUT [--only loader,padding,chat,memory]   # needs a GPU
    torchrun --nproc-per-node 2 -m benchmarks.train_speed ranks PLACE OUT                 # needs two

``build`` certifies real pages (DocBank, with drawn page images) and real dialogues (MTS-Dialog), so that lengths are
those of real data. ``run`` trains a LayoutLMv3 of base size and an 8-billion-parameter Llama with LoRA, both from
random weights.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    """One of the three commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train_speed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("place", type=Path)
    build.add_argument("--data", type=Path, required=True, help="folder with docbank/ and mts-dialog/")
    build.add_argument(
        "--tokenizers", type=Path, required=True, help="folder with layoutlmv3-base/ and llama3/"
    )
    for name in ("run", "ranks"):
        command = commands.add_parser(name)
        command.add_argument("place", type=Path)
        command.add_argument("out", type=Path)
        command.add_argument("--only", default="loader,padding,chat,memory")
        command.add_argument(
            "--small", action="store_true", help="tiny models on the CPU: to try the program"
        )
    told = parser.parse_args()
    if told.command == "build":
        from benchmarks.speed.build import build as make

        print(json.dumps(make(told.place.resolve(), told.data, told.tokenizers), indent=2))
        return
    told.out.mkdir(parents=True, exist_ok=True)
    if told.command == "ranks":
        from benchmarks.speed.ranks import ranks

        ranks(told.place, told.out, small=told.small)
        return
    _run(told)


def _run(told: argparse.Namespace) -> None:
    from benchmarks.speed import chat, documents, memory

    parts: dict[str, Callable[..., dict[str, Any]]] = {
        "loader": documents.loader,
        "padding": documents.padding,
        "chat": chat.chat,
        "memory": memory.memory,
    }
    for name in told.only.split(","):
        found = parts[name](told.place, told.out, small=told.small)
        (told.out / f"{name}.json").write_text(json.dumps(found, indent=2))
        print(name, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
