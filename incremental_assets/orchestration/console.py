"""The console log of a run: one readable line per event, a failure with its message."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from incremental_assets.days import named, parse_day
from incremental_assets.plurals import counted
from incremental_assets.screen import printable

_STOPPED = dg.DagsterExecutionInterruptedError.__name__


class _RunConsole(logging.StreamHandler[Any]):
    """Prints what helps a reader, and leaves the rest to the event log.

    Checks that failed are kept until something else happens: those of a rule on rows are one line
    for all of its days.
    """

    def __init__(self, *, brief: bool) -> None:
        super().__init__()
        self._brief = brief
        self._failed: list[Any] = []
        self._started: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        time = logging.Formatter().formatTime(record, "%H:%M:%S")
        try:
            for line in self._lines(record, time):
                self.stream.write(f"{printable(line)}\n")
            self.flush()
        except Exception:  # noqa: BLE001 - as the handlers of Python: no log ends a program
            self.handleError(record)

    def _lines(self, record: logging.LogRecord, time: str) -> Iterator[str]:
        meta = getattr(record, "dagster_meta", {}) or {}
        event = meta.get("dagster_event")
        if event is not None and event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            self._failed += [] if check.passed else [check]
            return
        yield from (f"{time} {line}" for line in _of_checks(self._failed))
        self._failed = []
        step = meta.get("step_key") or ""
        table = step.replace("__", "/")  # of an asset: its table
        message = meta.get("orig_message") or record.getMessage()
        if event is None:
            # Of a step that did not start Dagster reports one thing alone: that an upstream failed.
            not_run = step and step not in self._started and record.levelno == logging.ERROR
            yield f"{time} {f'{table} waits for a table that it reads' if not_run else message}"
        elif event.is_step_failure:
            yield self._failure(event, table, time)
        elif event.event_type is dg.DagsterEventType.STEP_START:
            self._started.add(step)
        elif event.is_step_skipped:
            yield f"{time} {message}"

    def _failure(self, event: Any, table: str, time: str) -> str:
        data = event.step_failure_data
        if data.error.cls_name == _STOPPED:
            return f"{time} {table} was stopped"
        if self._brief:
            return f"{time} {table} failed"
        failure = data.user_failure_data
        message = failure.description if failure else data.error_display_string
        is_named = table.endswith(message.partition(":")[0])  # after a prefix of the key
        return f"FAILED {message if is_named else f'{table}: {message}'}"


def _of_checks(failed: Sequence[Any]) -> Iterator[str]:
    """The lines of checks that failed, of each table and rule in the order of their first day."""
    rules: dict[tuple[str, str], list[Any]] = {}
    for check in failed:
        rules.setdefault((check.asset_key.to_user_string(), check.check_name), []).append(check)
    for (table, rule), checks in rules.items():
        of_days = [check for check in checks if check.partition]
        days = named(parse_day(check.partition) for check in of_days)
        counts = [(_number(check, "broken"), _number(check, "rows")) for check in of_days]
        if len(of_days) > 1 and all(broken and rows for broken, rows in counts):
            broken, rows = (sum(numbers) for numbers in zip(*counts, strict=True))
            yield f"{table} {days}: {rule}: {broken:,} of {counted(rows, 'row')} failed"
        else:
            yield from (f"{table} {check.partition}: {rule}: {_found(check)}" for check in of_days)
        for check in checks:  # of all days that are held, unless the lines above name them
            held = check.metadata.get("held")
            if not check.partition and held is not None and held.value != days:
                yield f"{table}: {rule}: {_found(check)}"


def _found(check: Any) -> str:
    found = check.metadata.get("found")
    return str(found.value if found is not None else check.description)


def _number(check: Any, name: str) -> int:
    return int(getattr(check.metadata.get(name), "value", 0))


@dg.logger(
    config_schema={
        "log_level": dg.Field(str, is_required=False, default_value="INFO"),
        "brief": dg.Field(
            bool,
            is_required=False,
            default_value=False,
            description="Only name a step that fails: whoever started the run prints why.",
        ),
    },
    description="Readable lines on the console.",
)
def console(init_context: dg.InitLoggerContext) -> logging.Logger:
    """Progress, and failures with their messages; whoever started the run reports how it ended."""
    logger = logging.Logger("incremental_assets", level="DEBUG")
    logger.addHandler(_RunConsole(brief=init_context.logger_config["brief"]))
    return logger
