"""The words of the doctor: what each set-up fault does, and the change to make."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.train.fault import Weight


@dataclass(frozen=True, slots=True)
class Prescription:
    """One set-up fault.

    Attributes:
        rule: stable name.
        what: what is wrong and what it does, formatted with ``found``.
        change: what to write instead.
        weight: whether the job would stop or be spoilt, rather than slow or at risk.
    """

    rule: str
    what: str
    change: str
    weight: Weight = Weight.REFUSE


_LIST = (
    Prescription(
        "moved_after_map",
        "`{found}` was placed by `device_map` and is moved again: an error, or two copies",
        "leave out the move: `device_map` has placed the model already",
    ),
    Prescription(
        "map_under_trainer",
        '`device_map="auto"` spreads one model over all cards, which then work one after the other',
        'leave it out, or `device_map={{"": local_rank}}` for 4-bit weights',
        Weight.WARN,
    ),
    Prescription(
        "tokenizer_of_another_model",
        "the tokenizer of {found}: ids and end-of-turn tokens differ",
        "load the tokenizer from the model's own folder",
    ),
    Prescription(
        "template_replaced",
        "the chat template is replaced: its markers may not be single tokens of this tokenizer, and the model then "
        "never learns to stop",
        "keep the model's own template, or check the new one with `python -m pipeline template`",
        Weight.WARN,
    ),
    Prescription(
        "tokens_added",
        "`{found}` adds tokens: data tokenized before has other ids, a checkpoint's embedding another size",
        "save model and tokenizer after it, run the pipeline with that tokenizer, and give `load_certified` the model "
        "as `expect`",
    ),
    Prescription(
        "embedding_not_resized",
        "tokens are added and the embedding keeps its rows: a device-side assert at the first of them",
        "call `model.resize_token_embeddings(len(tokenizer))`",
    ),
    Prescription(
        "pad_is_eos",
        "pad = eos, and the collator ignores every pad: the end of a turn is never learned",
        "use a pad token of its own, or a collator that pads labels by place (`pipeline.train.Collator`)",
    ),
    Prescription(
        "bos_doubled",
        "a rendered chat is tokenized with special tokens: two start tokens",
        "`add_special_tokens=False`, or `apply_chat_template(…, tokenize=True)`",
    ),
    Prescription(
        "no_truncation",
        "nothing bounds a sample's length: one long row is an assert, or fills the card",
        "`truncation=True, max_length=…`; or certify the data, which cuts nothing in silence",
    ),
    Prescription(
        "group_by_length",
        "the longest samples meet in one batch: memory spikes, and the job dies in the middle of an epoch",
        "batches by token budget (`python -m pipeline train`), or a batch size that holds the longest",
        Weight.WARN,
    ),
    Prescription(
        "no_checkpointing",
        "samples of up to {found} tokens without checkpointing: every layer's activations stay on the card",
        "`gradient_checkpointing=True`",
        Weight.WARN,
    ),
    Prescription(
        "empty_cache_in_loop",
        "`empty_cache` in a loop frees nothing that is in use, and every step waits for the card",
        "leave it out; smaller batches or checkpointing help",
        Weight.WARN,
    ),
    Prescription(
        "fp16_on_bf16",
        "float16 training of bfloat16 weights overflows: NaN loss",
        "`bf16=True` in place of `fp16=True`",
    ),
    Prescription(
        "fp16_weights",
        "the weights themselves are float16: `Attempting to unscale FP16 gradients`",
        "load them in float32 or bfloat16",
    ),
    Prescription(
        "no_gate",
        "certified data without the gate: what is done to it before training goes unseen",
        "`CertifiedGate().attach(trainer)`",
        Weight.WARN,
    ),
    Prescription(
        "changed_after_loading",
        "`.{found}` makes other rows of certified ones: the gate refuses them",
        "do it before, in the raw data or the schema",
    ),
    Prescription(
        "nan_hidden",
        "a NaN loss is logged as the last finite one",
        "`logging_nan_inf_filter=False`, or the gate, which stops",
        Weight.WARN,
    ),
    Prescription(
        "eval_of_data",
        "`eval` runs whatever a cell holds",
        "`json.loads`, or a schema that declares the type",
    ),
)
PRESCRIPTIONS = {one.rule: one for one in _LIST}
"""Every fault by its name."""
