"""What a certificate counts, in the order in which every report shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.reasons import Policy


def findings_of(predicate: Mapping[str, Any]) -> list[tuple[Policy, str, int]]:
    """(policy, reason slug, records): what was set aside first, then repairs, then flags; the frequent ones first.

    Records whose content stands elsewhere and that are only counted are among the flags.
    """
    totals = predicate["totals"]
    flags: dict[str, int] = dict(totals["flags"])
    for counts in predicate["repeated"].values():
        for slug, count in counts.items():
            flags[slug] = flags.get(slug, 0) + count
    kinds = ((Policy.QUARANTINE, totals["reasons"]), (Policy.REPAIR, totals["repairs"]), (Policy.FLAG, flags))
    return [
        (policy, slug, count)
        for policy, counts in kinds
        for slug, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def dataset_tokens(facts: Mapping[str, Any]) -> int:
    """Tokens of a data set."""
    return int(facts["statistics"].get("input_ids[]", {}).get("count", 0))
