"""Judge: run the contract on a batch and read its masks. Nothing is dropped here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings, Mask
from pipeline.schema.model import Schema
from pipeline.schema.rules import Rule, contract, rules_of

if TYPE_CHECKING:
    import pandera.polars as pa


class ContractBroken(RuntimeError):
    """An error of this program: the frame has not the columns or types it must have, or a check itself failed."""


@dataclass(slots=True)
class Judge:
    """Column rules of a schema, as a stage."""

    schema: Schema
    name: str = "judge"
    _rules: dict[str, Rule] = field(init=False)
    _contract: pa.DataFrameSchema = field(init=False)
    _strict: pa.DataFrameSchema = field(init=False)

    def __post_init__(self) -> None:
        self._rules = {rule.name: rule for rule in rules_of(self.schema)}
        self._contract = contract(self.schema)
        self._strict = contract(self.schema, strict=True)

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        for name, passed in failures(self._contract, batch.frame).items():
            rule = self._rules[name]
            hits = np.flatnonzero(~passed)
            shown = batch.frame[pl.Series(hits)].select(rule.shows(pl.col(rule.column)).alias("shown"))
            values = shown["shown"].to_list()
            findings.add(
                rule.reason,
                self.schema.policy(rule.reason),
                rule.column,
                batch.ids[hits],
                found=values * (len(hits) // len(values)),  # a constant is one row
                expected=rule.expected,
            )
        return batch, findings

    def assert_clean(self, frame: pl.DataFrame) -> None:
        """Judge the good half again under the strict contract.

        Raises:
            ContractBroken: something is found, so a stage before has let a record through.
        """
        if left := failures(self._strict, frame):
            counts = {name: int((~mask).sum()) for name, mask in left.items()}
            raise ContractBroken(f"{self.schema.name}: the good half is not clean: {counts}")


def failures(rules: pa.DataFrameSchema, frame: pl.DataFrame) -> dict[str, Mask]:
    """By check name, a boolean a row: true where the row passes. Checks that all rows pass are left out.

    Raises:
        ContractBroken: a column is missing or of another type, or a check raised.
    """
    import pandera.errors
    from pandera.config import ValidationDepth, config_context

    # The environment can switch pandera's validation off: this context pins it on.
    with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
        try:
            rules.validate(frame, lazy=True)
            return {}
        except pandera.errors.SchemaErrors as errors:
            found = errors.schema_errors
    masks: dict[str, Mask] = {}
    for error in found:
        output = error.check_output
        if not isinstance(output, pl.DataFrame) or output.height != frame.height:
            raise ContractBroken(f"{rules.name}: {error.reason_code}: {str(error).splitlines()[0]}")
        name = f"{error.schema.name}|null" if isinstance(error.check, str) else error.check.name
        masks[name] = output.to_series().to_numpy()
    return masks
