"""Limits of each family, and the config that wins over them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import SchemaError, TokenizerError
from pipeline.models.families import FAMILIES, Limits, Positions, limits_for


@dataclass(frozen=True)
class Spec:
    """The ``model:`` section of a schema."""

    family: str | None = None
    config: str | None = None
    embedding_rows: int | None = None


def limits(tmp_path: Path, spec: Spec, config: dict[str, Any] | None = None, **given: Any) -> Limits:
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    facts = {"tokenizer_size": 1000, "pad_id": 1, "num_labels": 5, **given}
    return limits_for(spec, tmp_path, **facts)


@pytest.mark.parametrize(
    ("family", "longest"),
    [
        ("layoutlm", 512),
        ("layoutlmv2", 512),
        ("layoutxlm", 514),
        ("layoutlmv3", 512),
        ("lilt", 512),
        ("bros", 512),
    ],
)
def test_the_position_formula_of_each_family(family: str, longest: int, tmp_path: Path) -> None:
    assert limits(tmp_path, Spec(family), pad_id=None).max_tokens == longest


def test_512_positions_after_the_pad_hold_510_tokens(tmp_path: Path) -> None:
    config = {"model_type": "layoutlmv3", "max_position_embeddings": 512, "pad_token_id": 1}
    assert limits(tmp_path, Spec("layoutlmv3", "config.json"), config).max_tokens == 510
    config = {"model_type": "bert", "max_position_embeddings": 512, "pad_token_id": 0}
    assert limits(tmp_path, Spec(None, "config.json"), config).max_tokens == 512
    config = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert limits(tmp_path, Spec(None, "config.json"), config).max_tokens == 512


def test_the_configs_numbers_win(tmp_path: Path) -> None:
    config = {
        "model_type": "layoutlmv3",
        "vocab_size": 2000,
        "max_position_embeddings": 130,
        "pad_token_id": 3,
        "max_2d_position_embeddings": 2048,
        "type_vocab_size": 4,
        "input_size": 128,
        "id2label": {str(i): str(i) for i in range(7)},
    }
    found = limits(tmp_path, Spec("layoutlmv3", "."), config)
    assert (found.embedding_rows, found.max_tokens, found.pad_id) == (2000, 126, 3)
    assert (found.box_rows, found.type_vocab, found.num_labels) == (2048, 4, 7)
    assert found.image is not None
    assert found.image.side == 128
    assert limits(tmp_path, Spec(None, "config.json"), config).family == "layoutlmv3"


def test_embedding_rows_of_the_schema_win_over_all(tmp_path: Path) -> None:
    config = {"model_type": "layoutlmv3", "vocab_size": 2000}
    assert limits(tmp_path, Spec("layoutlmv3", "config.json", 4000), config).embedding_rows == 4000
    assert limits(tmp_path, Spec("layoutlmv3")).embedding_rows == 1000


def test_a_tokenizer_beyond_the_embedding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="beyond"):
        limits(tmp_path, Spec("layoutlmv3", None, 999))
    assert limits(tmp_path, Spec("layoutlmv3", None, 1000)).embedding_rows == 1000


def test_more_labels_than_the_model_has_are_refused(tmp_path: Path) -> None:
    config = {"model_type": "layoutlmv3", "id2label": {"0": "a", "1": "b"}}
    with pytest.raises(SchemaError, match="labels"):
        limits(tmp_path, Spec("layoutlmv3", "config.json"), config)


def test_another_familys_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="another family"):
        limits(tmp_path, Spec("layoutlm", "config.json"), {"model_type": "lilt"})
    assert (
        limits(tmp_path, Spec("layoutxlm", "config.json"), {"model_type": "layoutlmv2"}).family == "layoutxlm"
    )


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", '{"vocab_size": "many"}', '{"vocab_size": true}', '{"vocab_size": 0}']
)
def test_a_config_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(SchemaError, match=r"config\.json"):
        limits(tmp_path, Spec("layoutlm", "config.json"))


def test_a_config_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        limits(tmp_path, Spec("layoutlm", "nowhere.json"))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_special_boxes_are_within_the_familys_range(family: str) -> None:
    spec = FAMILIES[family]
    for box in (spec.cls_box, spec.sep_box, spec.pad_box):
        assert all(0 <= number <= spec.box_max for number in box)
        assert spec.box_rows is None or max(box) < spec.box_rows


def test_the_limits_are_those_of_the_models_themselves() -> None:
    """The longest sequence runs through the real embedding code, one more token does not."""
    torch = pytest.importorskip("torch")
    from transformers import (
        BrosConfig,
        LayoutLMConfig,
        LayoutLMv3Config,
        LiltConfig,
    )
    from transformers.models.bros.modeling_bros import BrosTextEmbeddings
    from transformers.models.layoutlm.modeling_layoutlm import LayoutLMEmbeddings
    from transformers.models.layoutlmv3.modeling_layoutlmv3 import LayoutLMv3TextEmbeddings
    from transformers.models.lilt.modeling_lilt import LiltTextEmbeddings

    small = {
        "vocab_size": 50,
        "hidden_size": 24,
        "max_position_embeddings": 40,
        "coordinate_size": 4,
        "shape_size": 4,
    }
    models = {
        "layoutlm": lambda: LayoutLMEmbeddings(LayoutLMConfig(**small)),
        "layoutlmv3": lambda: LayoutLMv3TextEmbeddings(LayoutLMv3Config(**small)),
        "lilt": lambda: LiltTextEmbeddings(LiltConfig(**small, pad_token_id=1)),
        "bros": lambda: BrosTextEmbeddings(BrosConfig(**small)),
    }
    for family, build in models.items():
        spec = FAMILIES[family]
        embeddings = build().eval()
        longest = spec.positions.longest(40, spec.pad_id)
        for length, fits in ((longest, True), (longest + 1, False)):
            ids = torch.full((1, length), 7)
            box = torch.zeros((1, length, 4), dtype=torch.long)
            arguments = {"input_ids": ids} if family in ("lilt", "bros") else {"input_ids": ids, "bbox": box}
            if fits:
                embeddings(**arguments)
            else:
                with pytest.raises((IndexError, RuntimeError)):
                    embeddings(**arguments)


def test_positions_are_counted_from_the_pad() -> None:
    assert Positions.AFTER_PAD.longest(514, 1) == 512
    assert Positions.FROM_ZERO.longest(512, 0) == 512


def test_a_training_node_needs_nothing_heavy() -> None:
    code = (
        "import sys, pipeline.models.families, pipeline.train.windows\n"
        "heavy = {'polars', 'pyarrow', 'pydantic', 'transformers', 'tokenizers', 'torch', 'PIL'} & set(sys.modules)\n"
        "sys.exit(f'imports {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2])
