"""A shop with a rule of each severity in each layer, and the ways to have its tables loaded."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import dagster as dg
import polars as pl
from deltalake import DeltaTable

from incremental_assets.catalog import tables_of
from incremental_assets.days import DayRange
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.partitions import RANGE_START
from incremental_assets.orchestration.requests import ASKED_FOR
from incremental_assets.plan.due import stale_tables
from incremental_assets.table import Layer
from incremental_assets_tests.end_to_end.dagster_dev import Web, until
from incremental_assets_tests.end_to_end.shop import Shop

PACKAGE = "incremental_assets_tests.end_to_end.gated_shop"
MODULE = f"{PACKAGE}.definitions"
TABLES = [table.name for table in tables_of(PACKAGE)]
GOLD = [name for name in TABLES if name.startswith("gold/")]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")
PARTITION = "dagster/partition"
WARNING = "warn"
LONG = 600  # seconds

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
            raised = failed.user_failure_data
            yield (raised.description or "") if raised else failed.error_display_string


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
