"""Which days of a quarantine cannot be compared, because rows of them have expired."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from incremental_assets.verifying.quarantine import expired_days
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did, jan, ledger

LOADED = datetime(2017, 1, 10, tzinfo=UTC)
EARLIER, LATER = LOADED - timedelta(days=1), LOADED + timedelta(days=1)


@pytest.mark.parametrize(
    ("by_setting", "reached", "left_out"),
    [
        pytest.param(None, None, False, id="nothing ever expires"),
        pytest.param(LATER, None, True, id="rows may expire at any time"),
        pytest.param(EARLIER, None, False, id="rows are too young"),
        pytest.param(EARLIER, LATER, True, id="the setting was raised since rows expired"),
        pytest.param(None, LATER, True, id="it was set to 0 since"),
        pytest.param(LATER, EARLIER, True, id="it was lowered since"),
        pytest.param(None, EARLIER, False, id="only older rows expired"),
        pytest.param(
            None,
            LOADED - timedelta(seconds=1),
            True,
            id="rows expired that the load saw as it began",
        ),
    ],
)
def test_days_are_left_out_as_far_as_rows_have_expired_or_may(
    by_setting: datetime | None, reached: datetime | None, left_out: bool
) -> None:
    loads = [
        replace(did(SALES, 1, 5), rows_quarantined=1, recorded_at=LOADED, seconds=2.0),
        replace(did(SALES, 2, 6), rows_quarantined=0, recorded_at=LOADED),
    ]
    history = ledger(did(EVENTS, 1, 5), *loads).table(SALES.name)

    assert expired_days(history, by_setting, reached) == ({jan(5)} if left_out else set())
