"""The ``columns:`` section, and the strict base of every section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic import Field as Is

# Base of every part of a schema: unknown keys are errors, values are never coerced in silence.


class Strict(BaseModel):
    """A mapping in the YAML file. Keys not declared are refused; the model is immutable and hashable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


# The ``columns:`` section: typed columns carried into the certified shards, and their rules.


ScalarName = Literal["text", "integer", "number", "boolean", "date", "datetime", "json"]


class Item(Strict):
    """Type of a list's elements or a struct's member."""

    type: ScalarName | Literal["list", "struct"] = "text"
    required: bool = True
    """Whether a struct member must be there."""
    items: Item | None = None
    fields: dict[str, Item] = {}


class Column(Strict):
    """One typed column.

    Its name may not be one that a model, a collator or a trainer takes from a sample (`input_ids`, `labels`, `bbox`,
    `inputs_embeds`, …): the message says who reads it. `token_type_ids` (layout, table, tokens) and `position_ids`
    (tokens) may be carried as lists of integers; each value is judged against the model.
    """

    type: ScalarName | Literal["list", "struct"] = "text"
    column: str | None = None
    """Header, key or JSON path it is read from; default: its own name."""
    required: bool = True
    """Whether a missing or blank value is a finding."""
    blank: Literal["refuse", "allow"] = "refuse"
    """For text: whether white space alone counts as a value."""
    min: float | None = None
    max: float | None = None
    min_characters: Annotated[int, Is(ge=0)] | None = None
    max_characters: Annotated[int, Is(ge=1)] | None = None
    allowed: tuple[str, ...] | tuple[int, ...] | None = None
    pattern: str | None = None
    """Regular expression the whole text must match."""
    as_shown: bool = False
    """For text: take a JSON number or boolean as the file spells it ("42", never "42.0")."""
    items: Item | None = None
    """For lists: the type of the elements."""
    fields: dict[str, Item] = {}
    """For structs: the members."""

    @model_validator(mode="after")
    def _shape(self) -> Column:
        if self.type == "list" and self.items is None:
            raise ValueError("a list column needs `items`")
        if self.type == "struct" and not self.fields:
            raise ValueError("a struct column needs `fields`")
        if self.type not in ("integer", "number") and (self.min is not None or self.max is not None):
            raise ValueError("`min` and `max` are for integer and number columns")
        return self


RESERVED = ("sample_id", "source", "sheet", "row", "notes", "window", "windows", "page_id", "content_id")
"""Names of the columns that every sample has, which no schema column may take."""

_FORWARD = "an argument of the model's forward"
_TRAINER = "a column that trainers take for labels"
_SAMPLE = "a column of samples that this program makes"
MODEL_INPUTS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "input_ids",
            "attention_mask",
            "labels",
            "bbox",
            "pixel_values",
            "image",
            "inputs_embeds",
            "position_ids",
            "token_type_ids",
            "head_mask",
            "past_key_values",
            "cache_position",
            "use_cache",
            "start_positions",
            "end_positions",
            "next_sentence_label",
            "decoder_input_ids",
            "decoder_attention_mask",
            "decoder_inputs_embeds",
            "encoder_outputs",
            "output_attentions",
            "output_hidden_states",
            "return_dict",
            "logits_to_keep",
            "num_items_in_batch",
            "pixel_mask",
            "visual_bbox",
            "mm_token_type_ids",
            "cross_attention_mask",
        ),
        _FORWARD,
    ),
    **dict.fromkeys(("label", "label_ids"), _TRAINER),
    **dict.fromkeys(
        ("completion_mask", "assistant_masks", "loss_mask", "seq_lengths", "seq_idx"),
        "a column that TRL reads beside input_ids",
    ),
    **dict.fromkeys(
        ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"),
        "a column that padding-free collators read",
    ),
    **dict.fromkeys(
        ("sequence_boundaries", "packing_params", "num_truncated_tokens"),
        "a column that LLaMA-Factory or axolotl reads beside input_ids",
    ),
    **dict.fromkeys(
        ("word_ids", "rejected_input_ids", "rejected_attention_mask", "rejected_labels", "samples"), _SAMPLE
    ),
}
"""Names that a model, a collator or a trainer takes from a sample whoever put them there, and who reads each: arguments
of ``forward`` in transformers (``Trainer`` hands on every column that ``forward`` has), ``default_data_collator``
(``label``, ``label_ids``), TRL's ``SFTTrainer``, axolotl, LLaMA-Factory, and this package's collators."""

JUDGED: Mapping[str, tuple[str, ...]] = {
    "token_type_ids": ("layout", "table", "tokens"),
    "position_ids": ("tokens",),
}
"""Names among them whose values ``stages/certify.py`` judges token by token, and the kinds that may carry them."""


def reserved(columns: Mapping[str, Column], kind: str, label: str | None = None) -> list[str]:
    """What is wrong with the names of carried columns, one sentence each; empty when nothing is.

    Args:
        columns: the schema's ``columns``.
        kind: the schema's ``kind``.
        label: the column that a table declares as its label; it may have any of the names of labels.
    """
    faults = []
    for name, column in columns.items():
        if name in RESERVED:
            faults.append(f"column name {name!r} is taken by provenance")
        elif kind in JUDGED.get(name, ()):
            if column.type != "list" or column.items is None or column.items.type != "integer":
                faults.append(
                    f"column {name!r} reaches the model and must be `type: list` of `items: {{type: integer}}`"
                )
        elif name in MODEL_INPUTS and not (kind == "table" and name in ("label", label)):
            faults.append(f"column name {name!r} is {MODEL_INPUTS[name]}")
    return faults
