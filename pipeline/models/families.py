"""The limits of models: a table of the document families, and the limits of a schema's target model.

The files of the model override the table, and its weights override its ``config.json``, which may be wrong after
``resize_token_embeddings``. Unless a row names another source, its numbers come from the configuration and modelling
code of the family in transformers 5.24 and from the ``config.json`` of the published model in ``base``.

The module imports the standard library, the errors and the reasons only, so that a training node can use it.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from pipeline.errors import SchemaError, TokenizerError
from pipeline.reasons import Reason

# Rows of the embedding matrix, read from the headers of the weights.


MAX_HEADER = 100 * 2**20
"""Largest size of a safetensors header in bytes, as the format defines it."""
EMBEDDING_NAMES = (
    "embed_tokens.weight",
    "wte.weight",
    "word_embeddings.weight",
    "tok_embeddings.weight",
    "embed_in.weight",
)
"""Suffixes of the embedding's name in Llama, Qwen, Mistral and Gemma; GPT-2; BERT and LayoutLM; Meta's own format;
NeoX."""


def embedding_rows(folder: Path) -> int | None:
    """Number of rows of the embedding matrix in the safetensors files of a folder; None where none can be read."""
    index = folder / "model.safetensors.index.json"
    files = [folder / "model.safetensors"]
    if index.is_file():
        weights = _object(index.read_bytes()).get("weight_map", {})
        named = [file for name, file in sorted(weights.items()) if str(name).endswith(EMBEDDING_NAMES)]
        files = [folder / Path(str(file)).name for file in named]
    for file in files:
        if file.is_file():
            for name, tensor in sorted(_header(file).items()):
                shape = tensor.get("shape") if isinstance(tensor, dict) else None
                if name.endswith(EMBEDDING_NAMES) and isinstance(shape, list) and len(shape) == 2:
                    return int(shape[0])
    return None


def _header(file: Path) -> dict[str, Any]:
    """The header of a safetensors file: its length in 8 bytes, then JSON."""
    with file.open("rb") as stream:
        head = stream.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        return _object(stream.read(length)) if 0 < length <= MAX_HEADER else {}


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# The table of document families.


Box = tuple[float, float, float, float]
ORIGIN: Box = (0, 0, 0, 0)


class Positions(StrEnum):
    """How a model numbers its tokens, which decides how many tokens fit a position table of P rows."""

    FROM_ZERO = "from_zero"
    """``arange(length)``, pads counted: length ≤ P. BERT, LayoutLM, LayoutLMv2, BROS, and rotary models."""
    AFTER_PAD = "after_pad"
    """``pad_id + 1 + arange`` over tokens that are no pads: non-pad tokens ≤ P − pad_id − 1. RoBERTa's
    ``create_position_ids_from_input_ids``: LayoutLMv3, LiLT."""

    def longest(self, rows: int, pad_id: int) -> int:
        """Largest number of tokens of a sequence with ``rows`` position embeddings."""
        return rows if self is Positions.FROM_ZERO else rows - pad_id - 1


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """The pixels of a page as the image processor of the family makes them: bilinear resize to ``side`` × ``side``,
    then ``(pixel · scale − mean) / std`` per channel. Shards hold uint8; the loader does the last step."""

    side: int = 224
    channels: str = "RGB"
    scale: float = 1 / 255
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True)
class Family:
    """One document model family.

    Attributes:
        base: the published model whose ``config.json`` is the source of the numbers.
        positions, position_rows, pad_id: see ``Positions``.
        box_rows: rows of the 2-D position tables (coordinates must be smaller); None for float boxes.
        box_max: largest coordinate of the family's training data; boxes are integers 0–1000 or floats 0–1.
        inverted_boxes_crash: whether x1 < x0 gives an index error; otherwise the model trains without an error.
        cls_box, sep_box, pad_box: boxes of special tokens.
        type_rows: rows of the token type table.
        question_seps: number of separators between a question and the page: ``<s> q </s></s> page </s>`` for models
            like RoBERTa, ``[CLS] q [SEP] page [SEP]`` for models like BERT.
        image: the pixels of a page; None for families without pixels.
    """

    base: str
    positions: Positions
    position_rows: int
    pad_id: int
    box_rows: int | None
    box_max: float
    inverted_boxes_crash: bool
    cls_box: Box
    sep_box: Box
    pad_box: Box
    type_rows: int
    question_seps: int
    image: ImageSpec | None


DETECTRON2 = ImageSpec(channels="BGR", scale=1.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
"""Pixels as they are, blue first: mean and deviation are part of the model."""

# fmt: off
FAMILIES: dict[str, Family] = {
    # LayoutLMEmbeddings: arange positions; h and w embeddings looked up at y1 - y0 and x1 - x0, unclamped.
    # Special boxes: unilm layoutlm/deprecated/examples/seq_labeling (cls and pad zeros, sep 1000s).
    "layoutlm": Family(
        base="microsoft/layoutlm-base-uncased",
        positions=Positions.FROM_ZERO, position_rows=512, pad_id=0, box_rows=1024, box_max=1000,
        inverted_boxes_crash=True, cls_box=ORIGIN, sep_box=(1000, 1000, 1000, 1000), pad_box=ORIGIN,
        type_rows=2, question_seps=1, image=None,
    ),
    # LayoutLMv2Model: text positions arange; the 49 visual tokens are numbered from 0 again, so they take none
    # away. LayoutLMv2Tokenizer: sep_token_box 1000s. LayoutLMv2ImageProcessor: BGR, no rescaling (detectron2's
    # own pixel mean and deviation are part of the model).
    "layoutlmv2": Family(
        base="microsoft/layoutlmv2-base-uncased",
        positions=Positions.FROM_ZERO, position_rows=512, pad_id=0, box_rows=1024, box_max=1000,
        inverted_boxes_crash=True, cls_box=ORIGIN, sep_box=(1000, 1000, 1000, 1000), pad_box=ORIGIN,
        type_rows=2, question_seps=1, image=DETECTRON2,
    ),
    # LayoutLMv2's architecture with XLM-R's vocabulary: 514 position rows counted from 0, pad id 1. Only token
    # type 0 is ever used (LayoutXLMTokenizer), so one row is assumed where no config says more.
    "layoutxlm": Family(
        base="microsoft/layoutxlm-base",
        positions=Positions.FROM_ZERO, position_rows=514, pad_id=1, box_rows=1024, box_max=1000,
        inverted_boxes_crash=True, cls_box=ORIGIN, sep_box=(1000, 1000, 1000, 1000), pad_box=ORIGIN,
        type_rows=1, question_seps=2, image=DETECTRON2,
    ),
    # LayoutLMv3TextEmbeddings: positions after the pad id; h and w clipped to 0..1023, so inverted boxes train in
    # silence. LayoutLMv3Tokenizer: all special boxes zeros. LayoutLMv3ImageProcessor: RGB, mean = std = 0.5.
    "layoutlmv3": Family(
        base="microsoft/layoutlmv3-base",
        positions=Positions.AFTER_PAD, position_rows=514, pad_id=1, box_rows=1024, box_max=1000,
        inverted_boxes_crash=False, cls_box=ORIGIN, sep_box=ORIGIN, pad_box=ORIGIN,
        type_rows=1, question_seps=2, image=ImageSpec(),
    ),
    # LiltTextEmbeddings: positions after the pad id; LiltLayoutEmbeddings looks up y1 - y0 unclamped. Prepared
    # with LayoutLMv3's tokenizer (model card of lilt-roberta-en-base), so special boxes are zeros.
    "lilt": Family(
        base="SCUT-DLVCLab/lilt-roberta-en-base",
        positions=Positions.AFTER_PAD, position_rows=514, pad_id=1, box_rows=1024, box_max=1000,
        inverted_boxes_crash=True, cls_box=ORIGIN, sep_box=ORIGIN, pad_box=ORIGIN,
        type_rows=1, question_seps=2, image=None,
    ),
    # BrosTextEmbeddings: arange positions. Boxes are floats, corner / (width, height), taken through sinusoids
    # (no table, hence no index error). clovaai/bros: cls zeros, sep [w, h, w, h], which is ones.
    "bros": Family(
        base="jinho8345/bros-base-uncased",
        positions=Positions.FROM_ZERO, position_rows=512, pad_id=0, box_rows=None, box_max=1,
        inverted_boxes_crash=False, cls_box=ORIGIN, sep_box=(1, 1, 1, 1), pad_box=ORIGIN,
        type_rows=2, question_seps=1, image=None,
    ),
}
# fmt: on
"""Document families by their name in a schema."""

_AFTER_PAD_MODELS = frozenset(
    {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "longformer", "layoutlmv3", "lilt", "mpnet"}
)
"""Values of ``model_type`` whose models number tokens from ``pad_id + 1``."""


class ModelSpec(Protocol):
    """The ``model:`` section of a schema (``pipeline.schema.model.Model``)."""

    @property
    def family(self) -> str | None: ...
    @property
    def config(self) -> str | None: ...
    @property
    def embedding_rows(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a target model; the certify stage checks every token of every sample against them.

    Attributes:
        family: name of the document family; None for other models.
        embedding_rows: token ids must be smaller.
        max_tokens: largest number of tokens of one sample, with special tokens; None for an unknown model.
        pad_id: id of pad tokens.
        num_labels: label ids must be smaller; None without labels.
        type_vocab: token types must be smaller.
        box_rows, box_max: integer boxes must be ≤ ``box_max`` and < ``box_rows``; float boxes ≤ 1.
        float_boxes: whether boxes are float32 0–1 (BROS); otherwise int16 0–1000.
        cls_box, sep_box, pad_box: boxes of special tokens.
        image: the pixels of a page; None for families without pixels.
    """

    family: str | None
    embedding_rows: int
    max_tokens: int | None
    pad_id: int | None
    num_labels: int | None
    type_vocab: int
    box_rows: int | None
    box_max: float
    float_boxes: bool
    cls_box: Box
    sep_box: Box
    pad_box: Box
    image: ImageSpec | None


