"""Rows of the embedding matrix, from weights that are never loaded."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from pipeline.errors import TokenizerError
from pipeline.models.families import embedding_rows, limits_for
from pipeline.schema.model import Model


def weights(path: Path, tensors: dict[str, list[int]]) -> None:
    """A safetensors file with a header and no data worth the name."""
    header = {
        name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for name, shape in tensors.items()
    }
    raw = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)


def test_the_header_says_the_rows(tmp_path: Path) -> None:
    weights(
        tmp_path / "model.safetensors", {"model.norm.weight": [8], "model.embed_tokens.weight": [1411, 8]}
    )
    assert embedding_rows(tmp_path) == 1411


def test_of_split_weights_the_index_says_where(tmp_path: Path) -> None:
    weights(tmp_path / "model-2.safetensors", {"model.embed_tokens.weight": [77, 8]})
    index = {
        "weight_map": {
            "lm_head.weight": "model-1.safetensors",
            "model.embed_tokens.weight": "model-2.safetensors",
        }
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    assert embedding_rows(tmp_path) == 77


@pytest.mark.parametrize("raw", [b"", b"\x00" * 4, struct.pack("<Q", 2**60), struct.pack("<Q", 5) + b"{no}}"])
def test_files_that_are_no_weights_say_nothing(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(raw)
    assert embedding_rows(tmp_path) is None


def test_an_index_cannot_point_outside_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "model"
    inside.mkdir()
    weights(tmp_path / "outside.safetensors", {"embed_tokens.weight": [5, 8]})
    index = {"weight_map": {"embed_tokens.weight": "../outside.safetensors"}}
    (inside / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    assert embedding_rows(inside) is None


def test_the_weights_win_over_the_config_and_guard_the_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 9000}), "utf-8")
    weights(tmp_path / "model.safetensors", {"model.embed_tokens.weight": [1000, 8]})
    model = Model(config=".")
    assert limits_for(model, tmp_path, 1000, 3, None).embedding_rows == 1000
    with pytest.raises(TokenizerError, match="beyond") as caught:
        limits_for(model, tmp_path, 1001, 3, None)
    assert "resize_token_embeddings" in caught.value.remedy
