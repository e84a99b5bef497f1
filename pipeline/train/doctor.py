"""Doctor: find set-up faults of a training script, each with its line, its effect and the change to make."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.train.faults import Fault, Weight
from pipeline.train.script import Call, Script

# The catalogue of faults.


@dataclass(frozen=True, slots=True)
class Prescription:
    """One kind of set-up fault.

    Attributes:
        rule: stable name.
        what: the fault and its effect, a format string with ``found``.
        change: what to write instead.
        weight: ``REFUSE`` for a fault that stops or spoils the job, ``WARN`` for one that slows or endangers it.
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
"""Every kind of fault by its name."""


# The rules that find them.


ARGUMENTS = ("TrainingArguments", "SFTConfig", "Seq2SeqTrainingArguments", "DPOConfig")
TRAINERS = ("Trainer", "SFTTrainer", "Seq2SeqTrainer", "DPOTrainer")
LONG = 1024
"""Length in tokens from which a causal model of usual size needs checkpointing."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One fault of a script, at a line.

    Attributes:
        rule: a key of ``PRESCRIPTIONS``.
        line: of the script.
        found: the name or text that the message quotes.
        weight: as in ``Prescription``.
    """

    rule: str
    line: int
    found: str = ""
    weight: Weight = Weight.REFUSE

    @property
    def what(self) -> str:
        """The fault and its effect."""
        return PRESCRIPTIONS[self.rule].what.format(found=self.found)

    @property
    def change(self) -> str:
        """What to write instead."""
        return PRESCRIPTIONS[self.rule].change.format()

    def fault(self) -> Fault:
        """The advice as a fault of a training job."""
        return Fault(self.rule, f"line {self.line}: {self.what}", remedy=self.change, weight=self.weight)


def diagnose(script: Path) -> list[Advice]:
    """The faults of a script in the order of its lines. The script is parsed, never run or imported.

    Raises:
        InputError: the script cannot be read, or is not Python.
    """
    return examine(Script.read(script))


def examine(script: Script) -> list[Advice]:
    """The faults of a parsed script, in the order of its lines."""
    found = {
        Advice(name, line, quoted, PRESCRIPTIONS[name].weight)
        for rule in RULES
        for name, line, quoted in rule(script)
    }
    return sorted(found, key=lambda advice: (advice.line, advice.rule))


Found = Iterator[tuple[str, int, str]]
"""(name of the rule, line, text that the message quotes)."""


def _placement(script: Script) -> Found:
    mapped = [
        call for call in _models(script) if call.has("device_map") and call.text("device_map") != "None"
    ]
    placed = {call.result for call in mapped} - {""}
    for call in script.to("to", "cuda"):
        inner = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
        chained = isinstance(inner, ast.Call) and any(made.node is inner for made in mapped)
        if call.owner in placed or chained:
            yield "moved_after_map", call.line, call.owner
    for call in mapped:
        if "auto" in call.text("device_map") and script.to(*TRAINERS):
            yield "map_under_trainer", call.line, ""


def _tokenizers(script: Script) -> Found:
    models = {script.resolved(call.first()) for call in _models(script) if call.first()}
    for call in script.to("from_pretrained"):
        name = script.resolved(call.first())
        if "Tokenizer" in call.owner and models and name and name not in models:
            yield (
                "tokenizer_of_another_model",
                call.line,
                f"{name} with the model of {', '.join(sorted(models))}",
            )
    for target, _, line in script.assigned():
        if target.endswith(".chat_template"):
            yield "template_replaced", line, ""
    expected = any(call.has("expect") for call in script.to("load_certified"))
    for call in script.to("setup_chat_format", "clone_chat_template"):
        if not expected:
            yield "tokens_added", call.line, call.name
    for call in script.to("add_tokens", "add_special_tokens"):
        if "tok" in call.owner.lower() and not script.to("resize_token_embeddings"):
            yield "embedding_not_resized", call.line, ""


def _ends(script: Script) -> Found:
    for target, value, line in script.assigned():
        same = target.endswith("pad_token") and value.endswith("eos_token")
        if same and script.to("DataCollatorForLanguageModeling"):
            yield "pad_is_eos", line, ""
    rendered = [call for call in script.to("apply_chat_template") if call.text("tokenize") == "False"]
    for call in _tokenizing(script) if rendered else ():
        if call.text("add_special_tokens") != "False":
            yield "bos_doubled", call.line, ""


def _lengths(script: Script) -> Found:
    for call in _tokenizing(script):
        if not (call.has("truncation") or call.has("max_length")):
            yield "no_truncation", call.line, ""


def _memory(script: Script) -> Found:
    longest = _longest(script)
    causal = any("CausalLM" in model.owner for model in _models(script))
    for call in script.to(*ARGUMENTS):
        if call.text("group_by_length") == "True":
            yield "group_by_length", call.line, ""
        # SFTConfig uses checkpointing by default; TrainingArguments does not.
        off = call.text("gradient_checkpointing") == "False" or (
            call.name != "SFTConfig" and not call.has("gradient_checkpointing")
        )
        if off and causal and longest >= LONG and not script.to("gradient_checkpointing_enable"):
            yield "no_checkpointing", call.line, str(longest)
    for call in script.to("empty_cache"):
        if call.looped:
            yield "empty_cache_in_loop", call.line, ""


def _dtypes(script: Script) -> Found:
    weights = " ".join(call.text("dtype") + call.text("torch_dtype") for call in _models(script))
    for call in script.to(*ARGUMENTS):
        if call.text("fp16") == "True" and "bfloat16" in weights:
            yield "fp16_on_bf16", call.line, ""
        elif call.text("fp16") == "True" and "float16" in weights:
            yield "fp16_weights", call.line, ""


def _gate(script: Script) -> Found:
    gated, loaded = "CertifiedGate" in script.names, script.to("load_certified")
    for call in script.to(*TRAINERS):
        if loaded and not gated:
            yield "no_gate", call.line, ""
    certified = {call.result for call in loaded} - {""}
    for call in script.to("map", "add_column", "cast_column", "set_transform", "with_transform"):
        if call.owner in certified or call.owner == "load_certified":
            yield "changed_after_loading", call.line, call.name
    for call in script.to(*ARGUMENTS):
        if not gated and call.text("logging_nan_inf_filter") != "False":
            yield "nan_hidden", call.line, ""
    for call in script.to("eval"):
        if not call.owner:
            yield "eval_of_data", call.line, ""


RULES: tuple[Callable[[Script], Found], ...] = (
    _placement,
    _tokenizers,
    _ends,
    _lengths,
    _memory,
    _dtypes,
    _gate,
)


def _models(script: Script) -> list[Call]:
    """Calls that load a model."""
    others = ("Tokenizer", "Processor", "Config", "FeatureExtractor")
    return [call for call in script.to("from_pretrained") if not any(other in call.owner for other in others)]


def _tokenizing(script: Script) -> list[Call]:
    """Calls of a tokenizer."""
    loaded = script.to("from_pretrained")
    made = {call.result for call in loaded if "Tokenizer" in call.owner or "Processor" in call.owner}
    return [call for call in script.calls if call.name in made and not call.owner]


def _longest(script: Script) -> int:
    """The largest length in the script; 0 without one."""
    lengths = [
        script.resolved(call.text(key)) for call in script.calls for key in ("max_length", "max_seq_length")
    ]
    return max((int(length) for length in lengths if length.isdigit()), default=0)
