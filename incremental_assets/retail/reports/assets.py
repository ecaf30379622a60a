"""The reports on the retail tables: two assets on gold, their IO manager and their sensor."""
# No future annotations: Dagster reads those of an asset, and none that is text.

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

import dagster as dg
import polars as pl
import pyarrow as pa

from incremental_assets.days import DayRange, named
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.orchestration.downstream import LakeAssets
from incremental_assets.orchestration.failures import failure_of
from incremental_assets.orchestration.metadata import STORAGE
from incremental_assets.orchestration.partitions import days_of
from incremental_assets.retail.feed.loaded import HeldDay, held_days
from incremental_assets.retail.gold.daily_product_sales import DAILY_PRODUCT_SALES
from incremental_assets.retail.reports.figures import (
    DAILY_SALES,
    PIPELINE_HEALTH,
    Report,
    best_of,
    health_of_days,
    held_of_sales,
    late_by_day,
    names_of,
    sales_of_days,
    sold_rows,
)
from incremental_assets.retail.reports.page import days_shown, page, write_page
from incremental_assets.retail.reports.pictures import (
    health_pictures,
    picture_in_markdown,
    sales_pictures,
)
from incremental_assets.retail.reports.stored import lake_frames, last_stored, stored_rows
from incremental_assets.settings import Settings

LAYER = "reports"
_OWNERS = ("team:sales",)
_SAME_DAY = dg.IdentityPartitionMapping()
# Reports the days of a run, of which gold has these rows.
Reported: TypeAlias = Callable[
    [dg.AssetExecutionContext, LakeAssets, DayRange, pa.Table], dg.MaterializeResult[pl.DataFrame]
]


def reports(lake: LakeAssets) -> dg.Definitions:
    """The reports on a lake; none on one of other tables than the retailer's."""
    if DAILY_PRODUCT_SALES not in lake.tables:
        return dg.Definitions()
    with warnings.catch_warnings():
        # The backfill policy is Dagster's own answer to ranges, and beta for years.
        warnings.simplefilter("ignore", dg.BetaWarning)
        assets = [_daily_sales(lake), _pipeline_health(lake)]
    return dg.Definitions(
        assets=assets,
        sensors=[_update_reports(lake, [asset.key for asset in assets])],
        resources={_frames(lake): lake_frames(lake.settings)},
    )


def _daily_sales(lake: LakeAssets) -> dg.AssetsDefinition:
    return _asset(
        lake,
        DAILY_SALES,
        "Revenue, orders, units, late rows and the best products of each day. The "
        "page reports/index.html in the lake draws the last month of it.",
        _report_sales,
    )


def _pipeline_health(lake: LakeAssets) -> dg.AssetsDefinition:
    read = lake.naming.key(DAILY_PRODUCT_SALES)
    keys = [lake.naming.key(table) for table in lake.tables]
    # The page shows both reports: in a run of both this one comes later, and draws it last.
    keys.append(lake.naming.key(DAILY_SALES.name))
    return _asset(
        lake,
        PIPELINE_HEALTH,
        "By table and day: rows read, written, late and in quarantine by rule, "
        "seconds of loading, held days. From the ledger, the quarantine and the tables' logs.",
        _report_health,
        [key for key in keys if key != read],
    )


def _report_sales(
    context: dg.AssetExecutionContext, lake: LakeAssets, days: DayRange, found: pa.Table
) -> dg.MaterializeResult[pl.DataFrame]:
    settings, tables = lake.settings, lake.tables
    sold = sold_rows(pl.DataFrame(found))
    names = names_of(settings, sold)
    sales = sales_of_days(sold, names, late_by_day(settings, tables, days))
    held = held_of_sales(settings, tables, days_shown(days.last))
    there = {row["dt"]: row for row in sales.iter_rows(named=True)}
    for day in days:
        shown = _sales_metadata(there[day]) if day in there else {"note": _why_none(day, held)}
        context.add_asset_metadata(shown, partition_key=str(day))
    if missing := [day for day in days if day not in there]:
        context.log.warning(
            f"{DAILY_SALES.name}: {named(missing)} without rows. {_why_none(missing[0], held)}"
        )
    past = _past(settings, DAILY_SALES, sales, days, days_shown(days.last))
    pictures = sales_pictures(past, _span(past, days), held)
    return _result(context, lake, DAILY_SALES, sales, days, pictures, _best(sold, names))


