"""A silver table without a key: every row of bronze, typed, exactly once."""

from __future__ import annotations

from typing import Any

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import not_null, quarantine
from incremental_assets.quality.types import Instant, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Append
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import states

VISITS = Table(
    name="bronze/visits",
    description="Visits as they landed.",
    reads=(LandedFiles("visits"),),
    day="at",
    allowed_lateness="default",
    write=Append(),
)
TYPED = Table(
    name="silver/visits",
    description="Every visit.",
    reads=(SameDay(VISITS),),
    day="at",
    allowed_lateness="default",
    schema=Contract(page=Text(), at=Instant()),
    rules=quarantine(not_null("page")),
    write=Append(),
)


def visit(page: str | None, day: str = "05") -> dict[str, Any]:
    return {"page": page, "at": f"2017-01-{day}T10:00:00Z"}


def test_every_row_stays_once_late_ones_on_their_day_and_a_repair_replaces_its_day(
    lake: Lakes,
) -> None:
    quarantined = ("page_not_null",)
    web = lake(VISITS, TYPED)
    web.land("visits", "2017-01-05", "1.jsonl", [visit("a"), visit("a"), visit("b"), visit(None)])
    web.land("visits", "2017-01-07", "1.jsonl", [visit(None, "07"), visit(None, "07")])
    days = "2017-01-05...2017-01-07"
    results = web.load(days)
    # A day of which every row is quarantined is loaded all the same.
    assert states(results, "silver/visits") == ["committed", "idle", "committed"]
    assert web.rows("silver/visits", "page", "dt") == [
        ("a", "2017-01-05"),
        ("a", "2017-01-05"),
        ("b", "2017-01-05"),
    ]
    assert web.reasons("silver/visits") == [quarantined] * 3
    versions = web.versions()
    web.load(days)
    assert web.versions() == versions

    web.land("visits", "2017-01-06", "1.jsonl", [visit("late"), visit("c", "06")])
    web.load("2017-01-06")
    assert web.stale() == {"silver/visits": ["2017-01-05"]}
    web.load_stale()
    assert [page for page, _ in web.rows("silver/visits", "page", "dt")] == [
        "a",
        "a",
        "b",
        "c",
        "late",
    ]

    web.land("visits", "2017-01-05", "1.jsonl", [visit("a"), visit("z")])
    web.load("2017-01-05")
    assert [page for page, _ in web.rows("silver/visits", "page", "dt")] == ["a", "c", "late", "z"]
    assert web.reasons("silver/visits") == [quarantined] * 2
