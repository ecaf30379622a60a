"""The classic watermark table, as a query on the ledger."""

from __future__ import annotations

from datetime import UTC, date, datetime

import polars as pl
import pytest

from incremental_assets.ledger.entry import State
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.watermarks import watermark_rows
from incremental_assets_tests.ledger.entries import (
    NOON,
    SALES,
    USERS,
    append,
    compact,
    entry,
    without_statistics,
)

NINTH = "2017-01-09T00:00:00.000000Z"
TENTH = "2017-01-10T00:00:00.123456Z"
LATER = datetime(2017, 1, 10, 3, 4, 5, 678901, tzinfo=UTC)


def rows(ledger: Ledger) -> list[tuple[str, str, datetime]]:
    return watermark_rows(ledger).rows()


def test_it_has_the_classic_columns_even_where_there_is_no_watermark(ledger: Ledger) -> None:
    found = watermark_rows(ledger)

    assert found.schema == {
        "table_name": pl.String(),
        "watermark_value": pl.String(),
        "last_updated": pl.Datetime("us", "UTC"),
    }
    assert found.is_empty()


def test_each_table_has_one_row_of_its_newest_commit(ledger: Ledger) -> None:
    append(
        ledger,
        entry(1, "committed", USERS, high="5"),
        entry(1),
        entry(1, "committed", high=NINTH),
        entry(2, low=NINTH, high=TENTH),
        entry(2, "committed", high=TENTH, recorded_at=LATER),
    )

    assert rows(ledger) == [(SALES, TENTH, LATER), (USERS, "5", NOON)]


@pytest.mark.parametrize("state", ["claimed", "held", "abandoned"])
def test_what_was_not_published_moves_no_watermark(ledger: Ledger, state: State) -> None:
    append(ledger, entry(1, "committed", high=NINTH))
    append(ledger, entry(2, state, high=TENTH))
    before = rows(ledger)

    compact(ledger)

    assert before == [(SALES, NINTH, NOON)]
    assert rows(ledger) == before


def test_after_a_rewind_the_lower_watermark_stands(ledger: Ledger) -> None:
    append(
        ledger,
        entry(1, "committed", high=NINTH),
        entry(2, "committed", high=TENTH),
        entry(3, "committed", kind="rewind", low=TENTH, high=NINTH, recorded_at=LATER),
    )

    assert rows(ledger) == [(SALES, NINTH, LATER)]


def test_a_table_rewound_to_its_beginning_has_no_watermark_until_it_is_loaded(
    ledger: Ledger,
) -> None:
    append(ledger, entry(1, "committed", high=NINTH), entry(2, "committed", kind="rewind"))
    rewound = rows(ledger)

    append(ledger, entry(3, "committed", kind="restate", high=TENTH))

    assert rewound == []
    assert rows(ledger) == [(SALES, TENTH, NOON)]


def test_batches_without_a_watermark_do_not_hide_the_one_before(ledger: Ledger) -> None:
    append(ledger, entry(1, "committed", high=NINTH), entry(2, "committed", kind="restate"))

    assert rows(ledger) == [(SALES, NINTH, NOON)]


def test_tables_of_days_and_batches_only_have_no_row_and_cost_no_read(ledger: Ledger) -> None:
    append(ledger, *(entry(batch, "committed") for batch in range(1, 6)))
    snapshot = ledger.snapshot()

    assert rows(ledger) == []
    assert [file for file in snapshot.files if file.may_have_watermark] == []


def test_of_a_batch_of_several_days_the_last_day_tells(ledger: Ledger) -> None:
    first = entry(1, "committed", day=date(2017, 1, 9), high=NINTH)
    last = entry(1, "committed", day=date(2017, 1, 10), high=TENTH)
    ledger.transact_on(SALES, lambda _: [last, first])

    assert rows(ledger) == [(SALES, TENTH, NOON)]


def test_files_that_nothing_is_reported_of_are_read(ledger: Ledger) -> None:
    without_statistics(ledger)
    append(ledger, entry(1, "committed", high=NINTH), entry(2, "committed", high=TENTH), entry(3))

    assert rows(ledger) == [(SALES, TENTH, NOON)]


def test_a_watermark_that_is_too_long_for_the_log_is_read(ledger: Ledger) -> None:
    append(ledger, entry(1, "committed", high="1" * 99), entry(2, "committed", high="9" * 99))

    compact(ledger)

    assert rows(ledger) == [(SALES, "9" * 99, NOON)]


def test_compaction_changes_no_watermark(ledger: Ledger) -> None:
    names = ["a/b", "with space", "Verkäufe.日本", "it's 100%"]
    for batch in range(1, 4):
        append(ledger, *(entry(batch, "committed", name, high=str(batch)) for name in names))
    before = rows(ledger)

    compact(ledger)

    assert before == [(name, "3", NOON) for name in sorted(names)]
    assert rows(ledger) == before
