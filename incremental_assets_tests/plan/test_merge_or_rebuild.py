"""Whether a day of gold is merged into or rebuilt."""

from __future__ import annotations

import pytest

from incremental_assets.plan.merge_or_rebuild import merge_or_rebuild


@pytest.mark.parametrize(
    ("changed", "rows", "way"),
    [
        (10, 2_000, "rebuild"),
        (10, 1_000_000, "merge"),
        (100_000, 1_000_000, "merge"),
        (100_001, 1_000_000, "rebuild"),
    ],
)
def test_few_changed_rows_of_a_large_day_are_merged(changed: int, rows: int, way: str) -> None:
    found, why = merge_or_rebuild(changed, rows)

    assert found == way
    assert f"{rows:,}" in why
