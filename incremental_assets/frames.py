"""Tools for frames: quoted names, cached rows, a value among many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cached_property
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JNetworkError
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

# Up to so many values are a literal of the query; each of them is a call to the JVM, and a part of
# the plan. More are a frame of their own, which is sent to every task.
FEW_VALUES = 1_000
Kept = TypeVar("Kept")
_VALUE, _SAME = "_is_among_value", "_is_among_same"


def quoted(name: str) -> str:
    """A column's name as Spark takes it, with dots and back quotes as they are."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Text as a literal of Spark's SQL."""
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + plain.replace("\n", "\\n").replace("\r", "\\r") + "'"


def is_remote(session: SparkSession) -> bool:
    """Whether the session is one of a Spark Connect server."""
    return hasattr(session, "cloneSession")


def with_columns(rows: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """The rows with these columns; with none, which Spark Connect's client refuses, as they are."""
    return rows.withColumns({**columns}) if columns else rows


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, cached inside the context, so that their source is read once.

    Where Java has ended there is nothing to release, and its error is raised.
    """
    cached = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield cached
    finally:
        with suppress(Py4JNetworkError):
            cached.unpersist()


class Frames:
    """The session of one batch, and the frames that it caches until its end.

    The session is opened when it is first asked for: a batch that has nothing to read needs none.
    `small` is asked after that: a small batch spends its time on planning, so the plan of a cached
    frame ends at the cache. Spark would otherwise analyze all of it again with each step.
    `cut` computes rows of a large batch, and keeps them at least until its end.
    """

    def __init__(
        self,
        open_session: Callable[[], AbstractContextManager[SparkSession]],
        small: Callable[[], bool] = lambda: False,
        cut: Callable[[DataFrame], AbstractContextManager[DataFrame]] | None = None,
    ) -> None:
        self._open = open_session
        self._small = small
        self._cut = cut or persisted
        self._stack = ExitStack()
        self._kept: dict[Hashable, Any] = {}
        self._notes: dict[str, None] = {}

    @classmethod
    def over(cls, session: SparkSession) -> Frames:
        """Frames of a session that the caller opens and closes."""
        return cls(lambda: nullcontext(session))

    def __enter__(self) -> Frames:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @cached_property
    def session(self) -> SparkSession:
        """The batch's own session."""
        return self._stack.enter_context(self._open())

    def keep(self, name: Hashable, opened: Callable[[], AbstractContextManager[Kept]]) -> Kept:
        """What a source keeps open until the end of the batch, opened once by that name."""
        if name not in self._kept:
            self._kept[name] = self._stack.enter_context(opened())
        found: Kept = self._kept[name]
        return found

    def note(self, text: str) -> None:
        """Add what a source noticed while it was read to the notes of the batch, once."""
        self._notes[text] = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What sources noticed while they were read."""
        return tuple(self._notes)

    @property
    def is_small(self) -> bool:
        """Whether the batch spends its time on planning: a further job costs more than it saves."""
        return self._small()

    def cut(self, rows: DataFrame) -> DataFrame:
        """The rows, computed once, with a plan that ends here however large the batch is.

        For rows that are joined with themselves again and again: a plan that holds them several
        times, at several steps, grows beyond what can be planned.
        """
        if self._small():
            return checkpoint(rows)
        return self._stack.enter_context(self._cut(rows))

    def cache(self, rows: DataFrame) -> DataFrame:
        """The rows, computed once however often they are used, until the end of the batch.

        Use the frame that is returned: the one that is given may be computed again. Of a small
        batch, Java's next collection after its end releases the rows.
        """
        if self._small():
            return checkpoint(rows)
        return self._stack.enter_context(persisted(rows))


def checkpoint(rows: DataFrame) -> DataFrame:
    """The rows, computed once, in Spark's memory and on its disks until Java collects them."""
    return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)


def with_is_among(rows: DataFrame, name: str, column: Column, values: Collection[str]) -> DataFrame:
    """Add the boolean column `name`: whether a text is one of these values; false where it is null.

    However many values there are, each row comes out once, in the partition where it was.
    """
    if len(values) <= FEW_VALUES:
        return rows.withColumn(name, F.coalesce(column.isin(list(values)), F.lit(False)))
    texts = pa.table({_SAME: pa.array(sorted(set(values)), pa.string())})
    same = F.broadcast(rows.sparkSession.createDataFrame(texts).withColumn(name, F.lit(True)))
    joined = rows.withColumn(_VALUE, column).join(same, F.col(_VALUE) == F.col(_SAME), "left")
    return joined.withColumn(name, F.coalesce(name, F.lit(False))).drop(_VALUE, _SAME)
