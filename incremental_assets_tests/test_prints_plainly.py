"""What a feed, a file or an error says is printed as it is: no markup, nothing that steers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from incremental_assets.cli import main
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.console import console
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did

HOSTILE = "[red]x[/red] [/] :warning: [link=http://evil]y[/link] \x1b[2J\x9b2J\r\u202e."
SHOWN = r"[red]x[/red] [/] :warning: [link=http://evil]y[/link] \x1b[2J\x9b2J\r\u202e."


@pytest.fixture
def command(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command on a lake in which a batch was held by what a feed is full of."""
    ledger = Ledger(ledger_path(settings.lake))
    held = replace(did(SALES, 1, 5, state="held"), held_by=f"x: {HOSTILE}", why=HOSTILE)
    for entry in (did(EVENTS, 1, 5), held):
        ledger.transact_on(entry.table, lambda _, e=entry: [e])  # type: ignore[misc]
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    monkeypatch.setenv("COLUMNS", "2000")
    return lambda *words: CliRunner().invoke(main, words)


def test_a_table_of_batches_shows_what_a_feed_says(command: Callable[..., Result]) -> None:
    done = command("batches", "silver/sales")

    assert done.exit_code == 0, done.exception
    assert SHOWN in done.output
    assert not set("\x1b\x9b\r\u202e") & set(done.output)


def test_lines_of_a_plan_show_what_a_feed_says(command: Callable[..., Result]) -> None:
    done = command("plan", "silver/sales", "gold/sales_mart")

    assert done.exit_code == 0, done.exception
    assert SHOWN in done.output
    assert not set("\x1b\x9b\r\u202e") & set(done.output)


@pytest.mark.parametrize(
    "words", [("plan",), ("stale",), ("verify",), ("gate", "accept", "--reason", "r")], ids=str
)
def test_an_error_is_reported_in_the_very_words_that_were_given(
    command: Callable[..., Result], words: tuple[str, ...]
) -> None:
    last = ("2017-01-05",) if "gate" in words else ()
    done = command(*words, "[/] [red]\x1b[2J", *last)

    assert isinstance(done.exception, SystemExit)
    assert done.exit_code > 0
    assert r"Error: There is no table '[/] [red]\x1b[2J'" in done.output


def test_the_console_of_a_run_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    @dg.op
    def says(context) -> None:  # type: ignore[no-untyped-def]
        context.log.info(f"found {HOSTILE}")
        raise dg.Failure(f"held by {HOSTILE}")

    @dg.job(logger_defs={"console": console})
    def job() -> None:
        says()

    run_config: Mapping[str, Any] = {"loggers": {"console": {"config": {"log_level": "INFO"}}}}
    job.execute_in_process(run_config=run_config, raise_on_error=False)

    printed = capsys.readouterr().err
    assert f"found {SHOWN}" in printed
    assert f"held by {SHOWN}" in printed
    assert "\x1b[2J" not in printed


def test_a_step_that_was_stopped_is_reported_without_a_stack(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @dg.op
    def loads() -> None:
        raise dg.DagsterExecutionInterruptedError

    @dg.job(logger_defs={"console": console})
    def job() -> None:
        loads()

    run_config: Mapping[str, Any] = {"loggers": {"console": {"config": {"log_level": "INFO"}}}}
    job.execute_in_process(run_config=run_config, raise_on_error=False)

    printed = capsys.readouterr().err
    assert "loads was stopped" in printed
    assert "Stack Trace" not in printed


@pytest.mark.parametrize("brief", [False, True])
def test_a_step_that_failed_is_named_once_and_as_its_table(
    capsys: pytest.CaptureFixture[str], brief: bool
) -> None:
    @dg.op
    def silver__sales() -> None:
        raise dg.Failure("silver/sales: 2017-01-05 not published.")

    @dg.op
    def silver__users() -> None:
        raise dg.Failure("The ledger cannot be read.")

    @dg.op(ins={"sales": dg.In(dg.Nothing)})
    def gold__mart() -> None:
        pass

    @dg.job(logger_defs={"console": console})
    def job() -> None:
        gold__mart(silver__sales())
        silver__users()

    config = {"log_level": "INFO", "brief": brief}
    run_config: Mapping[str, Any] = {"loggers": {"console": {"config": config}}}
    job.execute_in_process(run_config=run_config, raise_on_error=False)

    printed = capsys.readouterr().err
    assert ("FAILED silver/sales: 2017-01-05 not published." in printed) is not brief
    assert ("FAILED silver/users: The ledger cannot be read." in printed) is not brief
    assert (" silver/sales failed\n" in printed) is brief
    assert " gold/mart waits for a table that it reads\n" in printed
    assert "Not executing" not in printed
    assert "xecution of run" not in printed  # the command says how it ended


def check(rule: str, day: int | None, found: str, **numbers: int | str) -> dg.AssetCheckEvaluation:
    """An evaluation that failed: a warning, on a day or on all that are held."""
    partition = None if day is None else f"2017-01-0{day}"
    metadata = {"found": found, **numbers} if day is not None else numbers
    return dg.AssetCheckEvaluation(
        dg.AssetKey("sales"),
        rule,
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
        partition=partition,
        description=found,
    )


def test_a_rule_on_rows_that_failed_on_several_days_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    specs = [dg.AssetCheckSpec(name, asset="sales") for name in ("not_null", "share", "fresh")]

    @dg.asset(check_specs=specs)
    def sales() -> Iterator[Any]:
        yield check("not_null", 1, "2 of 700 rows failed", broken=2, rows=700)
        yield check("share", 1, "9 % of the rows", value=9)
        yield check("not_null", 2, "1 of 800 rows failed", broken=1, rows=800)
        yield check("share", None, "2017-01-01: held, since batch 1", held="2017-01-01")
        yield check("fresh", None, "2017-01-03: held, since batch 1", held="2017-01-03")
        raise dg.Failure("sales: 2017-01-01 not published.")

    made = dg.Definitions([sales], loggers={"console": console})
    run_config = {"loggers": {"console": {"config": {"log_level": "INFO"}}}}
    job = made.resolve_implicit_global_asset_job_def()
    job.execute_in_process(run_config=run_config, raise_on_error=False)

    printed = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[2] for line in printed[:3]] == [
        "sales 2017-01-01...2017-01-02: not_null: 3 of 1,500 rows failed",
        "sales 2017-01-01: share: 9 % of the rows",
        "sales: fresh: 2017-01-03: held, since batch 1",
    ]


@pytest.mark.parametrize("words", [("batches",), ("plan",), ("quarantine", "show", "silver/sales")])
def test_a_limit_below_zero_is_refused(
    command: Callable[..., Result], words: tuple[str, ...]
) -> None:
    done = command(*words, "--limit", "-1")

    assert done.exit_code == 2
    assert "-1 is not in the range x>=0" in done.output
