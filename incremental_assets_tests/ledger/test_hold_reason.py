"""The rules that hold a day are read from the ledger's text as they were written, and no others."""

from __future__ import annotations

import pytest

from incremental_assets.ledger.hold_reason import hold_reason, rules_in


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"row_count": "1 row, at least 2 expected"}, id="one rule"),
        pytest.param({"row_count": "1 rows", "fits": "1 values; 2 values: all"}, id="two rules"),
        pytest.param({"declared": "1 fields: x; row_count: y"}, id="a field named as a rule"),
        pytest.param({"declared": "a, row_count: y"}, id="a field named as a list of rules"),
    ],
)
def test_the_rules_are_those_that_were_written(found: dict[str, str]) -> None:
    assert rules_in(hold_reason(found)) == tuple(found)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        pytest.param("", (), id="nothing"),
        pytest.param("row_count: 1; fits: 2", ("row_count",), id="the older form: the first alone"),
        pytest.param("row_count", (), id="no colon"),
        pytest.param("of old, it was: x", (), id="no names"),
    ],
)
def test_of_another_text_only_what_is_certain_is_read(text: str, rules: tuple[str, ...]) -> None:
    assert rules_in(text) == rules