def _report_health(
    context: dg.AssetExecutionContext, lake: LakeAssets, days: DayRange, found: pa.Table
) -> dg.MaterializeResult[pl.DataFrame]:
    settings = lake.settings
    health = health_of_days(settings, lake.tables, days, sold_rows(pl.DataFrame(found)))
    for day in days:
        own = health.filter(pl.col("dt") == day)
        context.add_asset_metadata(
            {
                **({} if len(own) else {"note": "no table was loaded for the day"}),
                "tables": len(own),
                "tables_held": int((own["state"] == "held").sum()),
                **{
                    name: own[name].sum()
                    for name in (
                        "rows_read",
                        "rows_out",
                        "rows_quarantined",
                        "rows_late",
                        "seconds",
                    )
                },
            },
            partition_key=str(day),
        )
    past = _past(settings, PIPELINE_HEALTH, health, days, days_shown(days.last))
    pictures = health_pictures(past, _span(past, days))
    return _result(context, lake, PIPELINE_HEALTH, health, days, pictures, {})


def _result(
    context: dg.AssetExecutionContext,
    lake: LakeAssets,
    report: Report,
    rows: pl.DataFrame,
    days: DayRange,
    pictures: Mapping[str, str],
    further: Mapping[str, Any],
) -> dg.MaterializeResult[pl.DataFrame]:
    """Draw the page, and give the rows to be stored. The pictures are shown with the last day."""
    titled = {name: _in_markdown(name, svg) for name, svg in pictures.items()}
    context.add_asset_metadata(titled, partition_key=str(days.last))
    path = _draw_page(lake, report, rows, days)
    return dg.MaterializeResult(
        value=rows,
        metadata={
            **_names(lake, report),
            "page": dg.MetadataValue.path(path),
            "days_in_run": len(days),
            **further,
        },
    )


def _draw_page(lake: LakeAssets, report: Report, rows: pl.DataFrame, days: DayRange) -> str:
    """Draw what is stored of both reports, and these rows, which are stored a moment later."""
    settings, both = lake.settings, (DAILY_SALES, PIPELINE_HEALTH)
    ends = [days.last if len(rows) else None, *(last_stored(settings, each) for each in both)]
    window = days_shown(max((day for day in ends if day), default=days.last))
    sales, health = (
        _past(settings, each, rows, days, window)
        if each is report
        else stored_rows(settings, each, window)
        for each in both
    )
    held = held_days(settings, lake.tables, window)
    return write_page(settings, page(sales, health, held, datetime.now(UTC)))


def _past(
    settings: Settings, report: Report, rows: pl.DataFrame, days: DayRange, window: DayRange
) -> pl.DataFrame:
    """What is stored of a report within the window, with the rows of a run in place of its days."""
    stored = stored_rows(settings, report, window)
    others = stored.filter(~pl.col("dt").is_between(days.first, days.last))
    own = rows.filter(pl.col("dt").is_between(window.first, window.last))
    return pl.concat([others, own]).sort("dt")


def _span(past: pl.DataFrame, days: DayRange) -> DayRange:
    """The days from the first that is known up to the last of a run."""
    first = past["dt"].min()
    return DayRange(first if isinstance(first, date) else days.last, days.last)


def _sales_metadata(day: Mapping[str, Any]) -> Mapping[str, Any]:
    counts = ("orders", "units", "products", "stores", "rows_late")
    return {"revenue": float(day["revenue"]), **{name: day[name] for name in counts}}


