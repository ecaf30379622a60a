"""Failures of Dagster's steps, with what an alert may contain of them."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Mapping, Sequence

import dagster as dg

from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.operations.failure_texts import HELD, REFUSED, error_in_brief

BRIEF = "incremental_assets/in_brief"
_FRAME = re.compile(r'File "(.+)", line (\d+)')
_OF_OTHERS = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def failure(text: str, brief: str, **metadata: list[str]) -> dg.Failure:
    """A failure that Dagster does not retry, with what an alert may contain of it."""
    return dg.Failure(text, metadata={BRIEF: brief, **metadata}, allow_retries=False)


def failure_of(error: IncrementalAssetsError) -> dg.Failure:
    """An error that the project raised on purpose; in brief it is what its kind means."""
    return failure(str(error), error_in_brief(error))


def why_step_failed(event: dg.DagsterEvent, run_id: str) -> str:
    """The message of a step's failure; of an unforeseen error its class, message and line."""
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    if data.error is None:
        return f"{_step(event)} failed; the log of run {run_id} shows why."
    error = data.error.cause or data.error  # Dagster wraps what a step raises
    what = (line for line in error.message.splitlines() if line and not line.startswith(" "))
    where = _line_of_code(error.stack)
    return (
        f"{_step(event)}: {next(what, error.cls_name)}{f' ({where})' if where else ''}. The log of "
        f"run {run_id} has the traceback."
    )


def _step(event: dg.DagsterEvent) -> str:
    """The name of a step; of an asset that is its table."""
    return (event.step_key or "").replace("__", "/")


def _line_of_code(stack: Sequence[str]) -> str:
    """The innermost line of a traceback that is not of Python or an installed package."""
    frames = [found.groups() for found in map(_FRAME.search, stack) if found]
    own = [frame for frame in frames if not frame[0].startswith(_OF_OTHERS)]
    return next((f"{file}, line {line}" for file, line in reversed(own or frames)), "")


def says_only_what_is_held(metadata: Mapping[str, dg.MetadataValue]) -> bool:
    """Whether a failure is only that the table's own gate holds days."""
    return HELD in metadata and REFUSED not in metadata


def brief_of(metadata: Mapping[str, dg.MetadataValue]) -> str:
    """What an alert may contain of a failure, from its metadata; "" if there is nothing."""
    brief = metadata.get(BRIEF)
    return str(brief.value) if brief is not None else ""
