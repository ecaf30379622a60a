"""Measure Spark Declarative Pipelines with the same job: `python -m benchmarks.pipelines`.

Both load the demo's events and users as the five tables of the scripts: bronze events and users,
silver sales and users, and the sales mart. Then a late row lands, a file is repaired, and one
order in a hundred is corrected, each followed by one more process of each of the two. After each
step the tables are compared with those that are loaded from scratch from the same landing.

What Spark 4.2 with Delta 4.4 allows decides how the pipeline (`benchmarks/declarative`) is made:

- Bronze is streaming tables over JSON files with a schema.
- Silver is materialized views. `create_auto_cdc_flow` with a Delta table fails with
  AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE: it asks for a table that implements the interface
  SupportsRowLevelOperations. Delta's tables do not, their MERGE is a rule of Delta's own; nor, by
  Spark's documentation, do Parquet's. An append flow would keep every version of an order.
- An update empties a materialized view (one commit) and writes all of it (another one).
- Spark's stream of files knows a file by its path, so it does not see that one was replaced. Where
  an update leaves silver unequal to a rebuild, a full refresh of bronze events is measured, too.

The corrections are of orders of all days, so the project rewrites nearly all files for them, too.
The pipeline makes the mart with the newest version of each user, as the scripts do, the project
with the version at the time of the sale; so the marts are each compared with their own rebuild.
The project also keeps a ledger, a quarantine and the text of each line, which the pipeline does
not. The figures go to the terminal and to `benchmarks/results/pipelines.md`. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Protocol

from benchmarks.declarative.landing import late_row, repaired_file, updated_orders
from benchmarks.declarative.pipeline import NAME, Pipeline
from benchmarks.declarative.written import Written, rows_of, sales, unequal, version, written
from benchmarks.process import CommandError, Run, adopt_orphans, run
from benchmarks.quick import BIN, SCRIPT_TABLES, Bench
from benchmarks.report import Row, Table, machine, show, write
from incremental_assets.settings import PREFIX

FIRST = date(2017, 1, 1)
PROJECT = "incremental_assets"

Change = Callable[[Path, date, date], None]
CHANGES: dict[str, Change] = {
    "one late row": late_row,
    "a repaired file": repaired_file,
    "1 % of the orders corrected": updated_orders,
}
REMEDY = "and a full refresh of bronze events"

NOTES = (
    ("auto CDC into a Delta table", "refused: AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE"),
    ("so silver and gold of the pipeline are", "materialized views, written whole by each update"),
    ("while an update writes such a view", "its readers see no row: emptying is a commit before"),
    ("a file that was replaced", "not seen by the stream: it knows files by their paths"),
    (
        "a table with a `format` of its own",
        "its second update fails, DELTA_CANNOT_CHANGE_PROVIDER; the session's default works",
    ),
)


class Contender(Protocol):
    """Something that loads what landed into tables of its own."""

    @property
    def name(self) -> str: ...
    @property
    def silver(self) -> Path: ...
    @property
    def mart(self) -> Path: ...
    def update(self, what: str) -> Run: ...
    def rebuilt(self, what: str) -> tuple[Contender, Run]: ...


@dataclass(frozen=True)
class Project:
    """The project on a lake of its own."""

    bench: Bench
    env: dict[str, str]
    name = PROJECT

    @property
    def silver(self) -> Path:
        return Path(self.env[f"{PREFIX}LAKE"], "silver", "sales")

    @property
    def mart(self) -> Path:
        return Path(self.env[f"{PREFIX}LAKE"], "gold", "sales_mart")

    def update(self, what: str) -> Run:
        """One `incremental-assets run`. Raises CommandError if it fails."""
        command: list[str | Path] = [BIN / "incremental-assets", "run", *SCRIPT_TABLES]
        return self.bench.measure(f"{PROJECT}, {what}", command, self.env)

    def rebuilt(self, what: str) -> tuple[Project, Run]:
        """Another lake, with all that landed in one run."""
        other = Project(self.bench, self.bench.fresh())
        return other, other.update(f"{what}, from scratch")


@dataclass(frozen=True)
class Outcome:
    """What a contender did in a step; the rows that differ from a rebuild, if there was one."""

    step: str
    who: str
    run: Run
    written: Written
    rebuild: Run | None = None
    silver: int = 0
    mart: int = 0


@dataclass(frozen=True)
class Agreement:
    """How the silver sales of the two compare after a step."""

    step: str
    project: int
    pipeline: int
    unequal: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure Spark Declarative Pipelines, too.")
    parser.add_argument("--days", type=int, default=31, help="days that land (default 31)")
    days = parser.parse_args().days
    adopt_orphans()
    outcomes: list[Outcome] = []
    agreements: list[Agreement] = []
    with tempfile.TemporaryDirectory(prefix="bench-pipelines-") as folder:
        bench = Bench(Path(folder), Path(folder) / "landing")
        try:
            for found in _measured(bench, FIRST, FIRST + timedelta(days=days - 1)):
                if isinstance(found, Outcome):
                    outcomes.append(found)
                else:
                    agreements.append(found)
        except CommandError as error:
            sys.exit(f"A measured command failed, so there is nothing to report.\n{error}")
    tables = [_steps(outcomes), _agreements(agreements), _notes()]
    show(tables)
    how = f"`make bench-pipelines DAYS={days}`; whole processes, once each"
    target = write("pipelines", "Spark Declarative Pipelines", how, tables, machine())
    _log(f"Written to {target}")


def _measured(bench: Bench, first: date, last: date) -> Iterator[Outcome | Agreement]:
    _land(bench, first, last)
    project, pipeline = Project(bench, bench.fresh()), Pipeline.fresh(bench)
    loaded = f"{(last - first).days + 1} days"
    for contender in (project, pipeline):
        yield _loaded(contender, loaded)
    yield _agreement(loaded, project, pipeline)
    for step, change in CHANGES.items():
        _log(f"Landing: {step}")
        change(bench.landing, first, last)
        yield _changed(project, step)[0]
        outcome, rebuilt = _changed(pipeline, step)
        yield outcome
        yield _agreement(step, project, pipeline)
        if outcome.silver:
            what = f"{step}, {REMEDY}"
            before = version(pipeline.silver)
            done = pipeline.remedy(what)
            yield _compared(what, pipeline, done, before, rebuilt, outcome.rebuild)
            yield _agreement(what, project, pipeline)


def _land(bench: Bench, first: date, last: date) -> None:
    _log(f"Landing {first} to {last} …")
    land: list[str | Path] = [
        BIN / "incremental-assets",
        "demo",
        "land",
        "--from",
        str(first),
        "--to",
        str(last),
    ]
    run(land, bench.fresh(), bench.root)


def _loaded(contender: Contender, what: str) -> Outcome:
    done = contender.update(what)
    return Outcome(what, contender.name, done, written(contender.silver, -1))


def _changed(contender: Contender, what: str) -> tuple[Outcome, Contender]:
    """Load what changed, and compare with the contender's rebuild, which is returned."""
    before = version(contender.silver)
    done = contender.update(what)
    rebuilt, rebuild = contender.rebuilt(what)
    return _compared(what, contender, done, before, rebuilt, rebuild), rebuilt


