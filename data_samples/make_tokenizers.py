"""Train the two small tokenizers of the samples: ``python data_samples/make_tokenizers.py [FOLDER]``.

Both are byte-level BPE, so that no text is unknown to them. They are trained on the text of ``material`` alone and
come out the same bytes each time.

- ``tiny-layoutlmv3``: RoBERTa's id layout (<s> 0, <pad> 1, </s> 2, <unk> 3, … <mask> last), prefix space.
- ``tiny-llama3``: Llama 3's pre-tokenizer, special tokens after the vocabulary, a start token before each text.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

import material

ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
LLAMA_SPECIALS = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|reserved_special_token_2|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
LLAMA_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def layout_tokenizer(size: int = 1400) -> Tokenizer:
    """``size`` entries and <mask> after them."""
    tokenizer = Tokenizer(BPE(continuing_subword_prefix="", end_of_word_suffix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    _train(tokenizer, size, ROBERTA_SPECIALS)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")), True, True
    )
    return tokenizer


def chat_tokenizer(size: int = 1400) -> Tokenizer:
    """``size`` entries and the special tokens after them."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    _train(tokenizer, size, ())
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in LLAMA_SPECIALS])
    start = LLAMA_SPECIALS[0]
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{start} $A",
                pair=f"{start} $A {start}:1 $B:1",
                special_tokens=[(start, tokenizer.token_to_id(start))],
            ),
        ]
    )
    return tokenizer


def _train(tokenizer: Tokenizer, size: int, specials: tuple[str, ...]) -> None:
    trainer = BpeTrainer(
        vocab_size=size,
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(material.lines(), trainer)


def layout_config() -> dict[str, object]:
    """What transformers needs to know of the document tokenizer."""
    no_box = [0, 0, 0, 0]
    return {
        "add_prefix_space": True,
        "bos_token": "<s>",
        "cls_token": "<s>",
        "cls_token_box": no_box,
        "eos_token": "</s>",
        "errors": "replace",
        "mask_token": "<mask>",
        "model_max_length": 512,
        "only_label_first_subword": True,
        "pad_token": "<pad>",
        "pad_token_box": no_box,
        "pad_token_label": -100,
        "sep_token": "</s>",
        "sep_token_box": no_box,
        "tokenizer_class": "LayoutLMv3Tokenizer",
        "unk_token": "<unk>",
    }


def chat_config() -> dict[str, object]:
    """What transformers needs to know of the chat tokenizer, its template included."""
    template = Path(__file__).with_name("material") / "chat_template.jinja"
    return {
        "bos_token": "<|begin_of_text|>",
        "chat_template": template.read_text(encoding="utf-8"),
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|eot_id|>",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": 8192,
        "pad_token": "<|finetune_right_pad_id|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def write(folder: Path, tokenizer: Tokenizer, config: dict[str, object]) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = json.loads(tokenizer.to_str())
    for name, content in (("tokenizer.json", whole), ("tokenizer_config.json", config)):
        text = json.dumps(content, ensure_ascii=False, indent=1 if name != "tokenizer.json" else None)
        (folder / name).write_bytes((text + "\n").encode())
    print(f"{folder}: {tokenizer.get_vocab_size()} entries")


def main() -> None:
    """Write both tokenizers under the folder given, or beside this script."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("tokenizers")
    write(target / "tiny-layoutlmv3", layout_tokenizer(), layout_config())
    write(target / "tiny-llama3", chat_tokenizer(), chat_config())


if __name__ == "__main__":
    main()
