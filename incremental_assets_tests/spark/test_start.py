"""Spark is started by PySpark, with settings that nobody else on the machine can list."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from incremental_assets.errors import INTERRUPTED, STOPPED
from incremental_assets.spark.session import LOGGING
from incremental_assets.spark.start import as_properties
from incremental_assets_tests.thorough import thorough

GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
PRELUDE = """
import os, threading, time
from pathlib import Path
from incremental_assets.settings import Settings
from incremental_assets.spark.session import session_conf, start_session

def javas():
    tasks = Path("/proc/self/task").glob("*/children")
    return [pid for task in tasks for pid in task.read_text().split()]

def words():
    return "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in javas())
"""
TWO_SESSIONS = """
from pyspark.sql.functions import udf
own = {"spark.app.name": "one", "spark.shop.secret": "hush # = hush"}
first = start_session(Settings.from_environment(), own)
java = javas()
print("hush" in words(), first.conf.get("spark.shop.secret"))
print(first.conf.get("spark.sql.ansi.enabled"))
print(first.sparkContext.master, first.conf.get("spark.sql.extensions"))
print(first.range(1).select(udf(lambda x: x + 41, "long")("id")).collect()[0][0])
print(first.conf.get("spark.shop.word"), first.conf.get("spark.app.name"))
print("-Dshop=1" in words())
first.stop()
second = start_session(Settings.from_environment(), {"spark.app.name": "two"})
print(len(second.range(8).collect()), second.conf.get("spark.app.name"), javas() == java)
print(os.environ["PYSPARK_SUBMIT_ARGS"], "PYSPARK_PYTHON" in os.environ)
print(*java)
"""
ITS_OWN = """
from pyspark.sql import SparkSession
jars = session_conf(Settings.from_environment())["spark.driver.extraClassPath"]
delta = {"spark.master": "local[1]", "spark.app.name": "theirs", "spark.driver.extraClassPath": jars}
theirs = SparkSession.builder.config(map=delta).getOrCreate()
if STOPPED:
    theirs.stop()
ours = start_session(Settings.from_environment(), {"spark.shop.secret": "hush"})
print(ours.sql("SELECT 7").first()[0], ours.sparkContext.master, ours.sparkContext.appName)
print(ours.conf.get("spark.sql.session.timeZone"), ours.conf.get("spark.shop.secret"))
print("hush" in words())
"""
AS_IT_IS = thorough("spark/test_start.py: a session as it is")
# A command that starts Spark in its main thread, or in another as the tables of a run do.
STARTING = """
import contextlib
from incremental_assets.errors import SparkUnavailableError
from incremental_assets.cli import main
from incremental_assets.cli.context import lazy_spark
from incremental_assets.cli.interrupts import end_quietly

def start(settings):
    with contextlib.suppress(SparkUnavailableError):  # as Java ends before the command does
        start_session(settings)

@main.command()
def load():
    settings = Settings.from_environment()
    if OWN_THREAD:
        threading.Thread(target=start, args=(settings,), daemon=True).start()
        time.sleep(60)
    lazy_spark(settings)()

end_quietly()
main(["load"])
"""


def python(text: str, folder: Path, **env: str) -> subprocess.Popen[str]:
    """A Python of its own, whose temporary files lie in the folder."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + text],
        env={**os.environ, **env, "TMPDIR": str(folder)},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fake_java(folder: Path, script: str) -> str:
    """A JAVA_HOME whose java is a shell script."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    (folder / "java" / "release").write_text('JAVA_VERSION="17.0.9"\n')
    return str(folder / "java")


def is_running(pid: int) -> bool:
    """Whether it still runs, a moment later: Java tidies up behind itself."""
    wait = ["timeout", "20", "tail", f"--pid={pid}", "-f", "/dev/null"]
    return subprocess.run(wait, check=False).returncode != 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        pytest.param("pyspark-shell", "default", id="as it is"),
        pytest.param(
            "--master local[1] --conf spark.sql.extensions=a.b --conf spark.shop.word=told "
            "pyspark-shell",
            "told",
            id="submitted",
            marks=AS_IT_IS,
        ),
        pytest.param(
            "--properties-file own.conf pyspark-shell", "told", id="of a file", marks=AS_IT_IS
        ),
    ],
)
def test_sessions_of_a_process_share_a_java_that_ends_with_it_and_keep_the_defaults_of_others(
    tmp_path: Path, arguments: str, word: str
) -> None:
    (tmp_path / "own.conf").write_text("spark.shop.word told\nspark.shop.secret theirs")
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.shop.word default\nspark.app.name theirs\nspark.driver.defaultJavaOptions -Dshop=1\n"
    )
    path = os.environ["PATH"].split(os.pathsep)
    path = [p for p in path if p != str(Path(sys.executable).parent)]  # as if not activated

    program = python(
        TWO_SESSIONS,
        tmp_path,
        PYSPARK_SUBMIT_ARGS=arguments,
        PATH=os.pathsep.join(path),
        SPARK_CONF_DIR=str(tmp_path),
    )

    out, err = program.communicate(timeout=300)
    assert program.returncode == 0, err
    *lines, java = out.splitlines()
    assert lines == [
        "False hush # = hush",
        "true",
        "local[*] io.delta.sql.DeltaSparkSessionExtension",
        "41",
        f"{word} one",
        "True",
        "8 two True",
        f"{arguments} False",
    ]
    assert not is_running(int(java))
    assert not list(tmp_path.rglob("spark.conf"))


@thorough("loaders/test_main.py, spark/test_start.py: the sessions of loaders")
def test_a_session_of_the_user_is_taken_as_it_is(tmp_path: Path) -> None:
    program = python(ITS_OWN.replace("STOPPED", "False"), tmp_path)

    out, err = program.communicate(timeout=300)
    assert out == "7 local[1] theirs\nUTC hush\nFalse\n", err


@thorough("spark/test_start.py: a session as it is")
def test_a_java_that_is_left_of_the_user_gets_our_settings(tmp_path: Path) -> None:
    program = python(ITS_OWN.replace("STOPPED", "True"), tmp_path)

    out, err = program.communicate(timeout=300)
    assert out == "7 local[*] incremental_assets\nUTC hush\nFalse\n", err


def test_a_java_that_ends_is_reported(tmp_path: Path) -> None:
    text = """
