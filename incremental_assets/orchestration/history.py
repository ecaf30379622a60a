"""Dagster's history in SQLite, with connections that are kept open.

Dagster's own storage opens its files anew for each event, three or four times, compiles each
statement anew, and writes SQLite's journal back at each close: 9 ms for the result of a check, of
which a month in one run has a thousand. With its two files kept open it is 3 ms. Files and tables
are Dagster's: an instance can go from one to the other and back.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster import EventLogEntry
from dagster._config.config_schema import UserConfigSchema
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
)
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.pool import QueuePool

# What all runs share, and the run that is under way.
_KEPT = 2


class Instance(dg.DagsterInstance):
    """Dagster's instance; without a `storage` of its own in dagster.yaml it has `History`."""

    @classmethod
    def config_schema(cls) -> UserConfigSchema:
        return {}

    @classmethod
    def config_defaults(cls, base_dir: str) -> Mapping[str, ConfigurableClassData | None]:
        own = json.dumps({"base_dir": base_dir})  # which is YAML
        storage = ConfigurableClassData(__name__, History.__name__, own)
        return {**InstanceRef.config_defaults(base_dir), "storage": storage}


class History(DagsterSqliteStorage):
    """Dagster's SQLite storage, but for the events."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = KeptOpen(_event_logs_directory(base_dir))

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> History:
        return cls.from_local(config_value["base_dir"], inst_data)


class KeptOpen(SqliteEventLogStorage):
    """Dagster's event log, which keeps the files that it used last open."""

    def __init__(self, base_dir: str) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._tables: set[str] = set()
        super().__init__(base_dir)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine = self._engine(shard)
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection

    def store_event(self, event: EventLogEntry) -> None:
        super().store_event(event)
        # The UI follows a run by its file's changes, and SQLite only writes beside it by now.
        os.utime(self.path_for_shard(event.run_id))

    def has_table(self, table_name: str) -> bool:
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def wipe(self) -> None:
        self._close(0)
        super().wipe()

    def dispose(self) -> None:
        self._close(0)
        super().dispose()

    def _engine(self, shard: str) -> Engine:
        engine = self._engines.get(shard)
        if engine is None:
            self._close(_KEPT - 1)
            engine = create_engine(
                self.conn_string_for_shard(shard),
                poolclass=QueuePool,
                pool_size=1,
                connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
            )
            self._engines[shard] = engine
        self._engines.move_to_end(shard)
        if shard != INDEX_SHARD_NAME and INDEX_SHARD_NAME in self._engines:
            self._engines.move_to_end(INDEX_SHARD_NAME)
        return engine

    def _close(self, kept: int) -> None:
        """Close all but so many, those that were not used for longest first."""
        while len(self._engines) > kept:
            _, engine = self._engines.popitem(last=False)
            engine.dispose()
