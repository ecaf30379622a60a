"""A difference of rows: what is missing, extra or different, whatever frame they are in."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pytest

from incremental_assets.testing import assert_rows_equal
from incremental_assets.testing.rows import difference

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (ROWS, list(reversed(ROWS))),
        (pl.DataFrame(ROWS), ROWS),
        (pd.DataFrame(ROWS), ROWS),
        ([{"name": "a", "id": 1}, {"id": 2}], ROWS),
        ([{"x": 1}], [{"x": Decimal("1.00")}]),
        ([{"x": float("nan")}], [{"x": float("nan")}]),
        ([{"x": [1, {"y": 2}]}], [{"x": [1, {"y": 2}]}]),
        ([], pl.DataFrame(schema={"id": pl.Int64})),
    ],
)
def test_rows_are_equal_in_any_order_and_kind_of_frame(actual: Any, expected: Any) -> None:
    assert_rows_equal(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected", "shown"),
    [
        ([{"x": 1}], [], "1 extra (of 1 row; 0 rows expected).\n  extra: x=1"),
        ([], [{"x": None}], "1 missing (of 0 rows; 1 row expected).\n  missing: x=null"),
        ([{"x": 1}, {"x": 1}], [{"x": 1}], "1 extra (of 2 rows; 1 row expected)."),
        ([{"x": 1}], [{"y": 1}], "The columns differ. missing: y; extra: x."),
        ([{"x": 1}], [{"x": "1"}], "missing: x='1'\n  extra: x=1"),
        (
            [{"x": date(2017, 1, 5)}],
            [{"x": "2017-01-05"}],
            "missing: x='2017-01-05'\n  extra: x=2017-01-05",
        ),
        ([{"x": n} for n in range(12)], [], "extra: x=7\n  extra: 2 more"),
    ],
)
def test_what_differs_is_shown(actual: Any, expected: Any, shown: str) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_rows_equal(actual, expected)

    assert shown in str(raised.value)


def test_rows_of_a_key_are_shown_by_the_columns_that_differ() -> None:
    actual = [{"id": 1, "qty": 3, "at": "x"}, {"id": 2, "qty": 1, "at": "x"}]
    expected = [{"id": 1, "qty": 4, "at": "x"}, {"id": 3, "qty": 1, "at": "x"}]

    assert difference(actual, expected, key=["id"]).splitlines() == [
        "The rows differ: 1 missing, 1 extra, 1 different (of 2 rows; 2 rows expected).",
        "  missing: at='x', id=3, qty=1",
        "  extra: at='x', id=2, qty=1",
        "  different: id=1: qty is 3, expected 4",
    ]


def test_rows_of_a_key_that_is_there_twice_are_not_paired() -> None:
    twice = [{"id": 1, "qty": 1}, {"id": 1, "qty": 2}]

    assert "1 missing, 2 extra" in difference(twice, [{"id": 1, "qty": 3}], key=["id"])
