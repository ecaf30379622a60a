"""`register`: the tables in a catalog, where others find them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import polars as pl

from incremental_assets.cli.group import main
from incremental_assets.cli.options import JSON, NAMES
from incremental_assets.cli.output import OUT, bad, log, show
from incremental_assets.errors import CatalogError, EntryError, IncrementalAssetsError
from incremental_assets.locations import local_path
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.registration import Planned, Registered

_NAMES: dict[str, Any] = {"table": pl.String, "name": pl.String}
_REGISTERED = {**_NAMES, "state": pl.String, "comments": pl.Int64}
_PLANNED = {**_NAMES, "sql": pl.List(pl.String), "comments": pl.Int64}


@main.command()
@NAMES
@click.option("--dry-run", is_flag=True, help="Only print the SQL; nothing is started or changed.")
@JSON
def register(names: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
    """Register tables in a catalog, with comments.

    The catalog is INCREMENTAL_ASSETS_CATALOG, as Spark knows it. Tables become external ones:
    dropping them there removes no file. Descriptions, and those of the columns in the contract,
    become comments. Loads do the same by themselves; this is for tables that were loaded before,
    or dropped from the catalog since. The exit status is 1 if a table could not be registered.
    """
    from incremental_assets.cli.context import ledger_view, open_lakehouse, tables_named
    from incremental_assets.registration import Registration, planned, require_catalog

    settings = Settings.from_environment()
    ledger_view(settings)
    require_catalog(settings)
    tables = tables_named(names)
    if dry_run:
        plans = [planned(settings, table) for table in tables]
        if as_json:
            show(pl.DataFrame(map(asdict, plans), schema=_PLANNED), "", as_json=True)
        by = "" if local_path(settings.lake) is not None else " by its next load"
        for line in () if as_json else _script(plans, by):
            OUT.print(line, soft_wrap=True)
        return
    registration = Registration(settings, open_lakehouse().spark, log)
    done: list[Registered] = []
    failed: list[str] = []
    for table in tables:
        try:
            done.append(registration.register(table))
        except CatalogError as error:
            failed.append(str(error))
            if not isinstance(error, EntryError):  # not of this table alone: each would wait for it
                rest = len(tables) - tables.index(table) - 1
                failed += [f"{counted(rest, 'more table')} not tried."] if rest else []
                break
        except IncrementalAssetsError as error:
            failed.append(str(error))
    rows = pl.DataFrame(map(asdict, done), schema=_REGISTERED)
    show(rows, "Registered", as_json=as_json)
    for line in failed:
        bad("failed", line)
    if failed:
        sys.exit(1)


def _script(plans: Sequence[Planned], by: str) -> Iterator[str]:
    """The statements, each once, and what is no statement as comments of SQL."""
    seen: set[str] = set()
    for plan in plans:
        if not plan.sql:
            yield f"-- {plan.table} is not loaded yet."
        for statement in plan.sql:
            if statement not in seen:
                yield f"{statement};"
            seen.add(statement)
        if plan.comments:
            yield f"-- The log of {plan.table} gets {counted(plan.comments, 'comment')}{by}."