def limits_for(
    model: ModelSpec, schema_dir: Path, tokenizer_size: int | None, pad_id: int | None, num_labels: int | None
) -> Limits:
    """The limits of the target model of a schema, from its config, else from its family, else from the tokenizer.

    Args:
        model: the ``model:`` section of the schema.
        schema_dir: folder that ``config`` is relative to.
        tokenizer_size: ``len(tokenizer)``; None without a tokenizer.
        pad_id: pad id of the tokenizer; that of the config or the family overrides it.
        num_labels: length of the schema's label list.

    Raises:
        SchemaError: the config cannot be read, belongs to another family, or has fewer labels than the schema.
        TokenizerError: the tokenizer has ids beyond the embedding matrix.
    """
    config = _read(schema_dir / model.config) if model.config is not None else {}
    _check_family(model, config)
    rows = model.embedding_rows or _stored_rows(model, schema_dir)
    return limits_of(config, model.family, rows, tokenizer_size, pad_id, num_labels)


def limits_of(
    config: dict[str, Any],
    family_name: str | None = None,
    embedding_rows: int | None = None,
    tokenizer_size: int | None = None,
    pad_id: int | None = None,
    num_labels: int | None = None,
) -> Limits:
    """The limits of a model with this ``config.json``; arguments and errors as for ``limits_for``."""
    name = family_name or _family_of(config)
    family = FAMILIES[name] if name is not None else None
    rows = embedding_rows or _integer(config, "vocab_size") or tokenizer_size or 0
    if tokenizer_size is not None and tokenizer_size > rows:
        mismatch = Reason.TOKENIZER_MODEL_MISMATCH.facts
        raise TokenizerError(
            mismatch.title.lower(),
            where="model",
            found=f"{tokenizer_size} tokens, beyond the embedding matrix",
            expected=f"at most {rows}, its rows",
            remedy=mismatch.remedy,
        )
    pad = _integer(config, "pad_token_id", least=0)
    if pad is None:
        pad = family.pad_id if family is not None and pad_id is None else pad_id
    return Limits(
        family=name,
        embedding_rows=rows,
        max_tokens=_longest(config, family, pad),
        pad_id=pad,
        num_labels=_labels(config, num_labels),
        type_vocab=_integer(config, "type_vocab_size") or (family.type_rows if family else 1),
        box_rows=(_integer(config, "max_2d_position_embeddings") or family.box_rows)
        if family and family.box_rows
        else None,
        box_max=family.box_max if family else 1000,
        float_boxes=family is not None and family.box_rows is None,
        cls_box=family.cls_box if family else ORIGIN,
        sep_box=family.sep_box if family else ORIGIN,
        pad_box=family.pad_box if family else ORIGIN,
        image=_image(config, family),
    )


