"""Documents: the stages over records, and the encoder that makes windows of tokens of them."""

from __future__ import annotations

import pyarrow as pa

from pipeline.batch import EncodeStage, RecordStage
from pipeline.shards import schemas
from pipeline.stages.context import Context
from pipeline.stages.layout.answers import AnswerStage
from pipeline.stages.layout.boxes import BoxStage
from pipeline.stages.layout.encode import Encode
from pipeline.stages.layout.images import ImageStage, image_spec
from pipeline.stages.layout.labels import LabelStage, PageLabelStage
from pipeline.stages.layout.words import WordStage


def record_stages(context: Context) -> list[RecordStage]:
    """Words, boxes, labels: in this order, because a dropped word takes its box and label along. Images come first
    where they say how large the page is."""
    layout = context.schema.layout
    assert layout is not None  # noqa: S101 - the model proves it
    stages: list[RecordStage] = [WordStage(context), BoxStage(context)]
    if layout.labels is not None:
        stages.append(LabelStage(context))
    if layout.page_label is not None:
        stages.append(PageLabelStage(context))
    if layout.question is not None and layout.question.start is not None:
        stages.append(AnswerStage(context))
    if layout.image is not None:
        stages.insert(0 if layout.page.from_image else len(stages), ImageStage(context))
    return stages


def encoder(context: Context) -> EncodeStage:
    """The stage that makes samples."""
    return Encode(context)


def shard_schema(context: Context) -> pa.Schema:
    """Arrow schema of the samples."""
    schema = context.schema
    assert schema.layout is not None  # noqa: S101 - the model proves it
    return schemas.layout(
        context.columns,
        float_boxes=context.limits is not None and context.limits.float_boxes,
        labels=schema.layout.labels is not None,
        image=schema.layout.image is not None,
        record=schema.output.keep_record,
        page_label=schema.layout.page_label is not None,
        answer=schema.layout.question is not None and schema.layout.question.start is not None,
    )


def pages_schema(context: Context) -> pa.Schema | None:
    """Arrow schema of the page images, None where the schema reads none."""
    layout = context.schema.layout
    assert layout is not None  # noqa: S101 - the model proves it
    return schemas.pages(image_spec(context).side) if layout.image is not None else None
