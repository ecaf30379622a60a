"""The last day that anything is known of: it has landed, was loaded, or is in a source's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import chain

from deltalake.exceptions import DeltaError
from pyarrow.lib import ArrowException

from incremental_assets.errors import NothingThereError
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.settings import Settings
from incremental_assets.table import Table


def last_known_day(tables: Sequence[Table], settings: Settings, before: date) -> date | None:
    """The last day of these tables, if it is known without Spark and lies before a day; else None.

    The day folders that have landed and the ledger are asked first, so that the files of other
    sources are listed only where all of those days lie before. Raises SourceError and LedgerError.
    """
    tables = list({table.name: table for table in _with_upstreams(tables)}.values())
    bronze = [table for table in tables if not table.upstreams]
    last: date | None = None
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    for day in chain(
        _landed(bronze, settings, view), _in_ledger(tables, view), _in_files(bronze, settings)
    ):
        if day is None or day >= before:
            return None
        if day >= settings.start_date:
            last = max(day, last or day)
    return last


def _with_upstreams(tables: Iterable[Table]) -> Iterator[Table]:
    """The tables, and what they are built on: a day that those have is one to come here."""
    for table in tables:
        yield table
        yield from _with_upstreams(read.table for read in table.upstreams)


def _landed(bronze: Sequence[Table], settings: Settings, view: LedgerView) -> Iterator[date | None]:
    for table in bronze:
        yield from table.landed_days(settings.landing, view.table(table.name)) or ()


def _in_ledger(tables: Sequence[Table], view: LedgerView) -> Iterator[date | None]:
    """The days that were loaded, and those that have rows that nobody has read yet."""
    for table in tables:
        history = view.table(table.name)
        yield from history.last_committed
        yield from history.held
        yield from history.touching


def _in_files(bronze: Sequence[Table], settings: Settings) -> Iterator[date | None]:
    """The last day that each file of a source may hold rows of; None where nobody knows."""
    for table in bronze:
        source = table.source_in(settings.landing)
        if source is None:
            continue
        column = table.landing_column
        try:
            fixed = source.fix()
            spans = fixed.day_spans(column) if column else None
        except NothingThereError:
            continue
        except (ArrowException, DeltaError, OSError):
            spans = None
        if spans is None or any(span.dayless != "none" for span in spans):
            yield None
        yield from (span.last for span in spans or ())