def _stored_rows(model: ModelSpec, schema_dir: Path) -> int | None:
    """Number of rows of the embedding in the weights beside the config; None without weights."""
    if model.config is None:
        return None
    path = schema_dir / model.config
    return embedding_rows(path if path.is_dir() else path.parent)


def _longest(config: dict[str, Any], family: Family | None, pad: int | None) -> int | None:
    """Largest number of tokens of a sample, by the positions of the model; None where they are unknown."""
    rows = _integer(config, "max_position_embeddings") or (family.position_rows if family else None)
    if rows is None:
        return None
    if family is not None:
        positions = family.positions
    else:
        after = config.get("model_type") in _AFTER_PAD_MODELS
        positions = Positions.AFTER_PAD if after else Positions.FROM_ZERO
    return positions.longest(rows, pad if pad is not None else 0)


def _labels(config: dict[str, Any], num_labels: int | None) -> int | None:
    """The number of labels in the config, else in the schema."""
    names = config.get("id2label")
    own = len(names) if isinstance(names, dict) and names else _integer(config, "num_labels")
    if own is None or num_labels is None:
        return num_labels if own is None else own
    if num_labels > own:
        raise SchemaError(
            "the schema has more labels than the model's config.json",
            where="model: config",
            found=f"{num_labels} labels",
            expected=f"at most {own}",
            remedy="correct the label list, or remove `id2label` from a config that is not fine-tuned yet",
        )
    return own


