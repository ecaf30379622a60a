"""`gate`: accepting held days."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date

from incremental_assets.cli.context import lakehouse_and_table
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAY, JSON_OBJECT, NAME, REASON
from incremental_assets.cli.output import OUT, show_object


@main.group()
def gate() -> None:
    """The gates: accepting what they held."""


@gate.command("accept")
@NAME
@DAY
@REASON
@JSON_OBJECT
def gate_accept(name: str, day: date, reason: str, *, as_json: bool) -> None:
    """Accept a day's held batch, once: its rules on days do not hold it.

    The next run of the day publishes it. Rows in quarantine stay there. If the input changes
    before that run, the gate judges the day as usual.
    """
    from incremental_assets.operations.accept import accept

    table, lakehouse = lakehouse_and_table(name)
    done = accept(lakehouse, table, day, reason)
    if as_json:
        show_object({"table": name, **asdict(done)})
        return
    days = ", ".join(map(str, done.days))
    OUT.print(
        f"{name} {days}: batch {done.batch} is accepted, which was held by "
        f"{', '.join(done.rules)}. `incremental-assets run` loads it, "
        "and what is built on it.",
        soft_wrap=True,
    )
