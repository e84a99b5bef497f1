"""The models of the kinds: each has its section and no other's, and digests bind what was written."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from pipeline.certificate.digest import digest_of
from pipeline.schema.json_schema import json_schema
from pipeline.schema.model import KINDS, AnySchema, Schema, TokensSchema, schema_from_json, schema_of

BASE: dict[str, Any] = {"version": 1, "name": "a", "files": ["*"], "tokenizer": {"path": "t"}}
SECTIONS: dict[str, dict[str, Any]] = {
    "layout": {"words": "w", "boxes": {"column": "b", "order": "xyxy", "unit": "pixel"}},
    "chat": {"source": {"format": "messages"}, "max_tokens": 9},
    "table": {},
    "tokens": {},
}


DIGESTS = {
    "layout": "293515f9bd919bfc",
    "chat": "372779fd22429f80",
    "table": "526667dc7d119c30",
    "tokens": "7525861468195315",
}


def made(kind: str) -> Schema:
    return schema_of({**BASE, "kind": kind, kind: SECTIONS[kind]})


def test_the_union_and_the_table_of_kinds_name_the_same_models() -> None:
    assert list(KINDS.values()) == list(get_args(get_args(AnySchema)[0]))
    assert all(get_args(model.model_fields["kind"].annotation) == (kind,) for kind, model in KINDS.items())
    assert get_args(Schema.model_fields["kind"].annotation) == tuple(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_dumped_with_every_section_and_read_back_the_same(kind: str) -> None:
    schema = made(kind)
    assert type(schema) is KINDS[kind]
    dumped = schema.model_dump(mode="json")
    assert {name for name in KINDS if dumped[name] is None} == set(KINDS) - {kind}
    assert schema_from_json(schema.model_dump_json()) == schema
    assert schema_of(dumped) == schema


def test_tokens_left_out_are_dumped_as_null_though_their_defaults_hold() -> None:
    for given in ({}, {"tokens": None}):
        schema = schema_of({**BASE, "kind": "tokens", **given})
        assert isinstance(schema, TokensSchema)
        assert schema.tokens.input_ids == "input_ids"
        assert schema.model_dump()["tokens"] is None
        assert schema_from_json(schema.model_dump_json()).model_dump()["tokens"] is None
    assert made("tokens").model_dump()["tokens"] is not None


def test_the_digests_of_the_kinds_are_those_of_the_first_version() -> None:
    """Of the dumped models; another digest here gives every certificate another root."""
    digests = {kind: digest_of(made(kind).model_dump(mode="json"))[:16] for kind in KINDS}
    assert digests == DIGESTS


@pytest.mark.parametrize("kind", KINDS)
def test_another_kinds_section_or_none_is_refused(kind: str) -> None:
    other = next(name for name in KINDS if name != kind)
    with pytest.raises(ValidationError, match=other):
        schema_of({**BASE, "kind": kind, kind: SECTIONS[kind], other: SECTIONS[other]})
    if kind != "tokens":
        with pytest.raises(ValidationError, match=kind):
            schema_of({**BASE, "kind": kind})


@pytest.mark.parametrize("kind", [None, "tabel", 5, ["table"]])
def test_without_a_known_kind_the_other_mistakes_are_found_as_well(kind: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        schema_of({**BASE, "kind": kind, "version": 2, "chat": {"max_tokens": 1}})
    places = {error["loc"] for error in caught.value.errors()}
    assert {("kind",), ("version",), ("chat", "source"), ("chat", "max_tokens")} <= places


def test_the_published_json_schema_tells_the_kinds_apart() -> None:
    published = json.loads(json.dumps(json_schema()))
    branches = {one["properties"]["kind"]["const"]: one for one in published["oneOf"] if "properties" in one}
    assert list(branches) == list(KINDS)
    for kind, branch in branches.items():
        foreign = {name for name, rule in branch["properties"].items() if rule == {"type": "null"}}
        assert foreign == set(KINDS) - {kind}
        needed = branch.get("anyOf", [{"required": []}])[0]["required"]
        assert (kind in needed) is KINDS[kind].model_fields[kind].is_required()
        assert ("tokenizer" in needed) is KINDS[kind].model_fields["tokenizer"].is_required()
    assert set(published["properties"]) == {*Schema.model_fields, *KINDS, "preset"}
