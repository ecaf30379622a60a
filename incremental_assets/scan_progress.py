"""How far a long inspection has come, shown by whoever waits for it.

What inspects knows no screen: it counts, and what is around it decides where that is shown. On its
own it is lines of the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from rich.console import Console

Step = Callable[[int], None]
"""Takes how many are done by now."""
_SILENT_SECONDS = 10.0  # before each line
_SHORT_SECONDS = 0.5  # before there is a bar: most inspections are done by then


class ProgressDisplay(Protocol):
    """Shows, while a block goes on, how many of so many are done."""

    def __call__(self, what: str, of: int, unit: str) -> AbstractContextManager[Step]: ...


def in_lines(log: Callable[[str], None]) -> ProgressDisplay:
    """A line now and then."""

    @contextmanager
    def shown(what: str, of: int, unit: str) -> Iterator[Step]:
        started = logged_at = time.monotonic()

        def step(done: int) -> None:
            nonlocal logged_at
            now = time.monotonic()
            if 0 < done < of and now - logged_at >= _SILENT_SECONDS:
                logged_at = now
                left = (now - started) / done * (of - done)
                log(f"{what}: {done:,} of {of:,} {unit}, about {left:,.0f} s more")

        yield step

    return shown


def on_screen(console: Console) -> ProgressDisplay:
    """A bar on a terminal, which goes away with the block; lines elsewhere."""
    if not console.is_terminal:
        return in_lines(lambda line: console.print(line, soft_wrap=True))

    @contextmanager
    def shown(what: str, of: int, unit: str) -> Iterator[Step]:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        counts = TextColumn(f"{{task.completed:,}} of {{task.total:,}} {unit}", markup=False)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            counts,
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=console, transient=True)
        task, started = bar.add_task(what, total=of), time.monotonic()

        def step(done: int) -> None:
            if not bar.live.is_started and time.monotonic() - started > _SHORT_SECONDS:
                bar.start()
            bar.update(task, completed=done)

        try:
            yield step
        finally:
            if bar.live.is_started:
                bar.stop()

    return shown


_LOG = logging.getLogger("incremental_assets")
_shown: ContextVar[ProgressDisplay | None] = ContextVar("shown", default=None)


@contextmanager
def showing(how: ProgressDisplay) -> Iterator[None]:
    """Inside, what counts is shown like this."""
    before = _shown.set(how)
    try:
        yield
    finally:
        _shown.reset(before)


def counting(what: str, of: int, unit: str) -> AbstractContextManager[Step]:
    """Inside, a function that takes how many are done by now."""
    shown = _shown.get() or in_lines(_LOG.info)
    return shown(what, of, unit)
