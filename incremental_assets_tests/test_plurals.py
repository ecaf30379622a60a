"""A number with its noun, for messages."""

from __future__ import annotations

import pytest

from incremental_assets.plurals import are, counted


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 batches"), (1, "1 batch"), (2, "2 batches"), (1_000, "1,000 batches")],
)
def test_only_one_is_singular(number: int, text: str) -> None:
    assert counted(number, "batch", "batches") == text
    assert counted(number, "row") == text.replace("batches", "rows").replace("batch", "row")


def test_a_verb_agrees_with_its_number() -> None:
    assert [are(number) for number in (0, 1, 2)] == ["are", "is", "are"]