def _why_none(day: date, held: Mapping[date, HeldDay]) -> str:
    """Why gold has no rows of a day, and what to do."""
    if day in held:
        return f"{held[day].table} {day} is held by its gate: {held[day].held_by}."
    return (
        f"{DAILY_PRODUCT_SALES.name} has no rows of {day}: nothing was sold, or it is not loaded. "
        "`incremental-assets run` loads what has landed; a report loads nothing."
    )


def _best(sold: pl.DataFrame, names: Mapping[str, str]) -> Mapping[str, Any]:
    """The best products of all days of a run, as a table."""
    records = [
        dg.TableRecord({**row, "revenue": float(row["revenue"])})
        for row in best_of(sold, names).iter_rows(named=True)
    ]
    return {"best_products_of_run": dg.MetadataValue.table(records)} if records else {}


def _in_markdown(name: str, svg: str) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md(picture_in_markdown(name.replace("_", " "), svg))


def _gold(lake: LakeAssets) -> dg.AssetIn:
    """The days of a run of gold/daily_product_sales."""
    return dg.AssetIn(
        lake.naming.key(DAILY_PRODUCT_SALES),
        input_manager_key=_frames(lake),
        partition_mapping=_SAME_DAY,
    )


def _asset(
    lake: LakeAssets,
    report: Report,
    description: str,
    reported: Reported,
    deps: Sequence[dg.AssetKey] = (),
) -> dg.AssetsDefinition:
    """An asset with the days of the tables, which is named and found as they are."""

    @dg.asset(
        key=lake.naming.key(report.name),
        description=description,
        ins={"sold": _gold(lake)},
        deps=[dg.AssetDep(key, partition_mapping=_SAME_DAY) for key in deps],
        partitions_def=lake.partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        automation_condition=_updated(lake),
        group_name=lake.naming.group(LAYER),
        owners=list(_OWNERS),
        kinds={"polars", STORAGE, LAYER},
        tags={"layer": LAYER},
        metadata={
            **_names(lake, report),
            "dagster/storage_kind": STORAGE,
            "partition_expr": "dt",
        },
        io_manager_key=_frames(lake),
        pool=lake.naming.own(LAYER),  # both draw one page
    )
    # An Arrow table, since polars finds no files in a lake whose path has a space.
    def days_reported(
        context: dg.AssetExecutionContext, sold: pa.Table
    ) -> dg.MaterializeResult[pl.DataFrame]:
        days = days_of(context)
        try:
            return reported(context, lake, DayRange(days[0], days[-1]), sold)
        except IncrementalAssetsError as error:
            raise failure_of(error) from error

    return days_reported


def _names(lake: LakeAssets, report: Report) -> dict[str, str]:
    return {
        "dagster/table_name": report.name,
        "dagster/uri": f"{lake.settings.lake}/{report.name}",
    }


def _frames(lake: LakeAssets) -> str:
    """The name of the IO manager."""
    return lake.naming.own("incremental_assets_reports")


def _updated(lake: LakeAssets) -> dg.AutomationCondition[Any]:
    """That any upstream loaded the day since the report's last run, and none is loading it.

    `eager` asks for the latest day only, and waits for ever where an upstream has no such day. A
    report is no reason for the other: each draws the page.
    """
    condition = dg.AutomationCondition
    own = dg.AssetSelection.assets(lake.naming.key(DAILY_SALES.name))
    return (
        condition.any_deps_updated().ignore(own).since_last_handled()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("an upstream loaded the day")


def _update_reports(
    lake: LakeAssets, keys: Sequence[dg.AssetKey]
) -> dg.AutomationConditionSensorDefinition:
    return dg.AutomationConditionSensorDefinition(
        lake.naming.own("update_reports"),
        target=dg.AssetSelection.assets(*keys),
        minimum_interval_seconds=lake.settings.sensor_seconds,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Requests the reports on the days that were loaded since, whoever loaded "
        "them. It loads no table, and starts no Spark.",
    )
