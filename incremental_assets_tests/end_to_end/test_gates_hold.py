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
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.catalog import tables_of
from incremental_assets.days import DayRange, parse_days
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.orchestration.requests import ASKED_FOR
from incremental_assets.plan.due import stale_tables
from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets.table import Layer
from incremental_assets_tests.end_to_end.dagster_dev import Web, dagster_dev, until
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.thorough import thorough

PACKAGE = "incremental_assets_tests.end_to_end.gated_shop"
MODULE = f"{PACKAGE}.definitions"
TABLES = [table.name for table in tables_of(PACKAGE)]
GOLD = [name for name in TABLES if name.startswith("gold/")]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")
PARTITION = "dagster/partition"
WARNING = "warn"
LONG = 600  # seconds

pytestmark = thorough(
    "scenarios/test_gate.py, feeds/test_rules.py, feeds/test_gold_days.py, "
    "feeds/test_gate_of_other_days.py, end_to_end/test_command_line.py: a range with a held day"
)

Rows = Mapping[str, Mapping[str, Sequence[tuple[str, int]]]]
"""Table → day → the orders that can be read, with their amounts."""


@dataclass(frozen=True)
class Chain:
    """A bronze, a silver and a gold table; the one in `layer` has a rule of that severity."""

    severity: str
    layer: Layer

    @property
    def name(self) -> str:
        return WARNING if self.severity == WARNING else str(self)

    def __str__(self) -> str:
        return f"{self.severity}_{self.layer}"

    @property
    def judged(self) -> str:
        """The table with the rule."""
        return f"{self.layer}/{self.name}"

    @property
    def rule(self) -> str:
        return "row_count" if self.layer == "bronze" else "amount_at_least_0"

    @property
    def found(self) -> str:
        """What the rule says of a bad day."""
        return "4 rows, 0 to 3 expected" if self.layer == "bronze" else "1 of 4 rows failed"

    def remedy(self, day: str) -> str:
        """What the run says to do, and which tables of the chain wait for the day."""
        accept = f"`incremental-assets gate accept {self.judged} {day} --reason …`"
        waiting = [f"{layer}/{self.name}" for layer in LAYERS[LAYERS.index(self.layer) + 1 :]]
        until = f" Until then {', '.join(waiting)} {'wait' if waiting[1:] else 'waits'}."
        said = f"Repair its input, or accept it: {accept}, and run it again."
        return said + (until if waiting else "")

    def table(self, layer: Layer) -> str:
        """The chain's table in a layer; above the rule that is one which only warns."""
        is_above = LAYERS.index(layer) < LAYERS.index(self.layer)
        return f"{layer}/{WARNING if is_above else self.name}"

    def readable(self, layer: Layer, day: str, *, bad: bool) -> Sequence[tuple[str, int]]:
        """The orders of a day that may be read in a layer, and must be there."""
        passed_it = LAYERS.index(layer) >= LAYERS.index(self.layer)
        if bad and passed_it and self.severity == "fail":
            return []
        quarantined = passed_it and self.severity == "quarantine"
        return [(o["id"], o["amount"]) for o in orders(day, bad=bad and not quarantined)]


CHAINS = [
    Chain(WARNING, "bronze"),
    Chain(WARNING, "silver"),
    Chain(WARNING, "gold"),
    Chain("quarantine", "silver"),
    Chain("fail", "bronze"),
    Chain("fail", "silver"),
    Chain("fail", "gold"),
]
FAILING = [chain for chain in CHAINS if chain.severity == "fail"]


@dataclass(frozen=True)
class Way:
    """A way to have tables loaded: who is asked, and the days that are the way's own."""

    name: str
    days: tuple[str, ...]
    bad: str


BUTTON = Way("button", ("2017-01-05",), "2017-01-05")
COMMAND = Way("command", ("2017-01-07",), "2017-01-07")
ONE_DAY = Way("backfill", ("2017-01-09",), "2017-01-09")
RANGE = Way("range", ("2017-01-11", "2017-01-12", "2017-01-13"), "2017-01-12")
SENSOR = Way("sensor", ("2017-01-15",), "2017-01-15")
WAYS = [ONE_DAY, RANGE, BUTTON, SENSOR, COMMAND]  # the daemon looks for backfills twice a minute


@dataclass(frozen=True)
class Round:
    """What came of asking in every way: the runs of each, why they failed, what can be read."""

    runs: Mapping[str, Sequence[dg.DagsterRun]]
    failures: Mapping[str, Sequence[str]]
    rows: Rows


