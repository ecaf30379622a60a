"""Loading a change log: inserts, updates and deletes, flat or in Debezium's envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, Unpack

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.operations import Operation
from incremental_assets.changes.unchanged import NoEarlier, Unchanged
from incremental_assets.choices import require_choice
from incremental_assets.errors import DefinitionError
from incremental_assets.loaders.base import IncrementalLoader
from incremental_assets.loaders.options import ColumnNames, LoaderOptions, source_of
from incremental_assets.loaders.target import Target, on
from incremental_assets.sources.source import Source


class CDCLoader(IncrementalLoader):
    """Applies the events of a change log that have not been read yet."""

    def target(
        self,
        cdc_source_path: str | Path | Source,
        target_path: str | Path,
        watermark_path: str | Path,
        primary_key: ColumnNames,
        table_name: str,
        *,
        cdc_format: Literal["flat", "debezium"] = "flat",
        operation_column: str = "operation",
        sequence_column: str = "sequence_num",
        operations: Mapping[str, Operation] | None = None,
        max_records: int | None = None,
        deleted_column: str = "",
        unchanged: Unchanged = "marked",
        no_earlier: NoEarlier = "quarantine",
        placeholder: str = "",
        **options: Unpack[LoaderOptions],
    ) -> Target:
        """Bring the target up to date with the log; its rows are the live ones.

        What is new are the log's files, or the commits of a Delta log, that were not read yet; an
        event with a lower number that comes later is put in its place. Operations are named as
        most systems name them (INSERT, U, update_postimage, …); `operations` adds words of one's
        own. The target holds the source's own columns without those of the log, and what begins
        with `_`; tombstones are kept in a side table, so that nothing older brings a row back. With
        `write=SCD2()` it holds every version. `max_records` takes whole files, at least one.
        `deleted_column` is for rows without an operation, which it marks as deleted: null, false,
        no, off, 0 and "" mean that a row is live; all their columns are the row's own.

        `unchanged` are the columns of an update that did not change, and keep the value that the
        version before it has: those "marked" by the `placeholder` (by default Debezium's), also
        those that are "absent" from a Debezium event, or also those that are "null".
        `no_earlier="null"` lets an event in of which no earlier version is known; by default it is
        put into quarantine. The `options` of every loader are those of `LoaderOptions`.
        """
        require_choice("cdc_format", cdc_format, ("flat", "debezium"))
        if cdc_format == "flat" and unchanged == "absent":
            raise DefinitionError(
                'unchanged="absent" is for Debezium\'s events: a row of a flat log has every '
                'column of its file. Use unchanged="null", for rows in which null means unchanged.'
            )
        watermark = self._watermark(options)
        return self._target(
            table_name,
            source_of("cdc_source_path", cdc_source_path, options),
            target_path,
            watermark_path,
            replace(
                ChangeLog.debezium(
                    watermark, unchanged=unchanged, no_earlier=no_earlier, placeholder=placeholder
                ),
                deleted=deleted_column,
            )
            if cdc_format == "debezium"
            else ChangeLog(
                operation_column,
                sequence_column,
                operations or {},
                watermark=watermark,
                deleted=deleted_column,
                unchanged=unchanged,
                no_earlier=no_earlier,
                placeholder=placeholder,
            ),
            primary_key,
            options,
            max_records=max_records,
        )

    process_cdc = on(target, Target.load)
