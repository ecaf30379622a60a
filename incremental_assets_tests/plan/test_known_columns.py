"""A misspelt column of a definition is named before there is anything to load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.changes.detector import Detector
from incremental_assets.cli import main, plan
from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.known_columns import require_known_columns
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.day_rules import reconciles_with
from incremental_assets.quality.rules import fail
from incremental_assets.quality.types import Decimal, Instant, Text
from incremental_assets.settings import Settings
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Sums, Table
from incremental_assets.writes import Append, ReplaceDay
from incremental_assets_tests.plan.ledgers import SALES, did

PAID = replace(SALES, schema=Contract(id=Text(), at=Instant(), amount=Decimal()))
MART = Table(
    "gold/mart", "", reads=(SameDay(PAID),), write=ReplaceDay(), transform=lambda sales: sales
)


def summed(read: str, made: str = "sum(amount)", *, code_version: str = "1") -> Table:
    return replace(MART, sums=Sums({"amount": (read, made)}), code_version=code_version)


def write(settings: Settings, table: Table, *columns: str) -> None:
    rows = pl.DataFrame({name: ["1"] for name in columns})
    path = Path(settings.lake) / table.name
    path.mkdir(parents=True)
    rows.write_delta(str(path))


def check(settings: Settings, tables: Sequence[Table], *loaded: Entry) -> None:
    by_table = {name: TableHistory(name, loaded) for name in {entry.table for entry in loaded}}
    require_known_columns(tables, tables, LedgerView(1, by_table), settings)


@pytest.mark.parametrize(
    "sql",
    [
        *("sum(amount)", "SUM(Amount)", "count(*)", "count(DISTINCT id)", "max(_batch)"),
        *("sum(CASE WHEN id = 'amuont' THEN amount ELSE 0 END)", "count_if(dt IS NULL)"),
        "sum(try_cast(`amount` AS bigint))",
    ],
)
def test_a_sum_over_columns_of_the_contract_is_taken(sql: str) -> None:
    assert summed(sql).sums is not None


def test_a_misspelt_column_in_a_sum_of_the_upstream_is_refused_by_its_contract() -> None:
    with pytest.raises(DefinitionError) as refused:
        summed("sum(amuont)")

    assert str(refused.value) == (
        "gold/mart: the sum 'amount' of its upstream is 'sum(amuont)', and the contract of "
        "silver/sales has no column 'amuont'; did you mean amount?"
    )


def test_a_misspelt_column_in_a_sum_of_the_table_is_named_as_soon_as_it_is_stored(
    settings: Settings,
) -> None:
    table = summed("sum(amount)", "sum(total_prise)")
    check(settings, [table])  # nobody knows the columns yet
    write(settings, table, "dt", "total_price")

    built = replace(did(table, 1, 2), code_version="1")
    with pytest.raises(
        DefinitionError, match=r"its own sum 'amount' .* no column 'total_prise'; did you mean"
    ):
        check(settings, [table], built)
    check(settings, [replace(table, code_version="2")], built)  # which may make the column


def test_a_misspelt_column_of_another_table_in_a_rule_that_reconciles_is_named(
    settings: Settings,
) -> None:
    rule = reconciles_with("silver/sales", {"amount": ("sum(amount)", "sum(amuont)")})
    write(settings, PAID, "dt", "amount")

    with pytest.raises(DefinitionError, match=r"silver/sales has no column 'amuont'; did you mean"):
        check(settings, [PAID, replace(MART, rules=tuple(fail(rule)))], did(PAID, 1, 2))


@pytest.mark.parametrize(
    ("changes", "missing", "near"),
    [
        (Timestamp("updated_at", deleted="delted_at"), "delted_at", "deleted_at"),
        (Timestamp("updated"), "updated", "updated_at"),
        (ChangeLog(sequence="updated_at", deleted="delted_at"), "delted_at", "deleted_at"),
        (SnapshotDiff(key=("user",)), "user", "user_id"),
    ],
    ids=["deleted", "timestamp", "log", "snapshot"],
)
def test_a_column_that_a_delta_source_does_not_have_is_named_though_nothing_is_new(
    settings: Settings, changes: Detector, missing: str, near: str
) -> None:
    table = Table("bronze/users", "", reads=(Stored("users"),), write=Append(), changes=changes)
    check(settings, [table])  # the source is not there yet
    source = Path(settings.landing) / "users"
    source.mkdir(parents=True)
    columns = ("user_id", "updated_at", "deleted_at")
    pl.DataFrame({name: ["1"] for name in columns}).write_delta(str(source))

    with pytest.raises(DefinitionError) as refused:
        check(settings, [table])

    assert str(refused.value) == (
        f"bronze/users: {type(changes).__name__} names the column {missing!r}, which {source} does "
        f"not have; did you mean {near}?"
    )


def test_a_plan_inspects_each_source_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Table(
        "bronze/orders", "", (Stored("orders", day="at"),), changes=Timestamp("at"), write=Append()
    )
    source = Path(settings.landing) / "orders"
    source.mkdir(parents=True)
    pl.DataFrame({"at": [datetime(2017, 1, 5, tzinfo=UTC)]}).write_delta(str(source))
    inspected: list[Stored] = []
    fix = Stored.fix
    monkeypatch.setattr(Stored, "fix", lambda self: inspected.append(self) or fix(self))
    monkeypatch.setattr(plan, "tables", lambda: (orders,))
    monkeypatch.setattr(plan, "tables_named", lambda _: [orders])
    monkeypatch.setenv("INCREMENTAL_ASSETS_LAKE", settings.lake)
    monkeypatch.setenv("INCREMENTAL_ASSETS_LANDING", settings.landing)

    done = CliRunner().invoke(main, ["plan", "--json"])

    assert [(row["table"], row["day"]) for row in json.loads(done.stdout)] == [
        ("bronze/orders", "2017-01-05")
    ]
    assert len(inspected) == 1
