"""No bad row and no row of a held day can be read in silver or gold, however a load was started.

A rule of each severity stands in each layer in which it may (`gated_shop`), and the tables are loaded
in each way that there is: one bad order among four, on the bad day of each way. Then gold alone is
asked for in each way, the sensor for stale days asks for what is left, and `incremental-assets run`
finds nothing but the held days. Everything is loaded once; the
tests read what came of it.

A rule that warns stops nothing, so one chain of tables has it in all layers, and the chains of rules
that do begin with its tables. Two of the nine cannot be: bronze keeps every line, and what gold makes
is made of good rows, so neither quarantines rows; a table that says so is refused when it is defined.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.days import parse_days
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.orchestration.requests import ASKED_FOR
from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets_tests.end_to_end.dagster_dev import dagster_dev
from incremental_assets_tests.end_to_end.gates import (
    CHAINS,
    FAILING,
    GOLD,
    LAYERS,
    MODULE,
    PACKAGE,
    RANGE,
    TABLES,
    WAYS,
    Chain,
    Gates,
    Way,
    orders,
)
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.thorough import thorough

pytestmark = thorough(
    "scenarios/test_gate.py, feeds/test_rules.py, feeds/test_gold_days.py, "
    "feeds/test_gate_of_other_days.py, end_to_end/test_command_line.py: a range with a held day"
)


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[Gates]:
    """All tables loaded in all ways, then gold alone, in a shop and a `dagster dev` of its own."""
    folder = tmp_path_factory.mktemp("gates")
    settings = Settings(
        lake=str(folder / "lake"),
        landing=str(folder / "landing"),
        start_date=date(2017, 1, 1),
        cache=PROJECT_ROOT / ".cache",
    )
    shop = Shop(folder, settings)
    shop.env |= {
        "INCREMENTAL_ASSETS_TABLES": PACKAGE,
        "PYTHONPATH": str(PROJECT_ROOT),
        "GATED_SHOP_REQUESTS": str(folder / "requests"),
        "INCREMENTAL_ASSETS_SENSOR_SECONDS": "2",
        "SPARK_REMOTE": server,
    }
    (folder / "requests").mkdir()
    for way in WAYS:
        for day in way.days:
            landed = folder / "landing" / "orders" / day / "orders.jsonl"
            landed.parent.mkdir(parents=True)
            lines = map(json.dumps, orders(day, bad=day == way.bad))
            landed.write_text("".join(f"{line}\n" for line in lines))
    with dagster_dev(shop, "-m", MODULE) as web, shop.instance() as instance:
        gates = Gates(shop, web, instance)
        gates.ask(TABLES)
        gates.ask(GOLD)
        gates.let_the_sensor_ask()
        gates.do_what_is_due()
        yield gates


every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
every_chain = pytest.mark.parametrize("chain", CHAINS, ids=str)


@every_way
@every_chain
def test_only_what_passed_the_gates_can_be_read(gates: Gates, way: Way, chain: Chain) -> None:
    for rows in (*(loaded.rows for loaded in gates.rounds), gates.in_the_end):
        for layer in ("silver", "gold"):
            found = rows.get(chain.table(layer), {}).get(way.bad, [])
            assert found == chain.readable(layer, way.bad, bad=True), chain.table(layer)


@every_chain
def test_good_days_of_a_range_are_published_next_to_a_bad_one(gates: Gates, chain: Chain) -> None:
    together = gates.rounds[0].rows
    for day in set(RANGE.days) - {RANGE.bad}:
        for layer in ("silver", "gold"):
            table = chain.table(layer)
            whole = chain.readable(layer, day, bad=False)
            is_skipped = chain in FAILING and LAYERS.index(layer) > LAYERS.index(chain.layer)
            assert together.get(table, {}).get(day, []) == ([] if is_skipped else whole), table
            assert gates.in_the_end[table][day] == whole, table


def test_the_command_line_says_so_by_its_exit_status(gates: Gates) -> None:
    assert gates.exits == [1, 1]


def test_what_was_skipped_below_the_good_days_is_due_and_the_held_days_are_named(
    gates: Gates,
) -> None:
    assert gates.due is not None
    assert gates.due.returncode == 3
    for way in WAYS:
        for chain in FAILING:
            assert f"{chain.judged} {way.bad}" in gates.due.stderr
    assert gates.rounds[1].rows != gates.in_the_end


def test_the_sensor_asks_once_for_what_is_stale_below_the_good_days(gates: Gates) -> None:
    asked = [run.tags[ASKED_FOR] for run in gates.asked_for]

    assert {run.status for run in gates.asked_for} == {dg.DagsterRunStatus.SUCCESS}
    assert len(set(asked)) == len(asked)
    good = {day for day in RANGE.days if day != RANGE.bad}
    assert {run.tags[RANGE_START] for run in gates.asked_for} == good
    assert {run.tags[RANGE_END] for run in gates.asked_for} == good
    assert gates.due is not None
    assert gates.due.stdout.strip() == ""


@every_way
def test_the_run_fails_and_names_the_held_days_and_no_others(gates: Gates, way: Way) -> None:
    together = gates.rounds[0]

    assert {run.status for run in together.runs[way.name]} == {dg.DagsterRunStatus.FAILURE}
    assert sorted(together.failures[way.name]) == sorted(
        f"{chain.judged}: {way.bad} not published. {way.bad}: {chain.rule}: {chain.found}. "
        f"{chain.remedy(way.bad)}"
        for chain in FAILING
    )


@every_way
def test_gold_alone_is_refused_as_long_as_a_day_above_it_is_held(gates: Gates, way: Way) -> None:
    view = Ledger(ledger_path(gates.shop.settings.lake)).view()
    alone = gates.rounds[1]

    expected = []
    for chain in FAILING:
        why = f"{chain.rule}: {chain.found}"
        remedy = f" {chain.remedy(way.bad)}" if chain.layer == "gold" else ""
        if chain.layer != "gold":
            batch = view.table(chain.judged).held[date.fromisoformat(way.bad)].batch
            why = (
                f"{chain.judged} {way.bad} is held since batch {batch}: {why}. "
                "Repair its input, or accept it, and run that day again"
            )
        expected.append(f"gold/{chain.name}: {way.bad} not published. {way.bad}: {why}.{remedy}")
    assert sorted(alone.failures[way.name]) == sorted(expected)
    assert {run.status for run in alone.runs[way.name]} == {dg.DagsterRunStatus.FAILURE}


@every_way
@every_chain
def test_the_check_is_recorded_for_its_day_and_on_the_partition_of_a_bad_one(
    gates: Gates, way: Way, chain: Chain
) -> None:
    checks = evaluations(gates.instance, chain.judged, chain.rule)

    for day in way.days:
        check = checks[day]
        severity = "ERROR" if chain.severity == "fail" else "WARN"
        assert (check.passed, check.severity.value) == (day != way.bad, severity)
        assert check.blocking == (chain.severity == "fail")
    assert checks[way.bad].partition == way.bad
    assert checks[way.bad].description == f"{way.bad}: {chain.found}"


@every_way
@pytest.mark.parametrize("chain", FAILING, ids=str)
def test_a_day_that_is_not_there_is_green_nowhere(gates: Gates, way: Way, chain: Chain) -> None:
    below = LAYERS[LAYERS.index(chain.layer) :]
    for layer in below:
        key = dg.AssetKey([layer, chain.name])
        green = gates.instance.get_materialized_partitions(key)
        assert way.bad not in green
        assert set(way.days) - {way.bad} <= green
    if chain.layer != "gold":
        refused = evaluations(gates.instance, f"gold/{chain.name}", "row_count")[way.bad]
        assert not refused.passed
        assert f"{chain.judged} {way.bad} is held since batch" in str(refused.description)


@every_way
def test_a_held_landing_day_leaves_its_lines_out_of_bronze(gates: Gates, way: Way) -> None:
    found = lines(f"{gates.shop.settings.lake}/bronze/fail_bronze")

    assert {day: found.get(day, 0) for day in way.days} == {
        day: 0 if day == way.bad else 3 for day in way.days
    }


def test_what_is_quarantined_is_in_quarantine_and_nothing_else_is(gates: Gates) -> None:
    folder = Path(gates.shop.settings.lake) / "quarantine"

    assert [path.name for path in folder.iterdir()] == ["silver_quarantine_silver"]
    quarantined = pl.read_delta(str(folder / "silver_quarantine_silver"))
    found = sorted(
        (str(day), json.loads(row)["id"], tuple(reasons))
        for day, row, reasons in quarantined.select("_day", "row", "reasons").iter_rows()
    )
    assert found == sorted((way.bad, f"{way.bad} 3", ("amount_at_least_0",)) for way in WAYS)


def evaluations(
    instance: dg.DagsterInstance, table: str, rule: str
) -> Mapping[str, dg.AssetCheckEvaluation]:
    """By day, what the event log holds last of a check."""
    history = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(dg.AssetKey(table.split("/")), rule), limit=1000
    )
    found: dict[str, dg.AssetCheckEvaluation] = {}
    for record in history:  # newest first
        evaluation = record.evaluation
        if record.partition and isinstance(evaluation, dg.AssetCheckEvaluation):
            for day in (record.partition, *same_days(evaluation)):
                found.setdefault(day, evaluation)
    return found


def same_days(evaluation: dg.AssetCheckEvaluation) -> Iterator[str]:
    """The other days of a load on which a rule found the same."""
    spans = evaluation.metadata.get("same_on")
    for span in str(spans.value).split(", ") if spans is not None else ():
        yield from map(str, parse_days(span))


def lines(path: str) -> Mapping[str, int]:
    """Landing day → number of lines, as the log of a bronze table has them."""
    files = pl.DataFrame(DeltaTable(path).get_add_actions(flatten=True))
    found: dict[str, int] = {}
    for day, rows in files.select("partition._landing_day", "num_records").iter_rows():
        found[str(day)] = found.get(str(day), 0) + rows
    return found
