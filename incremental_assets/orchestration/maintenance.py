"""The maintenance of the lake as a job, with a schedule that is off until it is switched on."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from incremental_assets.catalog import table_named
from incremental_assets.days import parse_days
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.maintenance import (
    STEPS,
    MaintainedTable,
    MaintenanceOptions,
    MaintenanceResult,
    maintain,
    steps_named,
)
from incremental_assets.orchestration.failures import failure
from incremental_assets.orchestration.manual_jobs import JobStep, ManualJob
from incremental_assets.orchestration.naming import Naming
from incremental_assets.plurals import counted

CRON = "30 3 * * *"


class MaintenanceConfig(dg.Config):
    """What is to be done; by default everything."""

    tables: list[str] = Field([], description="Tables, such as silver/sales; all if it is empty.")
    days: str = Field(
        "",
        description="Compact only files of a day or a range, such as 2017-01-01...2017-01-31; all "
        "days if it is empty.",
    )
    steps: list[str] = Field(
        [], description=f"Only these steps, of {', '.join(STEPS)}; all if it is empty."
    )
    dry_run: bool = Field(False, description="Only list what would be done.")


def _maintain(step: JobStep) -> Iterator[Any]:
    done = _maintained(step.config, step.lakehouse)
    own = {table.name for table in step.lakehouse.tables}
    for table in done.tables:
        if table.name in own:
            yield dg.AssetObservation(step.naming.key(table.name), metadata=_metadata(table))
    step.context.add_output_metadata(
        {
            "files_compacted_away": sum(t.files_before - t.files_after for t in done.tables),
            "files_removed": sum(t.removed for t in done.tables),
            "bytes_freed": sum(t.freed for t in done.tables),
            "rows_expired": sum(t.rows_expired for t in done.tables),
            "seconds": round(done.seconds, 3),
        }
    )
    if done.failed:
        some = f"{counted(len(done.failed), 'step')} failed; see the run's log"
        raise failure(" ".join(done.failed), f"Maintenance: {some}")


MAINTENANCE = ManualJob(
    name="maintenance",
    op="maintain_lake",
    description="Keep the lake fast and small: compact the files of each day, remove files that no "
    "table has needed for INCREMENTAL_ASSETS_VACUUM_DAYS, write checkpoints, drop what is in "
    "quarantine for longer than INCREMENTAL_ASSETS_QUARANTINE_DAYS, compact the ledger. Loads may "
    "go on meanwhile, and have precedence.",
    op_description="Compacts files, removes those that no version needs, cuts logs and ledger.",
    config=MaintenanceConfig,
    run=_maintain,
)


def daily_maintenance(job: dg.JobDefinition, naming: Naming) -> dg.ScheduleDefinition:
    """The schedule of the job."""
    return dg.ScheduleDefinition(
        name=naming.own("daily_maintenance"),
        job=job,
        cron_schedule=CRON,
        execution_timezone="UTC",
        description="The maintenance of the whole lake, each night. Off until it is switched on "
        "here, for a cron line with `incremental-assets maintain` does as well.",
    )


def _maintained(config: MaintenanceConfig, lakehouse: Lakehouse) -> MaintenanceResult:
    return maintain(
        lakehouse.settings,
        [table_named(lakehouse.tables, name) for name in config.tables] or lakehouse.tables,
        lakehouse.spark,
        lakehouse.now(),
        MaintenanceOptions(
            parse_days(config.days) if config.days else None,
            steps_named(config.steps),
            config.dry_run,
        ),
        lakehouse.log,
    )


def _metadata(table: MaintainedTable) -> Mapping[str, Any]:
    return {
        "files_before": table.files_before,
        "files": table.files_after,
        "bytes_before": table.bytes_before,
        "bytes": table.bytes_after,
        "delta_version_before": table.version_before,
        "delta_version": table.version_after,
        "days_compacted": [str(day) for day in table.days],
        "skipped": list(table.skipped),
        "files_removed": table.removed,
        "bytes_freed": table.freed,
        "seconds": table.seconds,
        **({"checkpoint": table.checkpoint} if table.checkpoint is not None else {}),
    }
