"""A ledger rebuilt from the tables' logs: the loads after it end in the same rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import SparkSession

from incremental_assets.delta.delta_log import find_commit, transaction
from incremental_assets.errors import LedgerError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.operations.log_entries import entries_from_log
from incremental_assets.operations.rebuild_ledger import Done, rebuild_ledger
from incremental_assets.plan import why_pending
from incremental_assets.plan.landed import plan_landed
from incremental_assets.plan.work import file_entries
from incremental_assets.quality.rules import fail, row_count
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_accept import RULES
from incremental_assets_tests.feeds.test_append import TYPED, VISITS, visit
from incremental_assets_tests.feeds.test_consistent import BRONZE, LEDGER, SILVER
from incremental_assets_tests.feeds.test_interrupted import orders, products, users, whole
from incremental_assets_tests.feeds.test_rules import booking, bookings, landed, per_train
from incremental_assets_tests.feeds.world import NOON, Lake
from incremental_assets_tests.plan.ledgers import EMPTY, EVENTS, SALES, did, jan
from incremental_assets_tests.thorough import thorough

DAYS = "2017-01-05...2017-01-08"


def trains(lake: Lakes) -> Lake:
    """Published days, one of them in two batches, rows in quarantine, and a held day."""
    shop = lake(landed("bookings"), bookings(*RULES), per_train())
    good = [booking(f"b{n}", "1", at="2017-01-05T10:00") for n in range(11)]
    bad = booking("x", "1", "nowhere", at="2017-01-05T10:00")
    shop.land("bookings", "2017-01-05", "1.jsonl", [*good, bad])
    shop.load("2017-01-05")
    late = booking("late", "2", at="2017-01-05T11:00")
    shop.land("bookings", "2017-01-06", "1.jsonl", [late, booking("c", "3", at="2017-01-06T10:00")])
    held = [booking("d", "4", "nowhere", at="2017-01-07T10:00")]
    shop.land("bookings", "2017-01-07", "1.jsonl", held)
    return shop


def load(shop: Lake) -> None:
    shop.load(DAYS)
    shop.load_stale()


def loaded(lake: Lakes, make: Callable[[Lakes], Lake]) -> Lake:
    """With the tables as they were before their last load, in `_copy`."""
    shop = lake.copy_of(make)
    for name in (LEDGER, BRONZE):
        if Path(shop.path(name)).exists():
            shutil.copytree(shop.path(name), shop.path(f"_copy/{name}"))
    load(shop)
    return shop


def put_back(shop: Lake, name: str) -> None:
    """As it was before the last load."""
    shutil.rmtree(shop.path(name))
    shutil.copytree(shop.path(f"_copy/{name}"), shop.path(name))


def no_spark() -> SparkSession:
    raise AssertionError


def rebuilt(shop: Lake, *names: str) -> Done:
    """By another process, which has not read the ledger."""
    other = shop.with_tables(*shop.tables.values())
    return rebuild_ledger(
        other.lakehouse, [t for n, t in other.tables.items() if not names or n in names]
    )


def cut(shop: Lake) -> None:
    """The logs as they are after a month and a night's maintenance: their beginning is gone."""
    for name in shop.tables:
        table = DeltaTable(shop.path(name))
        table.create_checkpoint()
        for version in range(table.version()):
            Path(shop.path(name), "_delta_log", f"{version:020d}.json").unlink()


def of_trains(shop: Lake) -> list[Any]:
    rows = [shop.rows(name, *columns) for name, columns in COLUMNS.items()]
    return [shop.bronze(BRONZE, "id", "seat"), shop.reasons(SILVER), *rows]


COLUMNS = {SILVER: ("id", "seat"), "gold/per_train": ("train", "seats")}
FEEDS: dict[str, tuple[Callable[[Lakes], Lake], Callable[[Lake], list[Any]]]] = {
    "trains": (trains, of_trains),
    "orders": (orders, lambda shop: whole(shop, "orders", ("order_id", "status"))),
    "users": (users, lambda shop: whole(shop, "users", ("id", "name"))),
    "products": (products, lambda shop: whole(shop, "products", ("sku", "name"))),
}


OTHERS = thorough(
    "feeds/test_rebuild_ledger.py: a log with history, and an older ledger of logs that are whole"
)


