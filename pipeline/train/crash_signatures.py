"""Crash signatures: texts in logs, with their meaning and their cause: data, set-up or machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from pipeline.reasons import Reason


class Blame(StrEnum):
    """The cause of a crash."""

    DATA = "data"
    SETUP = "set-up"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Signature:
    """One kind of crash.

    Attributes:
        name: stable name.
        pattern: found in a line of the log.
        blame: the cause.
        means: the meaning, in one or two sentences.
        remedy: what to do.
        reasons: for data faults, the hazards with this effect, the most likely first.
        weight: how sure the signature is: the text of an assert is surer than the errors that follow from it.
    """

    name: str
    pattern: re.Pattern[str]
    blame: Blame
    means: str
    remedy: str
    reasons: tuple[Reason, ...] = ()
    weight: int = 5


BLOCKING = (
    "run again with CUDA_LAUNCH_BLOCKING=1: the traceback then shows the true line; keep stderr, where the assert "
    "itself stands"
)
R = Reason


def _data(
    name: str, pattern: str, means: str, *reasons: Reason, weight: int = 8, remedy: str = ""
) -> Signature:
    text = (
        remedy or "certify the data (`python -m pipeline run`), or find the rows: `python -m pipeline audit`"
    )
    return Signature(name, re.compile(pattern), Blame.DATA, means, text, reasons, weight)


def _setup(name: str, pattern: str, means: str, remedy: str, weight: int = 6) -> Signature:
    return Signature(name, re.compile(pattern), Blame.SETUP, means, remedy, (), weight)


def _machine(name: str, pattern: str, means: str, remedy: str, weight: int = 6) -> Signature:
    return Signature(name, re.compile(pattern), Blame.MACHINE, means, remedy, (), weight)


SIGNATURES: tuple[Signature, ...] = (
    # ── asserts on the card: the line on stderr is the one to believe ────────────────────────────────────────
    _data(
        "label_assert",
        r"`?t >= 0 && t < n_classes`?|nll_loss.*Assertion|Loss\.cu.*Assertion",
        "the loss met a label that is no class of the model",
        R.LABEL_OUT_OF_RANGE,
        R.TOKEN_OUT_OF_VOCAB,
        weight=10,
    ),
    _data(
        "gather_assert",
        r"scatter gather kernel index out of bounds",
        "a gather met an index beyond its table: LayoutLM-like models look box coordinates up so",
        R.BBOX_OUT_OF_PAGE,
        R.BBOX_NOT_FINITE,
        R.PAGE_SIZE_INVALID,
        R.BBOX_INVERTED,
        weight=10,
    ),
    _data(
        "embedding_assert",
        r"vectorized gather kernel index out of bounds|srcIndex < srcSelectDimSize"
        r"|indexSelect(Small|Large)Index.*Assertion|ind >= ?0 && ind < ind_dim_size",
        "an embedding met an id beyond its rows: a token id, a position or a token type",
        R.TOKEN_OUT_OF_VOCAB,
        R.SEQUENCE_TOO_LONG,
        R.TOKEN_TYPE_OUT_OF_RANGE,
        R.BBOX_INVERTED,
        weight=10,
    ),
    _data(
        "device_assert",
        r"device-side assert triggered",
        "an index left its table on the card; the traceback's line is a later one",
        R.TOKEN_OUT_OF_VOCAB,
        R.LABEL_OUT_OF_RANGE,
        R.BBOX_OUT_OF_PAGE,
        weight=4,
        remedy=BLOCKING,
    ),
    _data(
        "cublas",
        r"CUBLAS_STATUS_(ALLOC_FAILED|EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED)|CUDNN_STATUS_\w+",
        "the next matrix product after a failed assert: most often a label beyond the classes (a full card, or a "
        "broken installation, looks alike)",
        R.LABEL_OUT_OF_RANGE,
        R.TOKEN_OUT_OF_VOCAB,
        weight=3,
        remedy=BLOCKING,
    ),
    # ── the same on the CPU, and in libraries ────────────────────────────────────────────────────────────────
    _data(
        "target_bounds",
        r"IndexError: Target -?\d+ is out of bounds",
        "a label that is no class of the model",
        R.LABEL_OUT_OF_RANGE,
        weight=10,
    ),
    _data(
        "index_in_self",
        r"IndexError: index out of range in self",
        "an embedding met an id beyond its rows",
        R.TOKEN_OUT_OF_VOCAB,
        R.SEQUENCE_TOO_LONG,
        R.TOKEN_TYPE_OUT_OF_RANGE,
        weight=9,
    ),
    _data(
        "box_range",
        r"bbox.{0,40}coordinate values should be within 0-1000",
        "a box coordinate outside 0–1000",
        R.BBOX_OUT_OF_PAGE,
        R.BBOX_NOT_FINITE,
        weight=10,
    ),
    _data(
        "float_indices",
        r"Expected tensor for argument #1 'indices' to have (one of )?the following scalar types",
        "ids or boxes are floats",
        R.BBOX_ARITY,
        R.LABEL_NOT_INTEGER,
        weight=9,
        remedy="cast to int64 after checking that nothing is lost; certified shards hold integers",
    ),
    _data(
        "ragged",
        r"expected sequence of length \d+ at dim \d+ \(got \d+\)|activate truncation and/or padding",
        "rows of different lengths reached the collator unpadded, or ids and labels differ in length",
        R.LENGTHS_MISMATCH,
        remedy="pad labels as well as ids (`pipeline.train.Collator` does)",
    ),
    _data(
        "equal_words",
        r"must provide as many words as there are bounding boxes",
        "words and boxes differ in number",
        R.WORDS_BOXES_MISMATCH,
    ),
    _data(
        "not_text",
        r"TextEncodeInput must be Union|Input must be a List\[Union\[str"
        r"|[Tt]ext input must be of type `str`|[Ww]ords must be of type",
        "a word or turn is no text (null, number)",
        R.WORD_NOT_TEXT,
        R.CONTENT_NOT_TEXT,
        R.TEXT_INVALID_UNICODE,
    ),
    _data("surrogate", r"surrogates not allowed", "a lone surrogate in a text", R.TEXT_INVALID_UNICODE),
    _data("image_cut", r"image file is truncated", "an image ends early", R.IMAGE_TRUNCATED),
    _data(
        "image_unknown",
        r"UnidentifiedImageError|cannot identify image file",
        "an image does not decode",
        R.IMAGE_UNDECODABLE,
    ),
    _data(
        "image_bomb", r"DecompressionBombError", "an image has more pixels than the limit", R.IMAGE_TOO_LARGE
    ),
    _data(
        "roles",
        r"Conversation roles must alternate|After the optional system message",
        "turns out of order",
        R.ROLE_ORDER,
        R.ROLE_UNKNOWN,
    ),
    _data(
        "nan_loss",
        r"'?\"?loss\"?'?:\s*'?nan|the (loss|gradient) is no finite number|the loss is NaN"
        r"|'loss': '?0(\.0+)?'?,.*'grad_norm': '?nan",
        "the loss is no number. On uncertified data: a batch without "
        "one supervised label, or a NaN pixel; on certified data: the learning rate, or float16",
        R.LABEL_ALL_IGNORED,
        R.NO_SUPERVISED_TOKENS,
        R.PIXELS_NOT_FINITE,
        weight=7,
    ),
    # ── set-up ───────────────────────────────────────────────────────────────────────────────────────────────
    _setup(
        "out_of_memory",
        r"CUDA out of memory|torch\.OutOfMemoryError|CUDA error: out of memory",
        "the card's memory is full",
        "lower `batch: tokens:` (preflight says how many fit) or switch checkpointing "
        "on; `empty_cache` in a loop only slows down",
        weight=9,
    ),
    _setup(
        "moved_after_map",
        r"can't move a model that has some modules offloaded|`\.to` is not supported for "
        r"`?[48]-?bit|Calling `?to\(\)`? is not supported for",
        "a model placed by `device_map` is moved again",
        "leave out `.to(device)`: `device_map` has placed the model already",
        weight=9,
    ),
    _setup(
        "two_devices",
        r"Expected all tensors to be on the same device",
        "model and batch, or parts of the model, are on different devices",
        "use `device_map={'': local_rank}` or none at all for training",
        weight=8,
    ),
    _setup(
        "no_gradient",
        r"element 0 of tensors does not require grad",
        "checkpointing recomputes from inputs that need no gradient",
        "`model.enable_input_require_grads()`, or `use_reentrant=False`",
    ),
    _setup(
        "fp16_unscale",
        r"Attempting to unscale FP16 gradients",
        "the weights themselves are float16 under a scaler",
        "load weights in float32 or bfloat16, and train with bf16=True",
        weight=8,
    ),
    _setup(
        "dtypes",
        r"expected (scalar type|m1 and m2 to have the same dtype).*(Half|Float|BFloat16)"
        r"|mat1 and mat2 must have the same dtype",
        "layers of different dtypes meet",
        "load the model in one dtype and compute under autocast",
    ),
    _setup(
        "embedding_shape",
        r"size mismatch for .*(embed_tokens|word_embeddings|lm_head)",
        "the checkpoint's embedding has other rows than the model: tokens were added",
        "`resize_token_embeddings(len(tokenizer))` before loading",
    ),
    _setup(
        "classifier_shape",
        r"size mismatch for .*classifier",
        "the checkpoint's classifier has other labels",
        "make the model with the data's `num_labels`",
    ),
    _setup(
        "unused_parameters",
        r"Expected to have finished reduction in the prior iteration",
        "data parallel waits for parameters that the loss does not reach",
        "freeze them, or `find_unused_parameters=True`",
    ),
    _setup(
        "collective_timeout",
        r"Watchdog caught collective operation timeout|NCCL.*[Tt]imeout",
        "a rank waits for another that has no batch, or has died",
        "give every rank the same number of batches "
        "(`python -m pipeline train` does); look for the rank that died first",
    ),
    _setup(
        "no_template",
        r"chat_template is not set|does not have a chat template",
        "the tokenizer has no chat template",
        "use the model's own template, and certify the chats with it",
    ),
    _setup(
        "gate",
        r"not certified|training is refused|another root digest",
        "the gate refused the data",
        "the text after it says why; nothing was trained",
        weight=9,
    ),
    # ── machine ──────────────────────────────────────────────────────────────────────────────────────────────
    _machine(
        "no_kernel",
        r"no kernel image is available for execution",
        "this torch has no code for this card",
        "install a torch built for it (`python -m pipeline preflight`)",
        weight=9,
    ),
    _machine(
        "driver",
        r"NVIDIA driver on your system is too old|driver version is insufficient|Found no NVIDIA driver",
        "the driver is older than this torch needs, or missing",
        "update the driver, or install an older CUDA build",
        weight=9,
    ),
    _machine(
        "no_cuda",
        r"Torch not compiled with CUDA enabled",
        "this torch is built without CUDA",
        "install a CUDA build",
        weight=9,
    ),
    _machine(
        "worker_killed",
        r"DataLoader worker \(pid.*killed by signal|Bus error|unable to open shared memory",
        "a loader process ran out of memory or shared memory",
        "fewer workers, more shared memory, no workers at all (mapped shards need none)",
    ),
    _machine(
        "illegal_access",
        r"illegal memory access",
        "a kernel read memory that is not its own: rarely the data",
        BLOCKING,
    ),
    _machine(
        "xid",
        r"Xid.*\b(48|63|64|74|79|94|95)\b|uncorrectable ECC",
        "the card itself failed",
        "take it out of use; start again from the last checkpoint",
        weight=9,
    ),
)
"""All known kinds of crashes. The texts come from runs with torch 2.11 and transformers 5.17, or from the sources of
the libraries."""
