"""A lake with reports on it, that no Spark wrote: its rows, and what its reports show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
from deltalake import DeltaTable

from incremental_assets import build_definitions
from incremental_assets.catalog import tables
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.retail.reports import reports
from incremental_assets.retail.reports.figures import DAILY_SALES, PIPELINE_HEALTH
from incremental_assets.settings import Settings
from incremental_assets_tests.plan.ledgers import jan

D3, D4, D5, D6, D7 = (f"2017-01-{day:02d}" for day in range(3, 8))
BAD = "<script>alert(1)</script>\n\"'& <b>"
ROW = {"store_id": "s1", "units": 2, "orders": 1}
SOLD = (
    {"dt": jan(3), "product_id": "p1", "revenue": "12.3450", **ROW},
    {"dt": jan(3), "product_id": "p2", "revenue": "0.0001", **ROW, "store_id": "s2"},
    {"dt": jan(4), "product_id": "p1", "revenue": "99999999999999.9999", **ROW, "orders": 4},
    {"dt": jan(4), "product_id": None, "revenue": "1.0000", **ROW},
    {"dt": jan(6), "product_id": "p3", "revenue": "7.5000", **ROW},
)
RULE = "qty <script>\n'\"&"
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "span", "div"),
    *("b", "svg", "desc", "text", "rect", "path", "g", "circle", "polyline", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


class Runs:
    """Runs of the reports over a lake that no Spark wrote, and for which none may be started."""

    def __init__(
        self, settings: Settings, instance: dg.DagsterInstance, prefix: str | None = None
    ) -> None:
        self.settings, self.instance = settings, instance
        self.before = tuple(filter(None, (prefix or "").split("/")))
        made = build_definitions(tables(), settings, key_prefix=prefix, downstream=[reports])
        self.definitions = made
        self._job = made.resolve_implicit_global_asset_job_def()

    def key(self, name: str) -> dg.AssetKey:
        return dg.AssetKey([*self.before, *name.split("/")])

    def report(
        self,
        first: str,
        last: str = "",
        names: Sequence[str] = (DAILY_SALES.name, PIPELINE_HEALTH.name),
    ) -> dg.ExecuteInProcessResult:
        tags = {RANGE_START: first, RANGE_END: last} if last else {"dagster/partition": first}
        return self._job.execute_in_process(
            instance=self.instance, asset_selection=[self.key(name) for name in names], tags=tags
        )

    def shows(self, name: str, day: str) -> Mapping[str, Any]:
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(self.key(name), asset_partitions=[day]), limit=1
        ).records
        assert records[0].asset_materialization is not None
        found = records[0].asset_materialization.metadata
        return {key: getattr(value, "value", value) for key, value in found.items()}

    def stored(self, name: str = DAILY_SALES.name) -> pl.DataFrame:
        return pl.DataFrame(DeltaTable(f"{self.settings.lake}/{name}").to_pyarrow_table()).sort(
            "dt"
        )

    @property
    def page(self) -> str:
        return Path(self.settings.lake, "reports", "index.html").read_text()


def write_gold(settings: Settings, *rows: Mapping[str, Any]) -> None:
    """gold/daily_product_sales as it would be after these days, written without Spark."""
    schema = {
        "_batch": pl.Int64,
        "dt": pl.Date,
        "product_id": pl.String,
        "store_id": pl.String,
        "units": pl.Int64,
        "revenue": pl.Decimal(38, 4),
        "orders": pl.Int64,
    }
    values = [{**row, "_batch": 1, "revenue": Decimal(row["revenue"])} for row in rows]
    pl.DataFrame(values, schema).write_delta(
        f"{settings.lake}/gold/daily_product_sales",
        mode="overwrite",
        delta_write_options={"partition_by": ["dt"]},
    )


def write_names(settings: Settings, **names: str) -> None:
    """Rows of silver/products: types of products, by number."""
    rows = {"product_id": list(names), "product_type": list(names.values()), "package_size": "1 L"}
    pl.DataFrame({**rows, "dt": jan(3)}).write_delta(
        f"{settings.lake}/silver/products", delta_write_options={"partition_by": ["dt"]}
    )


def record(settings: Settings, *entries: Entry) -> None:
    ledger = Ledger(ledger_path(settings.lake))
    for entry in entries:
        ledger.transact_on(entry.table, lambda _, e=entry: [e])  # type: ignore[misc]


class Tags(HTMLParser):
    """The elements of a page, as a browser's parser finds them."""

    found: set[str]

    @classmethod
    def of(cls, page: str) -> set[str]:
        made = cls()
        made.found = set()
        made.feed(page)
        return made.found

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)


def sums(day: date) -> tuple[Decimal, int, int]:
    """What a day must sum up to, by Python's own exact numbers."""
    own = [row for row in SOLD if row["dt"] == day]
    return (
        sum((Decimal(str(row["revenue"])) for row in own), Decimal()),
        sum(int(str(row["orders"])) for row in own),
        sum(int(str(row["units"])) for row in own),
    )