def _image(config: dict[str, Any], family: Family | None) -> ImageSpec | None:
    if family is None or family.image is None:
        return None
    spec = family.image
    side = _integer(config, "input_size") or spec.side
    return ImageSpec(side, spec.channels, spec.scale, spec.mean, spec.std)


def _family_of(config: dict[str, Any]) -> str | None:
    """The family of a config by its ``model_type``, which is layoutlmv2 for LayoutXLM."""
    model_type = config.get("model_type")
    return model_type if model_type in FAMILIES else None


def _check_family(model: ModelSpec, config: dict[str, Any]) -> None:
    """Raise ``SchemaError`` for a config of another family than the schema names."""
    found = _family_of(config)
    same = {model.family, "layoutlmv2" if model.family == "layoutxlm" else model.family}
    if model.family is not None and found is not None and found not in same:
        raise SchemaError(
            "the config.json is another family's",
            where="model: config",
            found=found,
            expected=model.family,
            remedy="correct `family` or `config`",
        )


def _read(path: Path) -> dict[str, Any]:
    """The content of a ``config.json``, or of the one in a folder."""
    file = path / "config.json" if path.is_dir() else path
    try:
        value = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise SchemaError(
            "the model's config.json cannot be read",
            where="model: config",
            found=error.strerror or str(error),
        ) from error
    except (ValueError, RecursionError) as error:
        raise SchemaError("the model's config.json is not JSON", where="model: config") from error
    if not isinstance(value, dict):
        raise SchemaError("the model's config.json is not a JSON object", where="model: config")
    return value


def _integer(config: dict[str, Any], key: str, least: int = 1) -> int | None:
    """An integer of the config; None where it is missing or null."""
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SchemaError(
            "the model's config.json has a number that cannot be",
            where=f"model: config: {key}",
            found=str(value)[:40],
            expected=f"a whole number from {least}",
        )
    return value
