"""A kind of rule is added in one file of one's own: the one that docs/quality-rules.md shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets import DayCounts, fail, quarantine
from incremental_assets.quality.judge import judge_day
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.plan.ledgers import SALES


@pytest.fixture(scope="module")
def shop() -> Mapping[str, Any]:
    """What the file of the page defines."""
    page = (PROJECT_ROOT / "docs" / "quality-rules.md").read_text()
    section = page.partition("## A rule of your own")[2]
    defined: dict[str, Any] = {}
    exec(section.partition("```python\n")[2].partition("```")[0], defined)
    return defined


def test_its_rules_are_checks_of_a_table(shop: Mapping[str, Any]) -> None:
    rules = (*quarantine(shop["whole_cents"]("id")), *fail(shop["no_flood"](2)))

    checks = replace(SALES, rules=rules).checks()

    assert (checks["id_whole_cents"].severity, checks["id_whole_cents"].blocking) == (
        "quarantine",
        False,
    )
    assert (checks["no_flood"].severity, checks["no_flood"].blocking) == ("fail", True)
    assert checks["no_flood"].description == "A batch brings at most 2 rows."


def test_a_rule_on_days_judges_counts(shop: Mapping[str, Any]) -> None:
    (rule,) = fail(shop["no_flood"](2))

    (passed,) = judge_day([rule], DayCounts(2, 0, 2, 0))
    (held,) = judge_day([rule], DayCounts(3, 0, 3, 0))

    assert passed.passed
    assert not held.passed
    assert held.found == "3 rows in one batch, at most 2 may be"


def test_a_rule_on_rows_is_a_condition(shop: Mapping[str, Any], spark: SparkSession) -> None:
    rule = shop["whole_cents"]("amount")
    rows = spark.sql("SELECT * FROM VALUES (1.25), (1.255) AS sold(amount)")

    kept = rows.where(rule.condition()).collect()

    assert [str(row.amount) for row in kept] == ["1.250"]
