"""Files that should never have landed: what leaves the tables with them, and what stays out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets.changes import ChangeLog
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.ledger.entry import Entry, FileEntry, Touched
from incremental_assets.operations.retract import retract, retractions_of, rows_to_retract
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.plan.retract import missing_below
from incremental_assets.quality.rules import fail, row_count
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets.testing import kill_after_each_write
from incremental_assets.verifying import verify
from incremental_assets.writes import SCD2
from incremental_assets_tests.feeds import test_change_log as log
from incremental_assets_tests.feeds import test_snapshots as copies
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_accept import RULES, THE_DAY
from incremental_assets_tests.feeds.test_rebuild_ledger import LEDGER, rebuilt
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed, per_train
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, did, jan
from incremental_assets_tests.thorough import thorough

FIRST, BEFORE, AFTER, LAST = "2017-01-03", "2017-01-04", "2017-01-06", "2017-01-07"
WRONG = f"bookings/{DAY}/wrong.jsonl"
LOADED = ("bronze/bookings", "silver/bookings", "gold/per_train")


def trains(lake: Lakes) -> Lake:
    """A day that is held by a wrong file, whose right version has another name."""
    shop = lake(landed("bookings"), bookings(*RULES), per_train())
    late = booking("late", "9", at=f"{BEFORE}T10:00")
    shop.land("bookings", BEFORE, "1.jsonl", [booking("a", "1", at=f"{BEFORE}T10:00")])
    wrong = shop.land("bookings", DAY, "wrong.jsonl", [late, booking("b", "2", "nowhere"), "{"])
    shop.land("bookings", DAY, "other.jsonl", [booking("c", "3", "t2")])
    shop.load(f"{BEFORE}...{DAY}")
    wrong.unlink()
    shop.land("bookings", DAY, "right.jsonl", [booking("b", "2")])
    shop.load(f"{BEFORE}...{DAY}")
    shop.load_stale()
    assert shop.rows("silver/bookings", "id") == [("a",), ("late",)]
    return shop


def retracted(shop: Lake, *files: str, why: str = "a test file") -> dict[str, TableLoadResult]:
    return {done.table: done for done in retract(shop.lakehouse, files, why)}


def all_equal(shop: Lake) -> None:
    """Every table holds what a full rebuild holds, and no day is left out of that."""
    for name in shop.tables:
        found = verify(shop.lakehouse, shop.tables[name])
        assert (found.equal, found.left_out) == (True, {}), f"{name}: {found}"


def test_a_file_leaves_every_table_on_record_and_the_day_that_it_held_is_published(
    lake: Lakes,
) -> None:
    shop = lake.copy_of(trains)
    view = shop.lakehouse.ledger.view()
    assert missing_below(shop.tables["silver/bookings"], THE_DAY, view, shop.settings) == [WRONG]
    found = retractions_of([WRONG], shop.lakehouse.tables, view, shop.settings)
    rows = rows_to_retract(found, shop.settings, view)
    assert [(r.table, r.file, str(r.day), r.rows) for r in rows] == [
        ("bronze/bookings", WRONG, BEFORE, 1),
        ("bronze/bookings", WRONG, DAY, 2),
    ]

    done = retracted(shop, WRONG)

    assert list(done) == list(LOADED)
    assert not any(result.failed for result in done.values())
    assert shop.bronze("bronze/bookings", "id") == [(BEFORE, "a"), (DAY, "b"), (DAY, "c")]
    assert shop.rows("silver/bookings", "id", "train") == [("a", "t1"), ("b", "t1"), ("c", "t2")]
    assert shop.reasons("silver/bookings") == []
    assert shop.rows("gold/per_train", "dt", "train", "seats") == [
        (BEFORE, "t1", 1),
        (DAY, "t1", 1),
        (DAY, "t2", 1),
    ]
    assert shop.stale() == {}
    assert shop.pending_days("bronze/bookings") == []
    view = shop.lakehouse.ledger.view()
    entry = view.table("bronze/bookings").committed[-1]
    assert (entry.kind, entry.why, entry.rows_deleted) == ("retract", "a test file", 3)
    assert entry.who
    assert [file.path for file in entry.files] == [WRONG]
    assert missing_below(shop.tables["silver/bookings"], THE_DAY, view, shop.settings) == []
    all_equal(shop)

    versions = shop.versions()
    assert states(retracted(shop, WRONG), "bronze/bookings") == ["idle"]
    assert shop.versions() == versions


def test_a_held_day_of_bronze_is_evaluated_again_after_a_retraction_or_a_rewind(
    lake: Lakes,
) -> None:
    name = "bronze/bookings"
    shop = lake(replace(landed("bookings"), rules=fail(row_count(1, 2))), bookings())
    one = shop.land("bookings", DAY, "1.jsonl", [booking("a", "1")])
    two = shop.land("bookings", DAY, "2.jsonl", [booking("b", "2")])
    shop.load(DAY)
    many = shop.land("bookings", DAY, "3.jsonl", [booking(n, "3") for n in "cde"])

    def held() -> bool:
        return THE_DAY in shop.lakehouse.ledger.view().table(name).held

    shop.load(DAY)
    one.unlink()
    two.unlink()
    done = retracted(shop, f"bookings/{DAY}/1.jsonl", f"bookings/{DAY}/2.jsonl")
    assert held()
    assert shop.bronze(name, "id") == []
    assert shop.rows("silver/bookings", "id") == [("a",), ("b",)]  # of a held day, as it was
    assert (list(done), states(done, "silver/bookings")) == (
        [name, "silver/bookings"],
        ["refused"],
    )
    assert "; until then the retracted rows stay in silver/bookings" in (
        done["silver/bookings"].days[THE_DAY].reason
    )

    many.unlink()  # so there is nothing to judge, and the hold ends
    assert shop.pending_days(name) == [DAY]
    shop.load(DAY, name)
    assert not held()
    shop.load_stale()
    assert shop.rows("silver/bookings", "id") == []
    assert shop.pending_days(name) == []

    shop.land("bookings", DAY, "3.jsonl", [booking(n, "3") for n in "cde"])
    shop.load(DAY)
    TableRewind(shop.lakehouse, shop.tables[name]).record(0, "a till counted twice", None)
    assert held()
    shop.land("bookings", DAY, "3.jsonl", [booking("c", "3")])
    shop.load(DAY)
    assert not held()
    shop.load_stale()
    assert shop.rows("silver/bookings", "id") == [("c",)]
    all_equal(shop)


def test_it_is_not_read_again_unless_it_has_changed_not_even_by_a_ledger_from_the_log(
    lake: Lakes,
) -> None:
    shop = lake.copy_of(trains)
    shop.land("bookings", DAY, "wrong.jsonl", [])
    with pytest.raises(DefinitionError, match="move it out of the landing first"):
        retracted(shop, WRONG)
    (shop.source("bookings") / DAY / "wrong.jsonl").unlink()
    retracted(shop, WRONG)
    rows, bronze = shop.rows("silver/bookings", "id"), "bronze/bookings"
    again = [booking("late", "9", at=f"{BEFORE}T10:00"), booking("b", "2", "nowhere"), "{"]
    shop.land("bookings", DAY, "wrong.jsonl", again)

    assert shop.pending_days(bronze) == []
    shop.load(DAY, bronze)
    assert any(f"landed again, unchanged, and will not be read: {WRONG}" in t for t in shop.logged)
    shutil.rmtree(shop.path(LEDGER))
    rebuilt(shop)
    shop = shop.with_tables(*shop.tables.values())
    shop.load(f"{BEFORE}...{DAY}")
    assert shop.rows("silver/bookings", "id") == rows
    history = shop.lakehouse.ledger.view().table(bronze)
    assert [e.why for e in history.committed if e.kind == "retract"] == ["a test file"]

    shop.land("bookings", DAY, "wrong.jsonl", [booking("d", "4")])
    shop.load(DAY, bronze)
    assert shop.bronze(bronze, "id") == [(BEFORE, "a"), (DAY, "b"), (DAY, "c"), (DAY, "d")]

    (shop.source("bookings") / DAY / "wrong.jsonl").unlink()
    rebuilt(shop, bronze)
    shop = shop.with_tables(*shop.tables.values())
    history = shop.lakehouse.ledger.view().table(bronze)
    assert history.retracted(THE_DAY) == frozenset()  # so its rows can be retracted
    assert [e.why for e in history.committed if e.kind == "retract"] == ["a test file"]

    shop.load_stale()
    shutil.copytree(shop.path(bronze), shop.path("_copy"))
    retracted(shop, WRONG)
    rows = shop.rows("silver/bookings", "id")
    shutil.rmtree(shop.path(bronze))
    shutil.copytree(shop.path("_copy"), shop.path(bronze))  # a backup of before the retraction
    rebuilt(shop, bronze)
    shop = shop.with_tables(*shop.tables.values())
    assert DAY in shop.pending_days(bronze)
    shop.load(f"{BEFORE}...{DAY}")
    shop.load_stale()
    assert shop.bronze(bronze, "id") == [(BEFORE, "a"), (DAY, "b"), (DAY, "c")]
    assert shop.rows("silver/bookings", "id") == rows
    assert shop.lakehouse.ledger.view().table(bronze).days_to_retract == []


def test_a_retraction_that_is_killed_anywhere_goes_on_and_two_at_once_wait(lake: Lakes) -> None:
    shop = lake.copy_of(trains)

    kills = kill_after_each_write(lambda: retracted(shop, WRONG))
    shop.load(f"{BEFORE}...{DAY}")
    shop.load_stale()

    assert kills == 6  # of bronze and of silver: after the claim, the staged files, and the commit
    assert shop.rows("silver/bookings", "id") == [("a",), ("b",), ("c",)]
    errors: list[BaseException] = []

    def at_once() -> None:
        try:
            retracted(shop.with_tables(*shop.tables.values()), f"bookings/{DAY}/right.jsonl")
        except BaseException as error:  # a thread has no caller to raise it to
            errors.append(error)

    (shop.source("bookings") / DAY / "right.jsonl").unlink()
    both = [Thread(target=at_once) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert errors == []
    history = shop.lakehouse.ledger.view().table("bronze/bookings")
    last = [e for e in history.committed if any("right" in f.path for f in e.files)]
    assert [e.kind for e in last] == ["advance", "retract"]
    shop.load_stale()
    assert shop.rows("silver/bookings", "id") == [("a",), ("c",)]


@thorough(
    "feeds/test_retract.py, feeds/test_change_log.py: files of rows, and a log's repaired files"
)
def test_a_retracted_file_of_a_log_takes_its_events_out_of_the_versions(lake: Lakes) -> None:
    users = lake(*log.both_ways(ChangeLog()))
    first = [log.event("INSERT", 1, 1, name="A"), log.event("INSERT", 2, 2, name="B")]
    users.land("users", DAY, "1.jsonl", first)
    wrong = [log.event("UPDATE", 4, 1, name="X"), log.event("DELETE", 3, 2)]
    file = users.land("users", AFTER, "1.jsonl", wrong)
    users.load(f"{DAY}...{AFTER}")
    assert users.rows("silver/users", "id", "name") == [(1, "X")]
    file.unlink()

    retracted(users, f"users/{AFTER}/1.jsonl")

    assert users.rows("silver/users", "id", "name") == [(1, "A"), (2, "B")]
    assert users.rows("silver/versions", *log.VERSION) == [
        (1, "A", 1, None, True),
        (2, "B", 2, None, True),
    ]
    assert users.stale() == {}


def test_a_retracted_snapshot_counts_as_one_that_never_came_also_a_part_of_one(
    lake: Lakes,
) -> None:
    shop = lake(copies.tables(SCD2())[0])
    shop.land("products", FIRST, "1.jsonl", copies.copy(a="A", b="B"))
    whole = shop.land("products", DAY, "1.jsonl", copies.copy(a="WRONG", x="X"))
    shop.land("products", AFTER, "1.jsonl", copies.copy(a="A", b="B", c="C"))
    part = shop.land("products", LAST, "1.jsonl", copies.copy(y="Y", z="Z"))
    rest = shop.land("products", LAST, "2.jsonl", copies.copy(a="A", b="B", c="C"))
    shop.load(f"{FIRST}...{LAST}")
    whole.unlink()
    part.unlink()
    wrong = [f"products/{DAY}/1.jsonl", f"products/{LAST}/1.jsonl"]
    rest.rename(rest.with_suffix(".away"))
    with pytest.raises(SourceError, match=r"2\.jsonl cannot be read any more"):
        retracted(shop, *wrong)
    rest.with_suffix(".away").rename(rest)

    retracted(shop, *wrong)

    first = [("03", "insert", '["a"]'), ("03", "insert", '["b"]')]
    assert copies.operations(shop) == [*first, ("06", "insert", '["c"]')]
    assert shop.pending_days("bronze/products") == []
    all_equal(shop)
    # Nor is it the next snapshot for one that comes late.
    shop.land("products", BEFORE, "1.jsonl", copies.copy(a="A", b="B", z="Z"))
    shop.load(f"{FIRST}...{AFTER}")
    assert copies.operations(shop) == [
        *first,
        ("04", "insert", '["z"]'),
        ("06", "delete", '["z"]'),
        ("06", "insert", '["c"]'),
    ]


NAMES: dict[str, tuple[str, str]] = {
    "a typing error": (
        f"bookings/{DAY}/wrang.jsonl",
        f"bronze/bookings has not loaded bookings/{DAY}/wrang.jsonl; did you mean {WRONG}?",
    ),
    "another day": (
        "bookings/2017-01-09/wrong.jsonl",
        "has not loaded bookings/2017-01-09/wrong.jsonl. Of 2017-01-09 it has loaded no file.",
    ),
    "another feed": (f"booking/{DAY}/wrong.jsonl", f"did you mean {WRONG}?"),
    "no day": ("bookings/wrong.jsonl", "is no file of a landing day. Name files as they landed"),
    "nothing": ("", "'' is no file of a landing day"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_was_not_loaded_is_refused_in_a_line_with_the_one_that_was_meant(
    lake: Lakes, name: str
) -> None:
    shop = lake.copy_of(trains)
    versions = shop.versions()
    file, message = NAMES[name]

    with pytest.raises(DefinitionError) as refused:
        retracted(shop, WRONG, file)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert shop.versions() == versions


def test_a_file_is_named_by_any_path_that_leads_to_it_and_a_reason_is_needed(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = lake.copy_of(trains)
    landing = Path(shop.settings.landing)
    monkeypatch.chdir(landing.parent)
    names: Sequence[Any] = [f"{landing}/{WRONG}", f"{landing.name}/{WRONG}", f"./{WRONG}"]
    found: Callable[[str], Any] = lambda name: retractions_of(  # noqa: E731
        [name], shop.lakehouse.tables, shop.lakehouse.ledger.view(), shop.settings
    )

    assert [found(name)[0].files for name in names] == [{WRONG}] * 3
    with pytest.raises(DefinitionError, match="needs a reason"):
        retracted(shop, WRONG, why=" ")


class Recorded(Lakehouse):
    """A lakehouse that records which days of tables it is to load; only retractions are settled."""

    loaded: dict[str, list[int]]

    def load(self, table: Table, days: Sequence[date], run_id: str = "") -> TableLoadResult:
        self.loaded[table.name] = [day.day for day in days]
        return TableLoadResult(table.name, {}, 0.0)

    def retract(self, table: Table, *_: Any) -> TableLoadResult:
        claims = self.ledger.tail(table.name).unsettled
        done = [
            replace(claim, state="committed", touched=(Touched(jan(5), 1),)) for claim in claims
        ]
        self.ledger.transact_on(table.name, lambda _: done)
        return TableLoadResult(table.name, {}, 0.0)


RETRACTED = did(EVENTS, 2, 5, touched=[5], kind="retract", mode="rebuild")
HELD = did(EVENTS, 3, 5, state="held")
READ_AGAIN = did(SALES, 2, 5, touched=[5], kind="restate", mode="rebuild", read={EVENTS.name: 2})


@pytest.mark.parametrize(
    ("since", "loaded", "refused"),
    [
        pytest.param([replace(RETRACTED, state="claimed")], {SALES.name: [5]}, {}, id="published"),
        pytest.param([RETRACTED], {SALES.name: [5]}, {}, id="recorded in bronze"),
        pytest.param([RETRACTED, READ_AGAIN], {MART.name: [5]}, {}, id="read by silver"),
        pytest.param([RETRACTED, HELD], {}, {SALES.name: [5]}, id="and bronze is held"),
    ],
)
def test_a_retraction_that_was_interrupted_loads_the_rest_when_it_is_repeated(
    settings: Settings,
    since: list[Entry],
    loaded: dict[str, list[int]],
    refused: dict[str, list[int]],
) -> None:
    def no_spark() -> SparkSession:
        raise AssertionError

    now = datetime(2017, 1, 31, tzinfo=UTC)
    wrong = "events/2017-01-05/wrong.jsonl"
    file = FileEntry(wrong, 1, "tag", "")
    lakehouse = Recorded(settings, [EVENTS, SALES, MART], no_spark, lambda: now)
    lakehouse.loaded = {}
    before = [
        did(EVENTS, 1, 5, touched=[5]),
        did(SALES, 1, 5, touched=[5], read={EVENTS.name: 1}),
        did(MART, 1, 5, touched=[5], read={SALES.name: 1}),
    ]
    for entry in (*before, *since):
        own = replace(entry, files=(file,) if entry.table == EVENTS.name else ())
        lakehouse.ledger.transact_on(own.table, lambda _, own=own: [own])  # type: ignore[misc]

    done = list(retract(lakehouse, [wrong], "a test file"))

    assert lakehouse.loaded == loaded
    found = {each.table: [day.day for day in each.failed] for each in done if each.failed}
    assert found == refused
