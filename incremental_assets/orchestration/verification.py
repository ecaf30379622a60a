"""Verifying tables as a job: the result shows on the assets, and a difference fails the run."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from incremental_assets.catalog import table_named
from incremental_assets.days import DayRange, named, parse_days
from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.view import LedgerView
from incremental_assets.orchestration.failures import failure
from incremental_assets.orchestration.manual_jobs import JobStep, ManualJob
from incremental_assets.plurals import counted
from incremental_assets.table import Table
from incremental_assets.verifying import Verified, verify

_MOST_DAYS = 100


class VerifyConfig(dg.Config):
    """What is to be compared with a full rebuild."""

    tables: list[str] = Field(
        [], description="Tables, such as silver/sales; all that were loaded if it is empty."
    )
    days: str = Field(
        "", description="A day or a range, such as 2017-01-01...2017-01-31; all if it is empty."
    )


def _verify(step: JobStep) -> Iterator[Any]:
    done: list[Verified] = []
    config, lakehouse = step.config, step.lakehouse
    days = parse_days(config.days) if config.days else None
    chosen = [table_named(lakehouse.tables, name) for name in config.tables]
    view = lakehouse.ledger.view_if_any()
    for table in chosen or lakehouse.tables:
        left_out = "" if chosen else _why_left_out(table, view, days)
        if left_out:
            step.context.log.info(f"Left out: {table.name} {left_out}.")
            continue
        found = verify(lakehouse, table, days)
        yield dg.AssetObservation(step.naming.key(table), metadata=_metadata(found))
        step.context.log.info(_in_words(found))
        done.append(found)
    if not done:
        raise DefinitionError(
            "There is nothing to verify: no table has any of the days. `incremental-assets run` "
            "loads what is due."
        )
    different = [found for found in done if not found.equal]
    if different:
        raise failure(" ".join(map(_in_words, different)), " ".join(map(_in_brief, different)))


VERIFY = ManualJob(
    name="verify",
    op="verify_tables",
    description="Prove that tables are what a full rebuild makes of them, row by row. Nothing in "
    "the lake is changed. Where no table is named, those without any of the days are left out, and "
    "those whose source keeps no earlier state. "
    "The run fails where a row is missing, extra or different.",
    op_description="Rebuilds each table from bronze in a scratch lake, and compares the rows.",
    config=VerifyConfig,
    run=_verify,
)


def _why_left_out(table: Table, view: LedgerView, days: DayRange | None) -> str:
    """Why nothing of a table that was not named can be compared; "" where something can."""
    loaded = view.table(table.name).last_committed
    if not any(days is None or day in days for day in loaded):
        return "has none of the days" if loaded else "was never loaded"
    return table.why_not_again and f"cannot be rebuilt: {table.why_not_again}"


def _in_brief(found: Verified) -> str:
    return f"{found.table}: {counted(found.differences, 'row')} different from a full rebuild."


def _in_words(found: Verified) -> str:
    if not found.rebuilt:
        return f"{found.table}: nothing was compared, {named(found.left_out)} are left out."
    if found.equal:
        return f"{found.table}: {counted(found.rows.rows, 'row')} equal to a full rebuild."
    columns = ", ".join(f"{name} in {count}" for name, count in found.rows.columns.items())
    return (
        f"{found.table}: {found.differences:,} of "
        f"{counted(found.rows.rows + found.quarantine.rows, 'row')} different from a full rebuild"
        f"{': ' + columns if columns else ''}."
    )


def _metadata(found: Verified) -> Mapping[str, Any]:
    """The result: rows that were compared and those that differ, by day."""
    days = [
        dg.TableRecord(
            {
                "day": str(day.day),
                "rows": day.compared,
                "missing": day.missing,
                "extra": day.extra,
                "different": day.different,
            }
        )
        for day in found.rows.days[:_MOST_DAYS]
    ]
    kinds = {"day": "string", **dict.fromkeys(("rows", "missing", "extra", "different"), "int")}
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in kinds.items()])
    return {
        "verified/equal": found.equal and bool(found.rebuilt),
        "verified/rows": found.rows.rows,
        "verified/differences": found.differences,
        "verified/days_left_out": len(found.left_out),
        "verified/version": found.version,
        "verified/seconds": found.seconds,
        "verified/by_day": dg.TableMetadataValue(days, schema),
        "verified/notes": "; ".join((*found.rows.examples, *found.notes)) or "none",
    }
