"""What the demo's loads did, by day and by table, and what was sold: read without a JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl

from incremental_assets.days import DayRange
from incremental_assets.delta.delta_table import open_table, rows_by_file
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.operations.quarantined import QuarantineFilter, days_in_quarantine
from incremental_assets.plan import upstream_held
from incremental_assets.plan.due import with_downstream
from incremental_assets.query import query
from incremental_assets.settings import Settings
from incremental_assets.table import Table

BEST = 5
_SOLD: dict[str, pl.DataType | type[pl.DataType]] = {
    "dt": pl.Date,
    "product_id": pl.String,
    "revenue": pl.Decimal(38, 4),
    "units": pl.Int64,
    "orders": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class LoadedDay:
    """What the loads of a table's day did together; of a batch of several days its share of them.

    Rows in count from the day's last rebuild on, each once: a replay reads rows again, and so does
    whatever loads a day that was held. Rows out are those that the table has of the day, of bronze
    those that the loads brought; `quarantined` are in quarantine now. `state` is that of the last
    load.
    """

    day: date
    table: str
    rows_in: int
    rows_out: int
    quarantined: int
    late: int
    seconds: float
    state: str


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """What the loads of a table did together: sums over the `days` that were published.

    `held` are days that its gate holds, `waiting` those that wait for a held day of an upstream.
    """

    table: str
    days: int
    rows_in: int
    rows_out: int
    quarantined: int
    late: int
    seconds: float
    held: tuple[date, ...]
    waiting: tuple[date, ...]


@dataclass(frozen=True, slots=True)
class HeldDay:
    """A day that a gate holds: by which rules, and which tables wait for it."""

    table: str
    day: date
    held_by: str
    waiting: tuple[str, ...]


def loaded_days(
    settings: Settings, tables: Sequence[Table], days: DayRange | None
) -> list[LoadedDay]:
    """What was loaded, by day, then by table in the order of loading. Creates no ledger."""
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    found: list[LoadedDay] = []
    for table in tables:
        by_day: dict[date, list[Entry]] = {}
        sizes: dict[int, int] = {}
        there: Counter[date | None] = Counter()
        for _, of, rows in rows_by_file(f"{settings.lake}/{table.name}", "dt"):
            there[of] += rows
        rejected = days_in_quarantine(settings, table, QuarantineFilter(days))
        for entry in view.table(table.name).loads:
            by_day.setdefault(entry.day, []).append(entry)
            sizes[entry.batch] = sizes.get(entry.batch, 0) + 1
        found += [
            _loaded(table.name, day, entries, sizes, there[day], rejected.get(day, 0))
            for day, entries in by_day.items()
            if days is None or day in days
        ]
    return sorted(found, key=lambda loaded: loaded.day)


def by_table(
    settings: Settings, tables: Sequence[Table], loaded: Sequence[LoadedDay]
) -> list[LoadedTable]:
    """The same by table: sums over its days, and the days that are missing and why."""
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    days = sorted({each.day for each in loaded})
    found: list[LoadedTable] = []
    for table in tables:
        own = [each for each in loaded if each.table == table.name]
        held = tuple(day for day in days if day in view.table(table.name).held)
        waiting = [day for day in days if day not in held and upstream_held(table, day, view)]
        if own or waiting:
            found.append(
                LoadedTable(
                    table=table.name,
                    days=sum(each.state == "committed" for each in own),
                    rows_in=sum(each.rows_in for each in own),
                    rows_out=sum(each.rows_out for each in own),
                    quarantined=sum(each.quarantined for each in own),
                    late=sum(each.late for each in own),
                    seconds=round(sum(each.seconds for each in own), 3),
                    held=held,
                    waiting=tuple(waiting),
                )
            )
    return found


def held_days(settings: Settings, tables: Sequence[Table], days: DayRange | None) -> list[HeldDay]:
    """The days that a gate holds and nobody accepted, and the tables that wait for each."""
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    return [
        HeldDay(
            table.name,
            day,
            entry.held_by,
            tuple(other.name for other in with_downstream(table, tables)[1:]),
        )
        for table in tables
        for day, entry in sorted(view.table(table.name).held.items())
        if (days is None or day in days) and day not in view.table(table.name).accepted
    ]


def revenue_by_day(settings: Settings, days: DayRange | None) -> pl.DataFrame:
    """`day`, `revenue` and `orders` of each day that gold has, in the order of the days."""
    sold = _sold(settings, days)
    return sold.group_by(day="dt").agg(pl.sum("revenue"), pl.sum("orders")).sort("day")


def best_products(settings: Settings, days: DayRange | None) -> pl.DataFrame:
    """The products with the most revenue: `product`, `product_id`, `revenue`, `units`, `orders`."""
    best = (
        _sold(settings, days)
        .group_by("product_id")
        .agg(pl.sum("revenue"), pl.sum("units"), pl.sum("orders"))
        .sort(["revenue", "product_id"], descending=[True, False])
        .head(BEST)
    )
    names = product_names(settings, best["product_id"].to_list())
    named = [names.get(number, f"Product {number}") for number in best["product_id"]]
    return best.select(pl.Series("product", named, dtype=pl.String), pl.all())


def _sold(settings: Settings, days: DayRange | None) -> pl.DataFrame:
    table = open_table(f"{settings.lake}/gold/daily_product_sales")
    if table is None:
        return pl.DataFrame(schema=_SOLD)
    sold = query(table, ", ".join(_SOLD))
    return sold if days is None else sold.filter(pl.col("dt").is_between(days.first, days.last))


def product_names(settings: Settings, products: Collection[str]) -> dict[str, str]:
    """The type and size of each product; its number too, where two have the same."""
    table = open_table(f"{settings.lake}/silver/products")
    if table is None:
        return {}
    columns = "product_id, product_type, package_size"
    names = {
        product: " ".join(filter(None, (kind, size))).title()
        for product, kind, size in query(table, columns).iter_rows()
        if product in products and kind
    }
    shared = Counter(names.values())
    return {p: f"{name} ({p})" if shared[name] > 1 else name for p, name in names.items()}


def _loaded(
    name: str,
    day: date,
    entries: Sequence[Entry],
    batch_days: dict[int, int],
    there: int,
    rejected: int,
) -> LoadedDay:
    since = [e for e in entries if e.state != "abandoned"]
    rebuilt = max((i for i, e in enumerate(since) if e.mode == "rebuild"), default=0)
    loads = [e for e in since[rebuilt:] if e.kind != "replay"]
    counted = [e for e in loads if e.state != "held" or e is loads[-1]]
    brought = sum(t.rows for e in counted for t in e.touched)
    return LoadedDay(
        day=day,
        table=name,
        rows_in=sum(e.rows_read for e in counted),
        rows_out=brought if name.startswith("bronze/") else there,
        quarantined=rejected,
        late=sum(e.rows_late for e in counted),
        seconds=round(sum(e.seconds / batch_days[e.batch] for e in since), 3),
        state=(since or entries)[-1].state,
    )
