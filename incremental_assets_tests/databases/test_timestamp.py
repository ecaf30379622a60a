"""Tables of the lake over a table of PostgreSQL, whose new rows a timestamp shows."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal as Exact
from typing import Any

import pytest

from incremental_assets.changes import Timestamp
from incremental_assets.errors import SourceError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Decimal, Instant, Text
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets.sources.jdbc import Jdbc
from incremental_assets.table import SameDay, Table
from incremental_assets.testing import Killed
from incremental_assets.writes import Append, Merge
from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.databases.server import LOADER, PASSWORD
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, states

DAYS = "2017-01-05...2017-01-07"


def tables(source: Jdbc, **changes: Any) -> tuple[Table, Table]:
    bronze = Table(
        name="bronze/orders",
        description="Orders as the shop's table has them.",
        reads=(source,),
        changes=Timestamp("updated_at", **changes),
        write=Append(),
    )
    silver = Table(
        name="silver/orders",
        description="The latest state of each order.",
        reads=(SameDay(bronze),),
        key=("order_id",),
        version_by=("updated_at",),
        schema=Contract(
            order_id=Text(required=True), status=Text(), amount=Decimal(), updated_at=Instant()
        ),
        write=Merge(),
    )
    return bronze, silver


class Shop:
    """A table `orders` in a database, and a lake over it."""

    def __init__(self, lake: Lakes, database: Database, **options: Any) -> None:
        changes = options.pop("changes", {})
        self.database = database
        database.execute(
            "CREATE TABLE orders (order_id text, status text, amount numeric(10, 2), "
            "updated_at timestamptz)"
        )
        source = Jdbc(database.url, **({"table": "orders"} | options))
        self.lake: Lake = lake(*tables(source, **changes))

    def put(self, order: str, status: str, at: str | None) -> None:
        """Insert an order, or update it; `at` such as "05 10:00", a day and time of January."""
        moment = None if at is None else f"2017-01-{at}+00"
        self.database.execute("DELETE FROM orders WHERE order_id = %s", order)
        self.database.execute("INSERT INTO orders VALUES (%s, %s, 12.5, %s)", order, status, moment)

    def load(self, days: str = DAYS, *names: str) -> Any:
        return self.lake.load(days, *names)

    @property
    def landed(self) -> list[tuple[str, str, str]]:
        return self.lake.bronze("bronze/orders", "order_id", "status")

    @property
    def orders(self) -> list[tuple[Any, ...]]:
        return self.lake.rows("silver/orders", "order_id", "status", "dt")


def two_days(lake: Lakes, database: Database, **options: Any) -> Shop:
    """Two days of orders are there, and not loaded yet."""
    made = Shop(lake, database, **options)
    for row in (("a", "paid", "05 10:00"), ("b", "paid", "05 11:00"), ("c", "paid", "06 09:00")):
        made.put(*row)
    return made


def die(*_: object, **__: object) -> None:
    raise Killed


def test_what_is_new_late_equal_or_of_another_day_is_loaded_once_onto_its_day(
    lake: Lakes, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = two_days(lake, database)
    shop.load()
    first = [("2017-01-05", "a"), ("2017-01-05", "b"), ("2017-01-06", "c")]
    assert shop.landed == [(day, order, "paid") for day, order in first]
    assert shop.orders == [(order, "paid", day) for day, order in first]
    assert shop.lake.frame("silver/orders")["amount"].to_list() == [Exact("12.50")] * 3
    before = shop.lake.versions()
    assert states(shop.load(), "bronze/orders") == ["idle"] * 3
    assert shop.lake.versions() == before
    assert shop.lake.pending_days("bronze/orders") == []

    shop.put("a", "shipped", "07 08:00")  # an update
    shop.put("d", "paid", "06 09:00")  # at the watermark's own instant
    assert shop.lake.pending_days("bronze/orders") == ["2017-01-05", "2017-01-06", "2017-01-07"]
    for step in ("publish", "record"):  # killed before its commit, then after it
        with monkeypatch.context() as broken, pytest.raises(Killed):
            broken.setattr(f"incremental_assets.engine.table_load.{step}", die)
            shop.load(DAYS, "bronze/orders")
    shop.put("e", "paid", "06 08:00")  # below the watermark
    shop.load()

    assert sorted(row[1] for row in shop.landed) == ["a", "a", "b", "c", "d"]
    assert shop.orders == [
        ("a", "shipped", "2017-01-07"),
        ("b", "paid", "2017-01-05"),
        ("c", "paid", "2017-01-06"),
        ("d", "paid", "2017-01-06"),
    ]
    assert any("1 row of 2017-01-06 came again, or late" in line for line in shop.lake.logged)
    assert shop.lake.pending_days("bronze/orders") == []


def test_a_lookback_reads_again_below_the_watermark(lake: Lakes, database: Database) -> None:
    shop = two_days(lake, database, changes={"lookback": timedelta(hours=2)})
    shop.load(DAYS, "bronze/orders")
    shop.put("d", "paid", "06 08:00")

    shop.load(DAYS, "bronze/orders")
    shop.load(DAYS, "bronze/orders")

    assert [row[1] for row in shop.landed] == ["a", "b", "c", "d"]


def test_rows_without_a_timestamp_or_of_the_future_wait_and_a_change_at_the_newest_instant_is_seen(
    lake: Lakes, database: Database
) -> None:
    shop = Shop(lake, database, changes={"nulls": "quarantine"})
    shop.put("a", "paid", "10 09:00")
    shop.put("none", "paid", None)
    shop.put("early", "paid", "10 13:00")  # the clock of the lake stands at noon
    strict = shop.lake.with_tables(*tables(Jdbc(database.url, "orders")))
    with pytest.raises(SourceError, match="1 of 3 new rows have no updated_at"):
        strict.load("2017-01-10", "bronze/orders")

    shop.load("2017-01-10", "bronze/orders")

    assert [row[1] for row in shop.landed] == ["a"]
    assert shop.lake.reasons("bronze/orders") == [
        ("updated_at_in_future",),
        ("updated_at_null",),
    ]
    shop.lake.now = datetime.fromisoformat("2017-01-10T14:00:00+00:00")
    shop.put("a", "shipped", "10 09:00")  # a change that keeps the newest instant
    shop.load("2017-01-10", "bronze/orders")
    assert [row[1:] for row in shop.landed] == [
        ("a", "paid"),
        ("a", "shipped"),
        ("early", "paid"),
    ]


def test_columns_that_come_and_go_reach_the_payload(lake: Lakes, database: Database) -> None:
    shop = two_days(lake, database)
    shop.load(DAYS, "bronze/orders")
    shop.database.execute("ALTER TABLE orders ADD COLUMN note text DEFAULT 'gift'")
    shop.database.execute("ALTER TABLE orders DROP COLUMN amount")
    shop.database.execute("INSERT INTO orders VALUES ('d', 'paid', '2017-01-07 10:00+00')")

    shop.load(DAYS, "bronze/orders")

    assert shop.lake.bronze("bronze/orders", "order_id", "note")[-1] == ("2017-01-07", "d", "gift")
    renamed = "ALTER TABLE orders RENAME COLUMN updated_at TO changed_at"
    shop.database.execute(renamed)
    with pytest.raises(SourceError, match=r"has no column 'updated_at'; it has .*changed_at"):
        shop.load(DAYS, "bronze/orders")


def test_no_row_is_lost_whose_transaction_ends_after_a_later_one(
    lake: Lakes, database: Database
) -> None:
    shop = Shop(lake, database)
    early, late = database.connect("plain"), database.connect("loader")
    add = "INSERT INTO orders VALUES (%s, 'paid', 1, now())"
    begun = early.execute("SELECT now()").fetchone()[0]  # the transaction is open from here on
    late.execute(add, ["late"])
    late.commit()
    shop.lake.now = datetime.now(begun.tzinfo) + timedelta(seconds=1)
    today = str(shop.lake.now.date())

    shop.load(today, "bronze/orders")
    assert shop.landed == []
    assert any("1 row from" in line and "has ended" in line for line in shop.lake.logged)

    early.execute(add, ["early"])
    early.commit()
    assert shop.lake.pending_days("bronze/orders") == [today]
    shop.load(today, "bronze/orders")

    assert [row[1] for row in shop.landed] == ["early", "late"]
    assert shop.lake.pending_days("bronze/orders") == []


def test_a_user_who_may_not_see_other_transactions_names_a_lag(
    lake: Lakes, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(lake, database)
    shop.put("a", "paid", "05 10:00")
    monkeypatch.setenv("DATABASE_USER", "plain")
    with database.connect("loader"), pytest.raises(SourceError, match="GRANT pg_read_all_stats"):
        shop.load(DAYS, "bronze/orders")

    lagging = Jdbc(database.url, "orders", lag=timedelta(minutes=5))
    other = shop.lake.with_tables(*tables(lagging))
    other.now = datetime.now().astimezone() + timedelta(seconds=1)
    shop.database.execute("INSERT INTO orders VALUES ('new', 'paid', 1, now())")
    other.load(f"2017-01-05...{other.now.date()}", "bronze/orders")

    assert [row[1] for row in shop.landed] == ["a"]


def test_the_example_of_the_page_loads_a_table(
    lake: Lakes, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (PROJECT_ROOT / "docs/databases.md").read_text("utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    monkeypatch.setenv("SHOP_URL", database.url)
    monkeypatch.setenv("SHOP_USER", LOADER)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    monkeypatch.delenv("DATABASE_USER")
    defined: dict[str, Any] = {}
    exec(code, defined)
    database.execute(
        "CREATE TABLE orders (order_id int, status text, amount numeric, updated_at timestamptz)"
    )
    database.execute("INSERT INTO orders VALUES (1, 'paid', 1.10, '2017-01-05 10:00+00')")
    shop = lake(defined["LANDED"], defined["ORDERS"])

    shop.load(DAYS)

    assert shop.rows("silver/orders", "order_id", "status", "amount") == [
        ("1", "paid", Exact("1.10"))
    ]


def test_the_fingerprint_of_a_day_is_the_same_whichever_days_are_asked_for(
    lake: Lakes, database: Database
) -> None:
    shop = Shop(lake, database)
    for day in ("05", "06", "07"):
        shop.put(day, "paid", f"{day} 10:00")
    fixed = Jdbc(database.url, "orders").read_by("updated_at").fix()
    days = [date(2017, 1, day) for day in (5, 6, 7)]

    together = fixed.rows_by_day("updated_at", days, days[-1])

    for day in days:
        assert fixed.rows_by_day("updated_at", [day], days[-1]) == {day: together[day]}
