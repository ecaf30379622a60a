"""Starting Spark: an embedded one tuned for one machine, or one that runs elsewhere."""

from __future__ import annotations

import atexit
import hashlib
import os
import socket
from pathlib import Path
from threading import Lock
from urllib.parse import unquote, urlsplit

import pyspark
from pyspark.sql import SparkSession

from incremental_assets.delta_protocol.reader import EXTENSION
from incremental_assets.errors import SparkUnavailableError
from incremental_assets.settings import Settings
from incremental_assets.spark.jars import jar_paths
from incremental_assets.spark.java import java_command, release_of, require_java
from incremental_assets.spark.load_session import PINNED, quiet_settings
from incremental_assets.spark.sizing import LARGE, java_options
from incremental_assets.spark.start import is_submitted, start

LOGGING = Path(__file__).with_name("log4j2.properties")
CONNECT_PORT = 15002
CONNECT_SECONDS = 10.0
# One Java a process, also where several threads ask for a session.
_STARTING = Lock()

# Settings of any session that writes to the lake, wherever Spark runs.
SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}

# What makes Spark know Delta, wherever it is started from here.
_DELTA_CONF = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

# One machine: few partitions, no user interface, fast start. Two of Delta's defaults (50 snapshot
# partitions) and Spark's (200 shuffle partitions) make a small day three times as slow.
_EMBEDDED_CONF = {
    "spark.app.name": "incremental_assets",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.log.level": "ERROR",
    # Class loaders per session are for artifacts that sessions upload; none are uploaded here.
    "spark.sql.artifact.isolation.enabled": "false",
    # Hadoop knows S3 as s3a; where its client is on the class path, s3 is the same.
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    # Where in the code each column expression was made: five calls to the JVM for every one of
    # them, a fifth of a small load, for errors that name the table and the column anyway.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The text of each plan, for a user interface that is not there: written in full, with all
    # columns, it takes a sixth of the planning of a small load.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.debug.maxToStringFields": "1",
}

_JAVA_OPTIONS = (
    # Java keeps 48 MB for compiled code with one tier, which a million rows fill: then nothing more
    # is compiled. With all tiers it keeps 240 MB, of which profiled code may have half; small loads
    # fill that in fifteen minutes, and then code that is still needed is compiled again.
    "-XX:ReservedCodeCacheSize=480m",
    # A plan over many columns becomes one long method, which Java would interpret for ever.
    "-XX:-DontCompileHugeMethods",
    "-Xlog:disable",
    # Drivers of databases make instants by the time zone of Java.
    "-Duser.timezone=UTC",
    f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"',
)


# Parameters of a server's URL whose values may be shown.
_HARMLESS = ("use_ssl", "user_id", "user_agent", "session_id")


def session_conf(settings: Settings) -> dict[str, str]:
    """The settings for Spark as this machine should start it.

    With `spark_remote` only what a session may set: a server refuses a master and static
    settings. The sessions of loads are copies of this one, so it has their settings already.
    Raises SparkUnavailableError if an embedded Spark cannot be started.
    """
    if settings.spark_remote:
        return SESSION_CONF | PINNED
    if is_submitted():  # by spark-submit, which has its own master, driver and jars
        return SESSION_CONF | _DELTA_CONF
    if settings.spark_master and not settings.spark_master.startswith("local"):
        jars = ",".join(str(p) for p in jar_paths(settings.cache))
        elsewhere = {"spark.master": settings.spark_master, "spark.jars": jars}
        return SESSION_CONF | _DELTA_CONF | elsewhere
    require_java(settings.java_home)
    cores = os.cpu_count() or 2
    return (
        SESSION_CONF
        | _DELTA_CONF
        | _EMBEDDED_CONF
        | {
            "spark.master": settings.spark_master or "local[*]",
            "spark.sql.shuffle.partitions": str(cores),
            # Files of many sizes make tasks of many lengths; with few tasks a core waits.
            "spark.sql.files.minPartitionNum": str(4 * cores),
            "spark.sql.warehouse.dir": f"{settings.cache}/warehouse",
            "spark.driver.memory": settings.driver_memory,
            "spark.driver.extraClassPath": ":".join(str(p) for p in jar_paths(settings.cache)),
            "spark.driver.extraJavaOptions": " ".join(
                [*java_options(), *_JAVA_OPTIONS, *_shared(settings)]
            ),
        }
    )


