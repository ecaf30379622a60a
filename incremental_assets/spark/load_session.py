"""The Spark session of one load, with settings and views of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Literal

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from incremental_assets.frames import Frames, checkpoint, is_remote, literal
from incremental_assets.spark.intermediate import in_files

# What a load's result depends on, whoever started Spark and however it is configured.
PINNED = {
    # Instants without a zone are UTC, and so is what a source calls a timestamp.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # What does not fit fails; it does not become null, or a number that overflowed.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.variant.allowDuplicateKeys": "false",
    "spark.sql.variant.validateUnicodeInJsonParsing": "true",
    # Days before 1582 and instants are what their file holds.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.parquet.reader.respectUnknownTypeAnnotation.enabled": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.legacy.postgres.datetimeMapping.enabled": "false",
    "spark.sql.legacy.mysql.timestampNTZMapping.enabled": "false",
    "spark.sql.legacy.mysql.bitArrayMapping.enabled": "false",
    # A corrupt or missing file fails the load; otherwise its rows would count as deleted, or
    # the file as loaded.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
    # Hadoop would leave out, without a word, each line that is longer.
    "mapreduce.input.linerecordreader.line.maxlength": str(2**31 - 1),
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.respectSummaryFiles": "false",
    # Columns are found by name, in whatever case.
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "orc.force.positional.evolution": "false",
    "spark.sql.orc.impl": "native",
    "spark.sql.retainGroupColumns": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # Values of XML are texts; its older parser looks for the signs of a tag, whatever it is in.
    "spark.sql.xml.variant.respectInferSchema": "true",
    "spark.sql.legacy.useLegacyXMLParser": "false",
    # The hash of a row is over its JSON without nulls; bytes are not taken for text.
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.parquet.binaryAsString": "false",
    # A line in quarantine is known again by its text: as Spark has always broken it.
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.legacy.charVarcharAsString": "false",
    # How data files are written. Delta knows no shredded VARIANT unless a table allows it; Spark
    # would shred on its own; timestamps of 96 bits have no statistics.
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    # Landed lines take half of what they take by Spark's default, in a little less time.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    # Its default is looked up again for each value that is taken out of a VARIANT or an array.
    "spark.sql.types.framework.enabled": "false",
    # Fields of a VARIANT that is not shredded are no columns of a file: a scan that takes them out
    # anyway writes the texts of each row into vectors, and reads them again.
    "spark.sql.variant.pushVariantIntoScan": "false",
    # The first `lower` by ICU takes a second, to load all of it; Java's gives the same.
    "spark.sql.icu.caseMappings.enabled": "false",
    # How frames are cached: Spark compresses their blocks in any case, and small batches stay in
    # the processor's cache. By default, typing and caching a million rows takes a third longer.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.inMemoryColumnarStorage.batchSize": "2000",
}
INTERMEDIATE = "batch-000000-intermediate-"
"""How the names of folders of intermediate results begin: those of no batch, so that abandoning one
does not remove them. VACUUM removes what a load leaves that was killed."""
Size = Literal["tiny", "small", "medium", "any"]
# Up to this much one task is faster than several; a day of the demo is 4,000 rows and 1 MiB.
SMALL_ROWS, _SMALL_BYTES = 20_000, 8 * 2**20
# Up to this much, files are small: opening one takes as long as a few hundred rows, and days are
# worth sorting out before they are written.
_MEDIUM_ROWS, _MEDIUM_BYTES = 5_000_000, 2**30
# Up to this much, compiling a plan takes longer than working it off as it stands.
_TINY_ROWS, _TINY_BYTES = 1_000, 256 * 2**10

# With a few rows, each further task, stage or job (a broadcast is one) takes longer than the rows.
_SMALL = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
}


_TINY = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


# A task that writes into a few partitions has a file open for each, instead of sorting its rows.
_LARGE = {"spark.sql.maxConcurrentOutputFileWriters": "16"}
# Spark reckons 4 MiB for opening a file, so tasks get as many files each, not as many rows.
_MEDIUM = _LARGE | {
    "spark.sql.files.openCostInBytes": "32768",
    # A day of a million rows shuffles 60 MB: by Spark's 64 MB, one task would write all of it into
    # one file, and one task read it after that, while the other cores wait.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(8 * 2**20),
}


_BY_SIZE: dict[Size, dict[str, str]] = {
    "tiny": _SMALL | _TINY,
    "small": _SMALL,
    "medium": _MEDIUM,
    "any": _LARGE,
}


def size_of(rows: int, bytes_read: Iterable[int]) -> Size:
    """How large a load is that reads so many rows, and so many bytes of each table it touches."""
    most = max(bytes_read, default=0)
    if rows <= _TINY_ROWS and most <= _TINY_BYTES:
        return "tiny"
    if rows <= SMALL_ROWS and most <= _SMALL_BYTES:
        return "small"
    return "medium" if rows <= _MEDIUM_ROWS and most <= _MEDIUM_BYTES else "any"


@contextmanager
def own_session(
    spark: SparkSession, size: Size, jars: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """A session that shares nothing settable with another load; for a small one, few tasks.

    On a Connect server it is released when the load is over; its client would otherwise be closed
    by Python's exit, where closing can hang.
    """
    with _opened(spark, PINNED | _BY_SIZE[size]) as session:
        _add_jars(session, jars)
        yield session


def _add_jars(session: SparkSession, jars: Sequence[Path]) -> None:
    """Have a session, and the tasks that it starts, know the classes of the jars.

    A session of a Connect server gets copies of them.
    """
    for jar in jars:
        if is_remote(session):
            session.addArtifacts(str(jar))
        else:
            session.sql("ADD JAR " + literal(str(jar)))


@contextmanager
def statement_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session for statements about tables, with only the settings that their texts depend on."""
    with _opened(spark, {"spark.sql.parser.escapedStringLiterals": "false"}) as session:
        yield session