try:
    start_session(Settings.from_environment())
except Exception as error:
    print(type(error).__name__, error)
print("PYSPARK_SUBMIT_ARGS" in os.environ, os.environ["JAVA_HOME"])
"""
    warning = "WARNING: Using incubator modules: jdk.incubator.vector"
    home = fake_java(tmp_path, f"echo {warning} >&2\necho it ends >&2\nexit 3")

    program = python(text, tmp_path, JAVA_HOME=home)

    out, err = program.communicate(timeout=60)
    assert ("it ends" in err, "incubator" in err) == (True, False)
    error, after = out.splitlines()
    assert error.startswith("SparkUnavailableError Spark cannot be started (an embedded Spark): ")
    assert "DRIVER_MEMORY" in error
    assert after == f"False {home}"
    assert not list(tmp_path.glob("incremental-assets-*"))


@pytest.mark.parametrize(
    "own_thread",
    [pytest.param(False, marks=thorough("spark/test_start.py: in a thread of its own")), True],
)
def test_an_interrupt_while_spark_starts_leaves_one_sentence_and_no_java(
    tmp_path: Path, own_thread: bool
) -> None:
    home = fake_java(tmp_path, f"echo $$ >> {tmp_path}/java.pid\nwhile true; do sleep 0.1; done")
    program = python(STARTING.replace("OWN_THREAD", str(own_thread)), tmp_path, JAVA_HOME=home)
    written = tmp_path / "java.pid"
    while not (written.exists() and written.read_text().endswith("\n")):
        assert program.poll() is None, program.communicate()[1]

    program.send_signal(signal.SIGINT)

    out, err = program.communicate(timeout=20)
    assert program.returncode == INTERRUPTED
    assert (out, err.strip()) == ("", STOPPED)
    assert not is_running(int((tmp_path / "java.pid").read_text()))
    assert not list(tmp_path.glob("incremental-assets-*"))


def test_the_file_of_settings_is_for_this_user_alone(tmp_path: Path) -> None:
    home = fake_java(
        tmp_path,
        'for word; do case "$word" in */spark.conf) cp -p "$word" "$(dirname "$word")/.." ;; esac\n'
        "done\nexit 3",
    )
    text = """
start_session(Settings.from_environment(), {"spark.a": "hush"})
"""
    python(text, tmp_path, JAVA_HOME=home).communicate(timeout=60)

    assert (tmp_path / "spark.conf").stat().st_mode & 0o777 == 0o600
    assert "spark.a=hush\n" in (tmp_path / "spark.conf").read_text()


def test_settings_are_written_so_that_java_reads_what_was_set() -> None:
    text = as_properties({"spark.a": "one two", "b:c": "x=#\\y\n!"})

    assert text == "spark.a=one\\ two\nb\\:c=x\\=\\#\\\\y\\n\\!\n"


def test_the_level_of_the_gateway_is_that_of_the_root_so_spark_does_not_tell_of_it() -> None:
    lines = [line.split(" = ") for line in LOGGING.read_text().splitlines() if " = " in line]
    properties = dict(lines)

    assert properties["logger.gateway.name"] == GATEWAY
    assert properties["logger.gateway.level"] == properties["rootLogger.level"]
