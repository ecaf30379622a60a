"""What a load logs of its batches before it begins: their days, and why they are loaded."""

from __future__ import annotations

from datetime import date

import pytest

from incremental_assets.lakehouse import _what
from incremental_assets.plan import DayWork, Work
from incremental_assets_tests.plan.ledgers import SALES

FIRST = "first load of this day (bronze/events batch 1)"
LATER = "bronze/events has changed (batch 2)"


@pytest.mark.parametrize(
    ("whys", "logged"),
    [
        ({1: FIRST}, f"2017-01-01: {FIRST}"),
        ({1: LATER, 2: LATER}, f"2017-01-01...2017-01-02: {LATER}"),
        ({1: LATER, 5: FIRST}, f"2017-01-01, 2017-01-05: {LATER}, …"),
        (
            {1: FIRST, 2: FIRST, 3: FIRST},
            "2017-01-01...2017-01-03 (3 days): first load of these days (bronze/events batch 1)",
        ),
    ],
    ids=["one day", "two days", "days apart", "a range"],
)
def test_the_days_of_a_batch_are_named_with_why_they_are_loaded(
    whys: dict[int, str], logged: str
) -> None:
    days = [DayWork(date(2017, 1, day), why) for day, why in whys.items()]

    line = _what(SALES, [Work("merge", "advance", {each.day: each for each in days})])

    assert line == f"silver/sales: merge {logged}"
