"""The target of a loader, and all that is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec, TypeVar

from pyspark.sql import SparkSession

from incremental_assets.engine.target import TargetTable
from incremental_assets.engine.target_load import load_target
from incremental_assets.engine.target_plan import TargetPlan, plan_target
from incremental_assets.engine.target_replay import replay_target
from incremental_assets.engine.target_steps import Loaded
from incremental_assets.errors import DefinitionError
from incremental_assets.loaders.result import LoadResult
from incremental_assets.locations import table_location
from incremental_assets.operations.rewind import Rewound, TargetRewind
from incremental_assets.verifying import Verified, verify_target

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Target:
    """A target as a loader loads it: `loader.target(…)` takes what the load takes.

    Every method raises an IncrementalAssetsError; nothing is then half-done.
    """

    table: TargetTable
    spark: SparkSession
    clock: Callable[[], datetime]
    log: Callable[[str], None]

    def load(self) -> LoadResult:
        """Load what is new."""
        return LoadResult.of(self.table.name, self.loaded())

    def loaded(self) -> Loaded:
        """The same, with the batch as the ledger has it."""
        return load_target(self.table, self.spark, self._now(), self.log)

    def plan(self) -> TargetPlan:
        """What the next load would find. Starts no Spark and writes nothing."""
        return plan_target(self.table, self._now())

    def replay(self) -> LoadResult:
        """Judge the rows in quarantine by the rules of today, and load those that pass.

        They leave quarantine; the others stay there. The watermark stays where it is.
        """
        done = replay_target(self.table, self.spark, self._now(), self.log)
        return LoadResult.of(self.table.name, done)

    def verify(self, scratch: str | Path | None = None) -> Verified:
        """Build the target again from its source in a scratch folder, and compare row by row.

        The folder is in the target's folder by default, and is removed at the end.
        """
        folder = "" if scratch is None else table_location("scratch", str(scratch))
        return verify_target(self.table, self.spark, self._now(), self.log, folder)

    def rewind(self, to: int | datetime, why: str) -> Rewound:
        """Lower the watermark to what it was after batch `to` (0: before the first), or then.

        The next load reads the source again from there; no row is loaded twice.
        """
        return TargetRewind(self.table, self._now, self.log).record(to, why)

    def _now(self) -> datetime:
        now = self.clock()
        if now.tzinfo is None:
            raise DefinitionError("The clock of a loader gives instants with their time zone.")
        return now.astimezone(UTC)


def on(target: Callable[P, Target], act: Callable[[Target], R]) -> Callable[P, R]:
    """A method that takes what `target` takes, and does this with it."""

    @wraps(target)
    def method(*args: P.args, **options: P.kwargs) -> R:
        return act(target(*args, **options))

    returns = signature(act).return_annotation
    method.__dict__["__signature__"] = signature(target).replace(return_annotation=returns)
    return method