@pytest.mark.parametrize(
    ("feed", "is_cut"),
    [
        ("users", True),
        *(
            pytest.param(*feed, marks=OTHERS)
            for feed in (("trains", False), ("trains", True), ("orders", False), ("products", True))
        ),
    ],
)
def test_after_a_lost_ledger_nothing_is_lost_and_nothing_doubled(
    lake: Lakes, feed: str, is_cut: bool
) -> None:
    make, rows = FEEDS[feed]
    shop = lake.copy_of(loaded, make)
    before = rows(shop)
    numbers = {name: transaction(shop.path(name), name) for name in shop.tables}
    if is_cut:
        cut(shop)
    shutil.rmtree(shop.path(LEDGER))

    done = rebuilt(shop)

    assert done.former == ""
    assert [table.table for table in done.tables] == list(shop.tables)
    shop = shop.with_tables(*shop.tables.values())
    view = shop.lakehouse.ledger.view()
    for name in shop.tables:
        history = view.table(name)
        assert (history.last_batch > numbers[name], history.unsettled) == (True, ())
        tokens = {e.batch: e.token for e in history.committed if e.token}
        commits = {batch: find_commit(shop.path(name), name, batch) for batch in tokens}
        assert tokens == {n: commit.note["token"] for n, commit in commits.items() if commit}
    assert rows(shop) == before  # nothing goes before the next load
    load(shop)
    assert rows(shop) == before
    versions = shop.versions()
    load(shop)
    assert (shop.versions(), shop.stale()) == (versions, {})


@thorough("feeds/test_rebuild_ledger.py: a ledger that is lost")
def test_after_an_older_ledger_only_the_tables_that_are_named_are_rebuilt(lake: Lakes) -> None:
    shop = lake.copy_of(loaded, trains)
    before = of_trains(shop)
    put_back(shop, LEDGER)
    gold = shop.with_tables(*shop.tables.values()).lakehouse.ledger.view().table("gold/per_train")
    with pytest.raises(LedgerError, match="older than the table"):
        load(shop)

    done = rebuilt(shop, BRONZE, SILVER)

    assert Path(done.former, "_delta_log").is_dir()
    assert done.former.startswith(f"{shop.path(LEDGER)}_before_")
    assert list(Path(shop.path(LEDGER)).parent.glob("_ledger_before_*")) == [Path(done.former)]
    shop = shop.with_tables(*shop.tables.values())
    assert shop.lakehouse.ledger.view().table("gold/per_train").entries == gold.entries
    shop.load(DAYS, BRONZE, SILVER)
    rebuilt(shop, "gold/per_train")
    shop = shop.with_tables(*shop.tables.values())
    load(shop)
    assert of_trains(shop) == before


def test_after_an_older_table_its_numbers_go_on_above_those_that_others_have_read(
    lake: Lakes,
) -> None:
    shop = lake.copy_of(loaded, trains)
    before = of_trains(shop)
    last = shop.lakehouse.ledger.view().table(BRONZE).last_batch
    put_back(shop, BRONZE)

    rebuilt(shop, BRONZE)
    shop = shop.with_tables(*shop.tables.values())
    load(shop)

    assert of_trains(shop) == before
    assert min(e.batch for e in shop.lakehouse.ledger.view().table(BRONZE).loads[-2:]) > last


@thorough("feeds/test_rebuild_ledger.py: an older bronze table, and a silver table that is gone")
def test_a_bronze_table_that_is_gone_starts_empty_and_is_loaded_again(lake: Lakes) -> None:
    shop = lake.copy_of(loaded, trains)
    before = of_trains(shop)
    shutil.rmtree(shop.path(BRONZE))
    rebuilt(shop, BRONZE)
    shop = shop.with_tables(*shop.tables.values())
    shop.land("bookings", "2017-01-08", "1.jsonl", [booking("e", "5", at="2017-01-08T10:00")])
    load(shop)
    assert ("e", "5") in shop.rows(SILVER, "id", "seat")
    assert len(shop.bronze(BRONZE, "id")) == len(before[0]) + 1


