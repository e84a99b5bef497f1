"""Varied inputs, made from a seed: no text is repeated, since every library that caches gains from repetition."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

ONSETS = [
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "w",
    "br",
    "cl",
    "dr",
    "gr",
    "pl",
    "st",
    "tr",
    "sh",
    "ch",
    "th",
]
VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ou", "ie"]
CODAS = ["", "", "n", "r", "s", "t", "l", "m", "nd", "st", "ck"]
LABELS = ("O", "B-KEY", "I-KEY", "B-VALUE", "I-VALUE")


def vocabulary(size: int, seed: int) -> list[str]:
    """Different pronounceable words, the frequent ones short."""
    rng = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < size:
        syllables = rng.choices((1, 2, 3, 4), (4, 6, 3, 1))[0]
        word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(syllables))
        words.setdefault(word)
    return list(words)


class Writer:
    """Text with the word frequencies of language (Zipf) and numbers, dates and codes that never come again."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        words = sorted(vocabulary(30_000, seed), key=len)
        self._words = words
        self._weights = [1 / (rank + 5) for rank in range(len(words))]

    def words(self, count: int) -> list[str]:
        """Words of one passage; one in eight is a number, an amount or a code."""
        rng = self._rng
        chosen = rng.choices(self._words, self._weights, k=count)
        for i in range(count):
            if rng.random() < 0.12:
                chosen[i] = rng.choice(
                    (
                        str(rng.randint(1, 10**6)),
                        f"{rng.randint(1, 9999)}.{rng.randint(0, 99):02}",
                        f"{rng.choice('ABCDEFGH')}{rng.randint(100, 99999)}",
                    )
                )
        return chosen

    def passage(self, count: int) -> str:
        """Sentences of ``count`` words in all."""
        words = self.words(count)
        for i in range(0, count, 11):
            words[i] = words[i].capitalize()
            words[min(i + 10, count - 1)] += "."
        return " ".join(words)


def chat_rows(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """(Sentence, Description) pairs: about 40 and 90 words."""
    writer, rng = Writer(seed), random.Random(seed + 1)
    return [(writer.passage(rng.randint(15, 65)), writer.passage(rng.randint(30, 150))) for _ in range(count)]


def pages(count: int, seed: int = 2) -> list[dict[str, Any]]:
    """Pages of about 190 words with pixel boxes in reading order and BIO labels."""
    writer, rng = Writer(seed), random.Random(seed + 1)
    made = []
    for number in range(count):
        words = writer.words(rng.randint(80, 300))
        width, height = rng.choice(((1654, 2339), (2480, 3508), (1700, 2200)))
        boxes, labels, x, y = [], [], 80, 90
        for word in words:
            right = x + 12 * len(word)
            if right > width - 80:
                x, y = 80, y + 36
                right = x + 12 * len(word)
            boxes.append([x, min(y, height - 40), right, min(y, height - 40) + 24])
            x = right + 14
            inside = bool(labels) and labels[-1].endswith("KEY") and rng.random() < 0.4
            labels.append("I-KEY" if inside else rng.choice(("O", "O", "B-KEY", "B-VALUE")))
        made.append(
            {
                "id": f"p{number}",
                "width": width,
                "height": height,
                "words": words,
                "bboxes": boxes,
                "labels": labels,
            }
        )
    return made


def write_xlsx(path: Path, rows: list[tuple[str, str]]) -> None:
    """The medical spreadsheet: Sentence and Description."""
    import xlsxwriter

    book = xlsxwriter.Workbook(str(path), {"constant_memory": True})
    sheet = book.add_worksheet("data")
    for place, row in enumerate([("Sentence", "Description"), *rows]):
        sheet.write_row(place, 0, row)
    book.close()


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    """One JSON object a line."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
