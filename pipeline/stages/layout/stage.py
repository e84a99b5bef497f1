"""Documents: the stages over records, and the encoder that makes windows of tokens of them."""

from __future__ import annotations

import pyarrow as pa

from pipeline.batch import RecordStage
from pipeline.schema.model import LayoutSchema
from pipeline.shards import schemas
from pipeline.stages.context import Context
from pipeline.stages.kind import KindStages, SampleRules, one_a_sample
from pipeline.stages.layout.answers import AnswerStage
from pipeline.stages.layout.boxes import BoxStage
from pipeline.stages.layout.encode import Encode
from pipeline.stages.layout.images import ImageStage, image_spec
from pipeline.stages.layout.labels import LabelStage, PageLabelStage
from pipeline.stages.layout.words import WordStage


class LayoutKind:
    """Documents, as a ``Kind``."""

    def check(self, schema: LayoutSchema) -> None:
        """Nothing: the sections do not speak of each other."""

    def label_names(self, schema: LayoutSchema) -> tuple[str, ...]:
        """The closed list, of words or of pages."""
        labels = schema.layout.labels or schema.layout.page_label
        return labels.names if labels is not None else ()

    def sample_rules(self, schema: LayoutSchema) -> SampleRules:
        """Labels are classes, not shifted."""
        return SampleRules(labels_are_tokens=False, causal_shift=False)

    def stages(self, context: Context[LayoutSchema]) -> KindStages:
        """Words, boxes, labels and images judged, then windows of tokens."""
        refers: dict[str, str] = {}
        shard = _shard_schema(context)
        has_images = context.schema.layout.image is not None
        pages = schemas.pages(image_spec(context).side) if has_images else None
        records = tuple(_record_stages(context, refers))
        return KindStages(records, Encode(context, shard, pages), shard, pages, refers=refers)

    def contents(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One record a sample, a window of it."""
        return one_a_sample(batch)


def _record_stages(context: Context[LayoutSchema], refers: dict[str, str]) -> list[RecordStage]:
    """Words, boxes, labels: in this order, because a dropped word takes its box and label along. Images come first
    where they say how large the page is."""
    layout = context.schema.layout
    stages: list[RecordStage] = [WordStage(context), BoxStage(context)]
    if layout.labels is not None:
        stages.append(LabelStage(context, layout.labels))
    if layout.page_label is not None:
        stages.append(PageLabelStage(layout.page_label))
    if layout.question is not None and layout.question.start is not None:
        stages.append(AnswerStage())
    if layout.image is not None:
        images = ImageStage(context, layout.image, refers)
        stages.insert(0 if layout.page.from_image else len(stages), images)
    return stages


def _shard_schema(context: Context[LayoutSchema]) -> pa.Schema:
    """Arrow schema of the samples."""
    schema, layout = context.schema, context.schema.layout
    return schemas.layout(
        context.columns,
        float_boxes=context.limits.float_boxes,
        labels=layout.labels is not None,
        image=layout.image is not None,
        record=schema.output.keep_record,
        page_label=layout.page_label is not None,
        answer=layout.question is not None and layout.question.start is not None,
    )
