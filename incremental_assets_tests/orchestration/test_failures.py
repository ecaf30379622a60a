"""What a failed load says: which days, why, what to do, and which tables wait for them."""

from __future__ import annotations

from datetime import date

from incremental_assets.catalog import tables
from incremental_assets.lakehouse import DayResult
from incremental_assets.operations.failure_texts import days_by_state, failure_text
from incremental_assets.orchestration.failures import failure, says_only_what_is_held
from incremental_assets_tests.ledger.entries import entry
from incremental_assets_tests.plan.ledgers import SALES

FIFTH, SIXTH = date(2017, 1, 5), date(2017, 1, 6)
WHY = "quarantined_share: 2 of 20 rows"
HELD = DayResult(FIFTH, "held", WHY, (entry(3, "held", SALES.name, day=FIFTH),))
REFUSED = DayResult(SIXTH, "refused", "bronze/events 2017-01-06 is held since batch 2")


def test_a_held_day_is_reported_with_the_command_that_accepts_it_and_the_tables_that_wait() -> None:
    assert failure_text(SALES, {FIFTH: HELD}, tables()) == (
        f"silver/sales: 2017-01-05 not published. 2017-01-05: {WHY}. Repair its input, or accept "
        "it: `incremental-assets gate accept silver/sales 2017-01-05 --reason …`, and run it "
        "again. Until then gold/sales_mart, gold/daily_product_sales, gold/latest_user_events wait."
    )


def test_a_day_that_was_refused_is_reported_as_its_upstream_reports_it() -> None:
    assert failure_text(SALES, {SIXTH: REFUSED}, tables()) == (
        f"silver/sales: 2017-01-06 not published. 2017-01-06: {REFUSED.reason}."
    )


def test_a_failure_says_more_than_what_is_held_where_a_day_was_refused() -> None:
    def of(*results: DayResult) -> bool:
        states = days_by_state({result.day: result for result in results})
        return says_only_what_is_held(failure("text", "brief", **states).metadata)

    assert [of(HELD), of(REFUSED), of(HELD, REFUSED), of()] == [True, False, False, False]