def _compared(
    what: str, mine: Contender, done: Run, before: int, other: Contender, rebuild: Run | None
) -> Outcome:
    silver = unequal(rows_of(mine.silver), rows_of(other.silver))
    mart = unequal(rows_of(mine.mart), rows_of(other.mart))
    return Outcome(what, mine.name, done, written(mine.silver, before), rebuild, silver, mart)


def _agreement(step: str, project: Project, pipeline: Pipeline) -> Agreement:
    one, other = sales(project.silver), sales(pipeline.silver)
    return Agreement(step, one.height, other.height, unequal(one, other))


def _steps(outcomes: list[Outcome]) -> Table:
    columns = (
        "step",
        "by",
        "wall s",
        "processor s",
        "peak MiB",
        "rows written to silver sales",
        "silver sales empty, s",
        "a rebuild, wall s",
        "silver sales",
        "sales mart",
    )
    table = Table("Whole processes, and the tables against a rebuild from scratch", columns)
    for each in outcomes:
        figures = [f"{each.run.wall:.1f}", f"{each.run.cpu:.1f}", f"{each.run.peak:,.0f}"]
        figures += [f"{each.written.rows:,}", f"{each.written.empty:.1f}"]
        verdicts = (
            [f"{each.rebuild.wall:.1f}", _verdict(each.silver), _verdict(each.mart)]
            if each.rebuild
            else []
        )
        table.rows.append(Row([each.step, each.who, *figures, *verdicts]))
    return table


def _verdict(unequal_rows: int) -> str:
    return f"{unequal_rows:,} rows differ" if unequal_rows else "equal"


def _agreements(agreements: list[Agreement]) -> Table:
    columns = ("after", f"rows of {PROJECT}", f"rows of {NAME}", "rows that differ")
    table = Table("Silver sales of the one against the other, row by row", columns)
    for each in agreements:
        counts = (each.project, each.pipeline, each.unequal)
        table.rows.append(Row([each.step, *(f"{count:,}" for count in counts)]))
    return table


def _notes() -> Table:
    title = "What decided how the pipeline is made (found once, with Spark 4.2.0 and Delta 4.4.0)"
    return Table(title, ("what", "found"), [Row(note) for note in NOTES])


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