@contextmanager
def _opened(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[SparkSession]:
    clone = _cloning(spark)
    # A server knows a session from its first request on, and only then it can be copied.
    has = spark.conf.getAll if clone else {}
    session: SparkSession = clone() if clone else spark.newSession()
    try:
        _configure(session, wanted, has)
        yield session
    finally:
        if clone:  # `stop()` of a clone fails in pyspark 4.2.0
            with suppress(
                PySparkException
            ):  # the error of a server that has ended was raised already
                session.client.release_session()
            session.client.close()


def _cloning(spark: SparkSession) -> Callable[[], SparkSession] | None:
    """What copies a session of a Connect server; None for an embedded Spark."""
    clone: Callable[[], SparkSession] | None = getattr(spark, "cloneSession", None)
    return clone


@contextmanager
def quiet_settings() -> Iterator[None]:
    """Without the warning of a server's client about a setting that is deprecated but counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _configure(session: SparkSession, wanted: Mapping[str, str], has: Mapping[str, str]) -> None:
    """Set what the session does not have yet; over a server, each setting is a request."""
    with quiet_settings():
        for name, value in wanted.items():
            if has.get(name) != value:
                session.conf.set(name, value)


def batch_frames(
    spark: Callable[[], SparkSession],
    size: Callable[[], Size],
    jars: Callable[[], Sequence[Path]] = tuple,
    *,
    path: str,
) -> Frames:
    """The frames of one batch, in a session of its own; all are asked for when it is opened.

    `path` is that of the table, in whose folder intermediate results are written.
    """
    asked = cache(size)

    def opened() -> AbstractContextManager[SparkSession]:
        now = asked()  # before Spark starts, which depends on it
        return own_session(spark(), now, jars())

    @cache
    def small() -> bool:
        return asked() in {"tiny", "small"} and _can_checkpoint(spark())

    def cut(rows: DataFrame) -> AbstractContextManager[DataFrame]:
        if _can_checkpoint(spark()):
            return nullcontext(checkpoint(rows))
        return in_files(rows, path, INTERMEDIATE)

    return Frames(opened, small, cut)


def _can_checkpoint(session: SparkSession) -> bool:
    """Whether a checkpoint stays: not where an executor that is lost takes its part along.

    Nor on a server: a client of PySpark 4.2 gives a checkpoint to its active session, not to the
    copy of it that a load uses.
    """
    master = session.conf.get("spark.master", "") or ""
    return _cloning(session) is None and master.startswith("local")
