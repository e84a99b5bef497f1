"""Text written for the samples: forms, clinical sentences, support chats and product reviews.

Organisations, places and products are invented; people appear as roles only.
"""

from __future__ import annotations

from collections.abc import Iterator

from material import clinical, forms, reviews, support


def lines() -> Iterator[str]:
    """All of the text, line by line: what the two small tokenizers are trained on."""
    yield clinical.SYSTEM
    for sentence, description in clinical.PAIRS:
        yield from (sentence, description)
    for system, turns in support.CHATS:
        yield from (system, *turns)
    for text, label, _ in reviews.REVIEWS:
        yield from (text, label)
    for title, keys in forms.KEYS.items():
        yield from (title, *keys)
    for group in (forms.ORGANISATIONS, forms.PLACES, forms.TOWNS, forms.ROLES, forms.ITEMS, forms.NOTES):
        yield from group
    yield from ("system user assistant tool tools", "name arguments parameters type function description")
