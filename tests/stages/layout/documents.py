"""Documents as the cast stage delivers them, and the stages over them; for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings, Samples, split
from pipeline.fields import Field
from pipeline.models.families import limits_for
from pipeline.models.tokenizer import load
from pipeline.reasons import Policy
from pipeline.schema.fields import fields_of
from pipeline.schema.model import LayoutSchema, schema_of
from pipeline.schema.model import Tokenizer as TokenizerSpec
from pipeline.stages.context import Context
from pipeline.stages.layout.stage import LayoutKind

ROOT = Path(__file__).resolve().parents[3]
TOKENIZER = "data_samples/tokenizers/tiny-layoutlmv3"
NAMES = ("O", "B-KEY", "I-KEY", "B-VALUE", "I-VALUE")

Page = dict[str, Any]


def schema(
    *,
    order: str = "xyxy",
    unit: Any = "pixel",
    origin: str = "top_left",
    labels: dict[str, Any] | None = None,
    page: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    policies: dict[str, str] | None = None,
    output: dict[str, Any] | None = None,
    tokenizer: str = TOKENIZER,
    **layout: Any,
) -> LayoutSchema:
    """A schema for documents; labels by name and the page's size unless said otherwise."""
    section = {
        "words": "words",
        "boxes": {"column": "bboxes", "order": order, "unit": unit, "origin": origin},
        "page": {"width": "width", "height": "height"} if page is None else page,
        "labels": {"column": "labels", "names": NAMES} if labels is None else (labels or None),
        **layout,
    }
    made = schema_of(
        {
            "version": 1,
            "name": "docs",
            "kind": "layout",
            "files": ["*"],
            "layout": section,
            "tokenizer": {"path": tokenizer},
            "model": model or {"family": "layoutlmv3"},
            "policies": policies or {},
            "output": output or {},
        }
    )
    assert isinstance(made, LayoutSchema)
    return made


def context(of: LayoutSchema, raw: Path = ROOT) -> Context[LayoutSchema]:
    """What the stages are built from."""
    tokenizer = load(TokenizerSpec(path=of.tokenizer.path), ROOT)
    names = of.layout.labels.names if of.layout.labels else ()
    limits = limits_for(of.model, ROOT, tokenizer.size, tokenizer.pad_id, len(names) or None)
    return Context(of, ROOT, raw, fields_of(of), [], tokenizer, limits=limits)


def batch(pages: list[Page], fields: tuple[Field, ...]) -> Batch:
    """Pages given with the names of the fields, without ``@``; what is left out is null."""
    columns = {
        field.name: pl.Series(
            field.name,
            [page.get(field.name.removeprefix("@")) for page in pages],
            field.type.dtype(),
            strict=True,
        )
        for field in fields
    }
    ids = np.arange(len(pages), dtype=np.int64)
    return Batch("pages.jsonl", None, ids, ids + 1, pl.DataFrame(columns))


@dataclass
class Judged:
    """What became of the pages."""

    batch: Batch
    findings: Findings
    samples: Samples | None = None

    def slugs(self, record: int = 0, policy: Policy | None = None) -> list[str]:
        """Reasons found on a record, sorted."""
        return sorted(
            {
                item.reason.slug
                for item in self.findings.items
                if record in item.ids and (policy is None or item.policy is policy)
            }
        )

    def good(self, record: int = 0) -> bool:
        """Whether the record may be encoded."""
        return record not in self.findings.rejected()

    def column(self, name: str, record: int = 0) -> Any:
        """A value of the frame, as Python has it."""
        return self.batch.frame[name].to_list()[record]

    def boxes(self, record: int = 0) -> list[list[float]] | None:
        """Normalized boxes of a record."""
        value = self.column("@boxes", record)
        return None if value is None else [[float(n) for n in box] for box in value]


def judge(pages: list[Page], of: LayoutSchema, raw: Path = ROOT) -> Judged:
    """Run the record stages."""
    made = context(of, raw)
    current, findings = batch(pages, made.fields), Findings()
    for stage in LayoutKind().stages(made).records:
        current, found = stage(current)
        findings.extend(found)
    return Judged(current, findings)


def encode(pages: list[Page], of: LayoutSchema, raw: Path = ROOT) -> Judged:
    """Run the record stages, and encode the good pages."""
    judged = judge(pages, of, raw)
    good, _ = split(judged.batch, judged.findings)
    judged.samples, found = LayoutKind().stages(context(of, raw)).encode(good)
    judged.findings.extend(found)
    return judged