@pytest.mark.parametrize(
    "is_gone",
    [
        True,
        pytest.param(False, marks=thorough("feeds/test_rebuild_ledger.py: a table that is gone")),
    ],
)
def test_a_table_that_lacks_batches_is_rebuilt_with_the_one_that_appended_their_rows(
    lake: Lakes, is_gone: bool
) -> None:
    web, names = lake(VISITS, TYPED), (VISITS.name, TYPED.name)
    web.land("visits", "2017-01-05", "1.jsonl", [visit("a")])
    web.load("2017-01-05")
    shutil.copytree(web.path(VISITS.name), web.path(f"_copy/{VISITS.name}"))
    web.land("visits", "2017-01-05", "2.jsonl", [visit("b")])
    web.land("visits", "2017-01-06", "1.jsonl", [visit("late"), visit("c", "06")])
    web.load("2017-01-05...2017-01-06")
    web.load_stale()
    before, days_before = web.rows(TYPED.name, "page"), web.rows(TYPED.name, "dt", "page")
    if is_gone:
        shutil.rmtree(web.path(VISITS.name))
    else:
        put_back(web, VISITS.name)

    with pytest.raises(LedgerError, match=f"ledger rebuild {' '.join(names)}$"):
        rebuilt(web, VISITS.name)
    assert not list(Path(web.path(LEDGER)).parent.glob("_ledger_before_*"))
    rebuilt(web, *names)
    web = web.with_tables(*web.tables.values())
    alone = web.load("2017-01-05...2017-01-06", TYPED.name)  # from what is left of bronze
    refused = [str(day) for day in alone[TYPED.name].failed]
    assert refused == ["2017-01-05", "2017-01-06"][0 if is_gone else 1 :]
    assert [row for row in web.rows(TYPED.name, "dt", "page") if row[0] in refused] == [
        row for row in days_before if row[0] in refused
    ]
    web.load("2017-01-05...2017-01-06")
    web.load_stale()

    assert web.rows(TYPED.name, "page") == before
    assert web.stale() == {}


@pytest.mark.parametrize("is_published", [True, False])
def test_rows_that_a_dead_run_appended_count_if_they_were_published(
    settings: Settings, is_published: bool
) -> None:
    lakehouse = Lakehouse(settings, [VISITS, TYPED], no_spark, lambda: NOON)
    loaded = replace(did(VISITS, 1, 5, touched=[5]), target_version=0)
    claim = did(TYPED, 1, 5, state="claimed", read={VISITS.name: 1})
    for entry in (loaded, claim):
        lakehouse.ledger.transact_on(entry.table, lambda _, entry=entry: [entry])  # type: ignore[misc]
    note = {"days": {str(jan(5)): {"state": "committed"}}}
    published = CommitProperties(
        custom_metadata={"userMetadata": json.dumps(note)},
        app_transactions=[Transaction(TYPED.name, 1)],
    )
    write_deltalake(
        f"{settings.lake}/{TYPED.name}",
        pl.DataFrame({"_batch": [1], "dt": [jan(5)]}),
        partition_by=["dt"],
        commit_properties=published if is_published else None,
    )
    refused = pytest.raises(LedgerError, match=f"ledger rebuild {VISITS.name} {TYPED.name}$")

    with refused if is_published else nullcontext():
        rebuild_ledger(lakehouse, [VISITS])

    outcomes = lakehouse.ledger.view().table(TYPED.name).outcomes
    assert [e.state for e in outcomes] == ["committed" if is_published else "abandoned"]


