"""The console log of a run: one readable line per event, a failure with its message."""

from __future__ import annotations

import logging
import re

import dagster as dg

from incremental_assets.screen import printable

# What Dagster says of a step whose upstream failed; in other words it is printed as it is.
_NOT_RUN = re.compile(r"Dependencies for step (\S+) .*Not executing\.$", re.DOTALL)
_STOPPED = dg.DagsterExecutionInterruptedError.__name__


class _EventLines(logging.Formatter):
    def __init__(self, *, brief: bool) -> None:
        super().__init__()
        self._brief = brief

    def format(self, record: logging.LogRecord) -> str:
        return printable(self._line(record))

    def _line(self, record: logging.LogRecord) -> str:
        meta = getattr(record, "dagster_meta", {}) or {}
        event = meta.get("dagster_event")
        step = (meta.get("step_key") or "").replace("__", "/")  # of an asset: its table
        if event is not None and event.is_step_failure:
            if event.step_failure_data.error.cls_name == _STOPPED:
                return f"{self.formatTime(record, '%H:%M:%S')} {step} was stopped"
            if self._brief:
                return f"{self.formatTime(record, '%H:%M:%S')} {step} failed"
            failure = event.step_failure_data.user_failure_data
            message = (
                failure.description if failure else event.step_failure_data.error_display_string
            )
            named = step.endswith(message.partition(":")[0])  # after a prefix of the key
            return f"FAILED {message if named else f'{step}: {message}'}"
        if event is not None and event.event_type_value == "ASSET_CHECK_EVALUATION":
            check = event.asset_check_evaluation_data
            name = check.asset_key.to_user_string()
            found = check.metadata.get("found")
            result = found.value if found is not None else check.description
            of = f"{name} {check.partition}" if check.partition else name  # of all held days
            message = f"{of}: {check.check_name}: {result}"
        else:
            message = meta.get("orig_message") or record.getMessage()
            if event is None and (not_run := _NOT_RUN.match(message)):
                message = f"{not_run[1].replace('__', '/')} waits for a table that it reads"
        return f"{self.formatTime(record, '%H:%M:%S')} {message}"


class _EventFilter(logging.Filter):
    """Leaves events that do not help a reader to the event log."""

    def filter(self, record: logging.LogRecord) -> bool:
        meta = getattr(record, "dagster_meta", {}) or {}
        event = meta.get("dagster_event")
        if event is None or event.is_step_failure:
            return True
        if event.event_type_value == "ASSET_CHECK_EVALUATION":
            return not event.asset_check_evaluation_data.passed
        return event.event_type_value in ("RUN_FAILURE", "RUN_SUCCESS", "STEP_SKIPPED")


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
    """Progress, failures with their messages, and how the run ended."""
    logger = logging.Logger("incremental_assets", level="DEBUG")
    handler = logging.StreamHandler()
    handler.setFormatter(_EventLines(brief=init_context.logger_config["brief"]))
    handler.addFilter(_EventFilter())
    logger.addHandler(handler)
    return logger