def server_conf(settings: Settings) -> dict[str, str]:
    """The settings for a Spark Connect server of this machine: an embedded Spark that lives longer.

    What a large load gets pays off there. Raises SparkUnavailableError if it cannot be started.
    """
    conf = session_conf(settings.replace(spark_remote=None))
    options = [*LARGE, *_JAVA_OPTIONS, *_shared(settings)]
    if "spark.driver.extraJavaOptions" in conf:
        conf["spark.driver.extraJavaOptions"] = " ".join(options)
    # Sessions of a server are apart: what one of them uploads is not for the others.
    conf.pop("spark.sql.artifact.isolation.enabled", None)
    return conf


def start_session(settings: Settings, extra: dict[str, str] | None = None) -> SparkSession:
    """Start Spark or connect to it. Raises SparkUnavailableError with the remedy."""
    conf = session_conf(settings) | (extra or {})
    try:
        if settings.spark_remote:
            _require_server(settings.spark_remote)
            builder = SparkSession.builder.remote(settings.spark_remote)
            with quiet_settings():
                session = builder.config(map=dict(conf)).getOrCreate()
            atexit.register(session.stop)
            return session
        with _STARTING:
            return start(conf, settings.java_home)
    except SparkUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001 - its message is passed on, without a token
        where = _address(settings.spark_remote) or settings.spark_master or "an embedded Spark"
        shown = _without_values(str(error), settings.spark_remote)
        reason = next(iter(shown.splitlines()), type(error).__name__)
        raise SparkUnavailableError(
            f"Spark cannot be started ({where}): {reason} Check what Java "
            "printed above, and check SPARK_REMOTE, SPARK_MASTER, JAVA_HOME and "
            "INCREMENTAL_ASSETS_DRIVER_MEMORY."
        ) from (error if shown == str(error) else None)


def _require_server(url: str) -> None:
    """Raise SparkUnavailableError where no server listens: the client would try for minutes."""
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "", parts.port or CONNECT_PORT)
        with socket.create_connection(address, timeout=CONNECT_SECONDS):
            return
    except (OSError, ValueError) as error:
        raise SparkUnavailableError(
            f"Spark cannot be reached at {_address(url)} ({error}). Start the Connect server, "
            "or set SPARK_REMOTE to where it listens: sc://host:15002."
        ) from error


def _address(url: str | None) -> str:
    """The URL of a server without its parameters, which may hold a token."""
    return url.partition(";")[0].rstrip("/") if url else ""


def _without_values(text: str, url: str | None) -> str:
    """The text without the values of the URL's parameters, as they are written and as they are."""
    _, *parameters = url.split(";") if url else ("",)
    for name, _, value in (parameter.partition("=") for parameter in parameters):
        for written in filter(None, (value, unquote(value)) if name not in _HARMLESS else ()):
            text = text.replace(written, "…")
    return text


def archive_path(settings: Settings) -> Path:
    """Where the class-data archive for this Java and these jars is, or would be.

    Java uses an archive only with the very jars that it was made from, and ignores it silently with
    others: so the name has a digest of them.
    """
    java = Path(java_command(settings.java_home) or "java").resolve()
    home = Path(pyspark.__file__).resolve().parent
    jars = [*sorted(home.glob("jars/*.jar")), *jar_paths(settings.cache)]
    seen = [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    digest = hashlib.sha256("\n".join([str(java), release_of(str(java)), *seen]).encode())
    return settings.cache / f"spark-{digest.hexdigest()[:16]}.jsa"


def archive_option(path: Path) -> dict[str, str]:
    """The setting that makes Java write the class-data archive at a clean stop."""
    options = [*java_options(), *_JAVA_OPTIONS, f'"-XX:ArchiveClassesAtExit={path}"']
    return {"spark.driver.extraJavaOptions": " ".join(options)}


def _shared(settings: Settings) -> list[str]:
    archive = archive_path(settings)
    return [f'"-XX:SharedArchiveFile={archive}"'] if archive.exists() else []
