"""The page of presets, made from the fragments in ``pipeline/schema/presets`` and their comments."""

from __future__ import annotations

from importlib import resources

from pipeline.schema.load import presets

_HEAD = """# Presets

<!-- Made by `python -m docs.generate` from pipeline/schema/presets; do not edit. -->

A preset is a ready part of a schema for a known kind of source. Name it, add what only you know, and override any key:
mappings are merged key by key, lists and values are replaced whole.

```yaml
version: 1
preset: funsd
name: forms
files: ["training_data/annotations/*.json"]
ignore: ["training_data/images/*"]
tokenizer: {path: ../tokenizers/layoutlmv3-base}
model: {family: layoutlmv3}
```

## A preset of your own

`preset: ./scans.yaml` lays your own file under the schema: any keys of a schema, for instance what all sources of one
scanner share. A name with a slash, or one that ends in `.yaml` or `.yml`, is a path. It starts at the folder of the
schema file and leads out of it only with `..`. An absolute path is refused, and so is one that leads out by a link.

```yaml
# scans.yaml
kind: layout
read: {format: json}
layout:
  words: words
  boxes: {column: boxes, order: xyxy, unit: pixel}
  page: {width: width, height: height}
  labels: {column: labels, names: [O, B-KEY, I-KEY]}
```

A preset names no other preset. Paths inside it (`tokenizer`, `model: config`, `chat: template: file`) start at the
folder of the schema, as if they stood there. A mistake in it is named with its own file and line. The preset counts as
a part of the schema: when it changes, the next run makes anew what depends on it.
"""


def presets_page() -> str:
    """One section a preset: its comment, then its YAML."""
    parts = [_HEAD]
    folder = resources.files("pipeline.schema") / "presets"
    for name in presets():
        lines = (folder / f"{name}.yaml").read_text("utf-8").splitlines()
        comment = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
        body = "\n".join(line for line in lines if not line.startswith("#"))
        parts.append(f"\n## `{name}`\n\n" + "\n".join(comment) + f"\n\n```yaml\n{body}\n```\n")
    return "".join(parts)
