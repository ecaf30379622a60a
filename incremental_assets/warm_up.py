"""Making the class-data archive: the classes that a load uses, laid out for a fast start.

Java writes the archive when it stops cleanly, of the classes that it has loaded by then, so a
small load is run for it, into a temporary lake. On two cores the archive takes the start
and first read of an embedded Spark from 17 s to 4 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, date, datetime
from pathlib import Path

from incremental_assets.catalog import tables_of
from incremental_assets.errors import SparkUnavailableError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.settings import OWN_TABLES, Settings
from incremental_assets.spark.session import archive_option, archive_path, start_session

DAY = date(2017, 1, 2)
LONGEST_SECONDS = 300
# So many rows that Spark compiles the plans: those of a smaller load are interpreted.
MANY = 4_000
# What gives Spark other jars or settings than those that it is started with here.
OWN_SETUP = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_CLASSPATH",
    "SPARK_DIST_CLASSPATH",
    "SPARK_SUBMIT_OPTS",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)


def make_archive(settings: Settings) -> Path:
    """Run a small load of the tables that come along, archive the classes; give the archive's path.

    Archives of other jars or of another Java are removed.

    The load runs in a process of its own. Java writes the archive while it exits, which is after
    that process has gone: the group of both is waited for. Raises SparkUnavailableError.
    """
    target = archive_path(settings)
    for other in settings.cache.glob("spark*.jsa"):
        other.unlink()
    written = target.with_suffix(".new")
    load = subprocess.Popen(
        [sys.executable, "-m", "incremental_assets.warm_up", str(written)],
        env={n: v for n, v in os.environ.items() if n not in OWN_SETUP},
        start_new_session=True,
    )
    status = load.wait()
    deadline = time.monotonic() + LONGEST_SECONDS
    while _is_alive(load.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    if status != 0 or not written.exists():
        raise SparkUnavailableError(
            f"The small load that prepares Spark ended with status {status} and left no class "
            "archive. Read the message above and run the set-up again."
        )
    os.replace(written, target)
    return target


def load_and_archive(settings: Settings, archive: Path) -> None:
    """Load every table twice into a lake that is thrown away; Java archives when it stops.

    They are the tables that come along: the sources of a project's own may not be there yet.
    """
    tables = tables_of(OWN_TABLES)
    with tempfile.TemporaryDirectory() as folder:
        own = settings.replace(
            spark_master=None,
            spark_remote=None,
            lake=f"{folder}/lake",
            landing=f"{folder}/landing",
            start_date=DAY,
            end_date=None,
            tables=OWN_TABLES,
            catalog="",
        )
        _land(Path(own.landing), "first", 30)
        session = start_session(own, archive_option(archive))
        lakehouse = Lakehouse(own, tables, lambda: session, lambda: datetime.now(UTC))
        for _ in ("first load", "merge"):
            for table in tables:
                lakehouse.load(table, [DAY])
            _land(Path(own.landing), "again", MANY)
        session.stop()


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _land(landing: Path, name: str, events: int) -> None:
    event: dict[str, object] = {
        "order_id": name,
        "qty": 1,
        "unit_price": 1.5,
        "user_id": "u",
        "store_id": "s",
    }
    event |= {"product_id": "p", "event_ts": f"{DAY}T10:00:00Z", "arrival_ts": f"{DAY}T10:01:00Z"}
    bad = dict(event, order_id=None)
    user: dict[str, object] = {"user_id": name, "updated_at": f"{DAY}T00:00:00Z", "age": "35"}
    rows: dict[str, list[dict[str, object]]] = {
        "events": [*([event] * events), bad],
        "users": [user],
    }
    for feed, lines in rows.items():
        folder = landing / feed / str(DAY)
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    load_and_archive(Settings.from_environment(), Path(sys.argv[1]))
