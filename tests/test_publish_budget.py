"""The data gate, at its borders."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline import publish
from pipeline.certificate.receipt import Receipt
from pipeline.errors import GateError
from tests import runs


def receipt(certified: int, quarantined: int, dropped: int = 0, contract: str = runs.NAME) -> Receipt:
    facts: dict[str, Any] = {
        "rows_read": certified + quarantined + dropped,
        "dropped": {"blank_row": dropped},
    }
    reasons = {"text_blank": quarantined}
    return Receipt(
        "m",
        contract,
        "a.csv",
        "00",
        1,
        certified=certified,
        quarantined=quarantined,
        reasons=reasons,
        **facts,
    )


@pytest.mark.parametrize(
    ("rate", "certified", "quarantined", "passes"),
    [
        (0.1, 9, 1, True),
        (0.1, 89, 11, False),
        (0.3, 7, 3, True),  # 0.3 * 10 is a little less than 3 in floating point
        (0.0, 5, 0, True),
        (0.0, 10**6, 1, False),
        (1.0, 1, 10**6, True),
        (1.0, 0, 1, False),  # nothing certified
    ],
)
def test_the_share_is_compared_exactly(rate: float, certified: int, quarantined: int, passes: bool) -> None:
    contracts = [runs.contract(max_rate=rate)]
    if passes:
        publish.check_budget(contracts, [receipt(certified, quarantined)])
        return
    with pytest.raises(GateError) as caught:
        publish.check_budget(contracts, [receipt(certified, quarantined)])
    assert f"{quarantined} of {certified + quarantined} records" in caught.value.found


def test_blank_rows_do_not_thin_the_share() -> None:
    with pytest.raises(GateError):
        publish.check_budget([runs.contract(max_rate=0.1)], [receipt(5, 5, dropped=1000)])


def test_one_schema_over_its_budget_is_named() -> None:
    contracts = [runs.contract(max_rate=0.5), runs.contract(name="other", max_rate=0.5)]
    with pytest.raises(GateError) as caught:
        publish.check_budget(contracts, [receipt(100, 0), receipt(1, 9, contract="other")])
    assert caught.value.where == "other"


def test_a_schema_without_records_is_no_refusal_but_none_at_all_is() -> None:
    contracts = [runs.contract(), runs.contract(name="other")]
    publish.check_budget(contracts, [receipt(1, 0)])
    with pytest.raises(GateError, match="no record was read"):
        publish.check_budget(contracts, [])