def land(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("right", "wrong"):
        (folder / f"{name}.jsonl").write_text("{}\n")


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_was_retracted_stays_out_although_the_table_is_older(
    settings: Settings, is_gone: bool
) -> None:
    logged = list[str]()
    lakehouse = Lakehouse(settings, [EVENTS], no_spark, lambda: NOON, logged.append)
    feed, folder = LandedFiles("events"), Path(settings.landing, f"events/{jan(5)}")
    land(folder)
    (first,) = plan_landed(EVENTS, feed, [jan(5)], EMPTY, settings).work
    right, wrong = file_entries(first.files)
    shutil.rmtree(folder)
    retraction = did(EVENTS, 2, 5, touched=[5], kind="retract", mode="rebuild")
    both = replace(did(EVENTS, 1, 5, touched=[5]), files=(wrong, right), target_version=0)
    why = {"who": "ann", "why": "of another shop", "token": "t"}
    for entry in (both, replace(retraction, files=(wrong,), target_version=1, **why)):
        lakehouse.ledger.transact_on(EVENTS.name, lambda _, entry=entry: [entry])  # type: ignore[misc]
    note = {"days": {str(jan(5)): {"state": "committed"}}}
    rows = {"_file": [wrong.path, right.path], "_landing_day": jan(5), "_day": jan(5)}
    if not is_gone:
        write_deltalake(
            f"{settings.lake}/{EVENTS.name}",
            pl.DataFrame(rows),
            partition_by=["_landing_day", "_day"],
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": json.dumps(note)},
                app_transactions=[Transaction(EVENTS.name, 1)],
            ),
        )

    for _ in range(2):  # a ledger that was rebuilt keeps it, too
        rebuild_ledger(lakehouse, [EVENTS])

    view = lakehouse.ledger.view()
    history, returned = view.table(EVENTS.name), [] if is_gone else [jan(5)]
    assert [e.why for e in history.committed if e.kind == "retract"] == ["of another shop"]
    assert history.retracted(jan(5)) == {wrong.path}
    assert history.days_to_retract == returned
    assert sum(wrong.path in line for line in logged) == 2 * len(returned)
    start, today = settings.start_date, NOON.date()
    # Also where the folder of the day is gone.
    assert list(why_pending(EVENTS, view, settings, start, today)) == returned
    land(folder)
    works = plan_landed(EVENTS, feed, [jan(5)], view, settings).work
    found = [(work.kind, [f.path for f in work.files]) for work in works]
    reads = ("advance" if is_gone else "restate", [right.path])
    assert found == [*([] if is_gone else [("retract", [wrong.path])]), reads]


def test_a_silver_table_that_is_gone_starts_empty_and_is_loaded_again(lake: Lakes) -> None:
    shop = lake.copy_of(loaded, trains)
    before = of_trains(shop)
    shutil.rmtree(shop.path(SILVER))

    rebuilt(shop, SILVER)
    shop = shop.with_tables(*shop.tables.values())
    load(shop)

    assert of_trains(shop) == before
    assert shop.stale() == {}


def test_a_hold_that_ended_without_a_commit_does_not_come_back(lake: Lakes) -> None:
    shop = lake(landed("bookings", *fail(row_count(at_most=2))), bookings())
    many, held = [booking(name, name) for name in "abc"], date(2017, 1, 5)
    bad = shop.land("bookings", "2017-01-05", "1.jsonl", many)
    shop.land("bookings", "2017-01-06", "1.jsonl", [booking("d", "4", at="2017-01-06T10:00")])
    shop.load("2017-01-05...2017-01-06")
    assert list(shop.lakehouse.ledger.view().table(BRONZE).held) == [held]
    bad.unlink()
    shop.load("2017-01-05", BRONZE)
    assert shop.lakehouse.ledger.view().table(BRONZE).held == {}

    rebuilt(shop)
    shop = shop.with_tables(*shop.tables.values())
    assert shop.lakehouse.ledger.view().table(BRONZE).held == {}
    shop.land("bookings", "2017-01-07", "1.jsonl", [booking("late", "5")])
    shop.load("2017-01-06...2017-01-07")
    shop.load_stale()

    assert shop.rows(SILVER, "id") == [("d",), ("late",)]


def test_a_ledger_that_cannot_be_read_is_rebuilt_for_all_tables_only(lake: Lakes) -> None:
    shop = lake.copy_of(trains)
    before = of_trains(shop)
    for file in Path(shop.path(LEDGER), "_delta_log").iterdir():
        file.write_text("{broken")

    with pytest.raises(LedgerError, match="without a TABLE"):
        rebuilt(shop, BRONZE)
    done = rebuilt(shop)

    assert Path(done.former, "_delta_log").is_dir()
    shop = shop.with_tables(*shop.tables.values())
    shop.load("2017-01-05")
    assert of_trains(shop) == before


def test_of_what_was_cut_from_a_log_no_version_is_known(tmp_path: Path) -> None:
    path = str(tmp_path / SALES.name)
    for batch in (1, 2, 3):
        write_deltalake(
            path,
            pl.DataFrame({"_batch": [batch], "dt": [jan(batch)]}),
            mode="append",
            partition_by=["dt"],
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": json.dumps({"days": {str(jan(batch)): {}}})},
                app_transactions=[Transaction(SALES.name, batch)],
            ),
        )
    DeltaTable(path).create_checkpoint()
    for version in (0, 1):
        (Path(path) / "_delta_log" / f"{version:020d}.json").unlink()

    entries = entries_from_log(path, SALES, 3, [], "a lost ledger")

    assert {(e.batch, e.target_version) for e in entries} == {(2, None), (3, 2)}
