"""Ticks of one source's sensor, over ledgers written out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg

from incremental_assets.days import DayRange
from incremental_assets.ledger.entry import Entry, State, Window
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.load_days import load_days_job
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.orchestration.source_sensors import source_sensors
from incremental_assets.plan import file_entries, plan_table
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import did, jan

LATE = datetime(2017, 1, 31, 12, tzinfo=UTC)


class Ticks:
    """Ticks of one sensor: one code server, so what it keeps between ticks it keeps here."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance, *tables: Table) -> None:
        self.settings = settings
        self.instance = instance
        self.now = LATE
        self.cursor: str | None = None
        self.table = tables[0]
        job = load_days_job(tables, executor_for(settings))
        (self._sensor,) = source_sensors(tables, settings, job, lambda: self.now)

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        found = self._sensor(context)
        self.cursor = context.cursor
        assert isinstance(found, dg.SensorResult | dg.SkipReason)
        return found

    def requests(self) -> list[dg.RunRequest]:
        found = self.tick()
        assert isinstance(found, dg.SensorResult), found
        return list(found.run_requests or ())

    def skipped(self) -> str:
        found = self.tick()
        assert isinstance(found, dg.SkipReason), found
        return found.skip_message or ""

    def ran(
        self, request: dg.RunRequest, status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE
    ) -> dg.DagsterRun:
        run = dg.DagsterRun(
            "assets",
            tags=dict(request.tags),
            status=status,
            asset_selection=frozenset(request.asset_selection or ()),
        )
        return self.instance.add_run(run)

    def ran_only(self, status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE) -> dg.RunRequest:
        """The only run that a tick requests, which then ends."""
        (request,) = self.requests()
        self.ran(request, status)
        return request

    def write(self, *entries: Entry) -> None:
        Ledger(ledger_path(self.settings.lake)).transact_on(self.table.name, lambda _: entries)

    def load(self, *days: int, state: State = "committed") -> None:
        """The ledger as a load of these days leaves it."""
        view = Ledger(ledger_path(self.settings.lake)).view()
        chosen = [jan(day) for day in days]
        number = view.table(self.table.name).last_batch
        for work in plan_table(self.table, chosen, view, self.settings, self.now.date()).work:
            number += 1
            for day, todo in work.days.items():
                entry = did(self.table, number, day.day, state=state, mode=work.mode)
                position = (
                    {"source": todo.source.fingerprint, "seen": todo.seen} if todo.source else {}
                )
                self.write(
                    replace(
                        entry,
                        files=file_entries(todo.files),
                        windows=tuple(Window(w.upstream, w.low, w.high) for w in todo.windows),
                        position=json.dumps(position) if position else "",
                    )
                )


def land(settings: Settings, day: date, name: str = "a.jsonl", content: str = "{}\n") -> Path:
    file = Path(settings.landing) / "events" / str(day) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return file


def spans(requests: list[dg.RunRequest]) -> list[str]:
    return [
        str(
            DayRange(date.fromisoformat(r.tags[RANGE_START]), date.fromisoformat(r.tags[RANGE_END]))
        )
        for r in requests
    ]