@dataclass
class Gates:
    """The shop while it is loaded in every way, and what came of it."""

    shop: Shop
    web: Web
    instance: dg.DagsterInstance
    rounds: list[Round] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    due: subprocess.CompletedProcess[str] | None = None
    asked_for: list[dg.DagsterRun] = field(default_factory=list)
    in_the_end: Rows = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def ask(self, names: Sequence[str]) -> None:
        """Have these tables loaded in every way, each for its own days, and wait."""
        asked = {way.name: self._ways[way.name](names, way) for way in WAYS}
        found = {way.name: self._ended(way, asked[way.name]) for way in WAYS}
        failures = {
            name: [text for run in runs for text in self._failures(run)]
            for name, runs in found.items()
        }
        self._seen |= {run.run_id for runs in found.values() for run in runs}
        self.rounds.append(Round(found, failures, readable(self.shop.settings.lake)))

    def let_the_sensor_ask(self) -> None:
        """Switch on the sensor for stale days, and wait until nothing is stale."""
        tables, ledger = tables_of(PACKAGE), Ledger(ledger_path(self.shop.settings.lake))
        first, last = self.shop.settings.start_date, date(2017, 1, 31)

        def nothing_is_due() -> bool:
            due = any(stale_tables(tables, ledger.view(), first, last, DayRange(first, last)))
            self.asked_for[:] = [run for run in self.instance.get_runs() if ASKED_FOR in run.tags]
            return not due and all(run.is_finished for run in self.asked_for)

        self.web.start_sensor(MODULE, "stale_days")
        until(nothing_is_due, LONG)

    def do_what_is_due(self) -> None:
        """`incremental-assets run`"""
        self.due = self.shop.command("run")
        self.in_the_end = readable(self.shop.settings.lake)

    @property
    def _ways(self) -> Mapping[str, Callable[[Sequence[str], Way], str | None]]:
        return {
            BUTTON.name: self._by_button,
            COMMAND.name: self._by_command,
            ONE_DAY.name: self._by_backfill,
            RANGE.name: self._by_backfill,
            SENSOR.name: self._by_sensor,
        }

    def _by_button(self, names: Sequence[str], way: Way) -> None:
        self.web.materialize(MODULE, names, way.bad)

    def _by_backfill(self, names: Sequence[str], way: Way) -> str:
        return self.web.backfill(names, way.days[0], way.days[-1])

    def _by_sensor(self, names: Sequence[str], way: Way) -> None:
        folder = Path(self.shop.env["GATED_SHOP_REQUESTS"])
        half = folder / f"{len(names)}.half"
        half.write_text(json.dumps({"day": way.bad, "assets": list(names)}))
        half.rename(half.with_suffix(".json"))

    def _by_command(self, names: Sequence[str], way: Way) -> None:
        selection = " or ".join(f'key:"{name}"' for name in names)
        done = self.shop.materialize("--select", selection, "--partition", way.bad)
        self.exits.append(done.returncode)

    def _ended(self, way: Way, backfill: str | None) -> Sequence[dg.DagsterRun]:
        if backfill is not None:
            self.web.ended(backfill, LONG)
        found: list[dg.DagsterRun] = []

        def all_ended() -> bool:
            found[:] = [run for run in self.instance.get_runs() if self._is_new(run, way)]
            return bool(found) and all(run.is_finished for run in found)

        until(all_ended, LONG)
        return found

    def _is_new(self, run: dg.DagsterRun, way: Way) -> bool:
        day = run.tags.get(PARTITION) or run.tags.get(RANGE_START)
        return day in way.days and run.run_id not in self._seen

    def _failures(self, run: dg.DagsterRun) -> Iterator[str]:
        for entry in self.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
            assert entry.dagster_event is not None
            failed = entry.dagster_event.step_failure_data
            told = failed.user_failure_data
            yield (told.description or "") if told else failed.error_display_string


def orders(day: str, *, bad: bool) -> list[dict[str, object]]:
    """Three good orders of a day, and one of a negative amount."""
    amounts = (5, 7, 9, -1) if bad else (5, 7, 9)
    return [
        {"id": f"{day} {n}", "amount": amount, "at": f"{day}T10:00:00Z"}
        for n, amount in enumerate(amounts)
    ]


def readable(lake: str) -> Rows:
    """What anybody finds who reads silver and gold."""
    found: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for name in TABLES:
        path = f"{lake}/{name}"
        if not name.startswith("bronze/") and DeltaTable.is_deltatable(path):
            days = found.setdefault(name, {})
            for day, id_, amount in pl.read_delta(path).select("dt", "id", "amount").iter_rows():
                days.setdefault(str(day), []).append((id_, amount))
    return {name: {day: sorted(rows) for day, rows in days.items()} for name, days in found.items()}


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
    told = evaluation.metadata.get("same_on")
    for span in str(told.value).split(", ") if told is not None else ():
        yield from map(str, parse_days(span))


def lines(path: str) -> Mapping[str, int]:
    """Landing day → number of lines, as the log of a bronze table has them."""
    files = pl.DataFrame(DeltaTable(path).get_add_actions(flatten=True))
    found: dict[str, int] = {}
    for day, rows in files.select("partition._landing_day", "num_records").iter_rows():
        found[str(day)] = found.get(str(day), 0) + rows
    return found
