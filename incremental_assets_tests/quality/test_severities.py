"""Which layers quarantine what: rows of silver only."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.rules import at_least, quarantine, row_count
from incremental_assets_tests.end_to_end.gated_shop import layers
from incremental_assets_tests.end_to_end.gated_shop.silver.warn import WARN as ORDERS


@pytest.mark.parametrize(
    ("define", "rule", "message"),
    [
        (layers.landed, at_least("amount", 0), "bronze keeps every row"),
        (layers.landed, row_count(at_most=3), "a day cannot be quarantined"),
        (
            lambda name, *rules: layers.made(name, ORDERS, *rules),
            at_least("amount", 0),
            "made of good ones",
        ),
    ],
    ids=["rows of bronze", "days of bronze", "rows of gold"],
)
def test_a_layer_that_quarantines_no_rows_refuses_the_severity(
    define: Callable[..., object], rule: Any, message: str
) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        define("orders", *quarantine(rule))
