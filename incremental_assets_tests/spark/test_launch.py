"""The Java of an embedded Spark is started as Spark's own launcher would, or by PySpark itself."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext

from incremental_assets.errors import SparkUnavailableError
from incremental_assets.settings import Settings
from incremental_assets.spark import launch
from incremental_assets.spark.java import java_command
from incremental_assets.spark.launch import (
    GATEWAY,
    SUBMIT,
    archive_path,
    can_launch,
    java_arguments,
    launched,
)
from incremental_assets.spark.properties import as_properties, write_privately
from incremental_assets.spark.session import LOGGING, session_conf

HOME = Path(pyspark.__file__).parent
FILE = Path("/nowhere/spark.conf")


@pytest.fixture
def conf(settings: Settings) -> dict[str, str]:
    return session_conf(settings)


@pytest.fixture
def no_java_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)


def by_sparks_launcher(settings: Settings, conf: dict[str, str]) -> list[str]:
    """The command that the script `spark-submit` would run."""
    said = [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    done = subprocess.run(
        [
            *(str(java_command(settings.java_home)), "-cp", f"{HOME}/jars/*"),
            *("org.apache.spark.launcher.Main", SUBMIT, *said, "pyspark-shell"),
        ],
        env={**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.lstrip("\0\n").rstrip("\0\n").split("\0")


def apart(command: list[str]) -> tuple[str, list[str], list[str]]:
    """A command's Java, the jars of its class path, and its options."""
    path = command.index("-cp")
    end = next(i for i, word in enumerate(command) if word in {SUBMIT, GATEWAY})
    return command[0], command[path + 1].split(os.pathsep), command[path + 2 : end]


def test_the_command_is_the_one_of_sparks_own_launcher(
    settings: Settings, conf: dict[str, str]
) -> None:
    java, path, options = apart(
        java_arguments(conf, replace(settings, cache=Path("/nowhere")), FILE)
    )

    theirs = apart(by_sparks_launcher(settings, conf))
    assert Path(java).resolve() == Path(theirs[0]).resolve()
    assert sorted(options) == sorted(theirs[2])
    extra = conf["spark.driver.extraClassPath"].split(os.pathsep)
    first = next((HOME / "jars").glob("slf4j-api-*"))
    assert theirs[1] == [*extra, f"{HOME}/conf", str(first), f"{HOME}/jars/*"]
    assert path[: len(extra) + 1] == [*extra, str(first)]
    assert sorted(path[len(extra) :]) == sorted(map(str, (HOME / "jars").glob("*.jar")))


def test_secrets_do_not_stand_where_everybody_can_list_them(
    settings: Settings, conf: dict[str, str]
) -> None:
    command = java_arguments({**conf, "spark.hadoop.fs.s3a.secret.key": "hush"}, settings, FILE)

    assert command[-1] == GATEWAY
    assert "hush" not in " ".join(command)


@pytest.mark.parametrize(
    ("extra", "arguments", "words"),
    [
        pytest.param(
            {}, "--packages a:b:1 pyspark-shell", ["--packages", "a:b:1", "pyspark-shell"]
        ),
        pytest.param({"spark.jars.packages": "a:b:1"}, "", ["pyspark-shell"]),
        pytest.param({"spark.files": "/a file"}, "", ["pyspark-shell"]),
    ],
)
def test_what_is_to_be_resolved_first_is_submitted(
    settings: Settings,
    conf: dict[str, str],
    extra: dict[str, str],
    arguments: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)

    command = java_arguments({**conf, **extra}, settings, FILE)

    said = command[command.index(SUBMIT) + 1 :]
    assert said == ["--properties-file", str(FILE), *words]


@pytest.mark.parametrize(
    "environment",
    [
        {"SPARK_HOME": "/opt/spark"},
        {"SPARK_CONF_DIR": "/etc/spark"},
        {"SPARK_DRIVER_MEMORY": "9g"},
        {"SPARK_SUBMIT_OPTS": "-Da=b"},
        {"HADOOP_CONF_DIR": "/etc/hadoop"},
        {"PYSPARK_GATEWAY_PORT": "1"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-memory 9g pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.memory=9g pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--properties-file my.conf pyspark-shell"},
    ],
    ids=str,
)
def test_who_has_set_spark_up_himself_is_served_by_pyspark(
    conf: dict[str, str], environment: dict[str, str], no_java_yet: None
) -> None:
    assert can_launch(conf, {})
    assert can_launch(conf, {"PYSPARK_SUBMIT_ARGS": "--packages a:b:1 pyspark-shell"})
    assert not can_launch(conf, environment)


@pytest.mark.parametrize(
    "extra",
    [
        {"spark.master": "spark://head:7077"},
        {"spark.driver.defaultJavaOptions": "-Da=b"},
        {"spark.driver.extraLibraryPath": "/opt/lib"},
    ],
    ids=str,
)
def test_a_spark_that_only_its_launcher_can_start_is_left_to_it(
    conf: dict[str, str], extra: dict[str, str], no_java_yet: None
) -> None:
    assert not can_launch({**conf, **extra}, {})


def test_a_configuration_beside_pysparks_jars_is_left_to_pyspark(
    conf: dict[str, str], tmp_path: Path, no_java_yet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_HOME", tmp_path)
    assert can_launch(conf, {})
    (tmp_path / "conf").mkdir()

    assert not can_launch(conf, {})


def test_a_class_path_may_name_what_is_missing_or_all_of_a_folder(
    settings: Settings, conf: dict[str, str]
) -> None:
    conf = {**conf, "spark.driver.extraClassPath": "/nowhere/own.jar:/opt/lib/*"}

    command = java_arguments(conf, settings, FILE)

    assert apart(command)[1][:2] == ["/nowhere/own.jar", "/opt/lib/*"]


def test_no_second_java_is_started_beside_the_one_of_this_process(
    conf: dict[str, str], spark: object
) -> None:
    assert not can_launch(conf, {})


@pytest.fixture
def own_java(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with a Java that ends at once, with status 3."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    return replace(settings, java_home=tmp_path / "java")


def test_a_java_that_ends_is_told(conf: dict[str, str], own_java: Settings) -> None:
    with (
        pytest.raises(SparkUnavailableError, match=r"Java ended .* \(exit status 3\)"),
        launched(conf, own_java),
    ):
        raise AssertionError("there is no Java to talk to")

    assert not [name for name in os.environ if name.startswith("PYSPARK_GATEWAY")]


def test_an_archive_is_only_of_its_own_jars_and_java(
    settings: Settings, conf: dict[str, str], own_java: Settings, tmp_path: Path
) -> None:
    jar = tmp_path / "own.jar"
    jar.write_bytes(b"one")
    conf = {**conf, "spark.driver.extraClassPath": str(jar)}
    first = archive_path(conf, settings)
    assert archive_path(conf, settings) == first
    assert archive_path(conf, own_java) != first
    jar.write_bytes(b"other")

    other = archive_path(conf, settings)

    assert other != first
    assert first.parent == other.parent == settings.cache


def test_the_archive_is_used_where_there_is_one(
    settings: Settings, conf: dict[str, str], tmp_path: Path
) -> None:
    settings = replace(settings, cache=tmp_path)
    assert "-Xshare:auto" not in java_arguments(conf, settings, FILE)
    archive = archive_path(conf, settings)
    archive.touch()

    assert f"-XX:SharedArchiveFile={archive}" in java_arguments(conf, settings, FILE)


_TWO_SESSIONS = """
import os, pathlib, subprocess, tempfile
from pyspark.sql.functions import udf
from incremental_assets.settings import Settings
from incremental_assets.spark import launch
from incremental_assets.spark.session import start_session
own = {"spark.app.name": "one", "spark.shop.secret": "hush # = hush"}
first = start_session(Settings.from_environment(), own)
java = launch._java.pid
print("hush" in pathlib.Path(f"/proc/{java}/cmdline").read_text(), first.conf.get("spark.shop.secret"))
print(first.range(7).count(), first.conf.get("spark.sql.ansi.enabled"))
print(first.range(1).select(udf(lambda x: x + 41, "long")("id")).collect()[0][0])
print(first.conf.get("spark.shop.word", "none"), first.conf.get("spark.app.name"))
first.stop()
second = start_session(Settings.from_environment(), {"spark.app.name": "two"})
print(second.range(8).count(), second.conf.get("spark.app.name"), launch._java.pid == java)
print([name for name in os.environ if name.startswith(("PYSPARK_GATEWAY", "PYSPARK_PYTHON"))])
print(java)
"""


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        pytest.param("", "none", id="as it is"),
        pytest.param("--conf spark.shop.word=told pyspark-shell", "told", id="submitted"),
        pytest.param("--properties-file own.conf pyspark-shell", "told", id="by Spark's script"),
    ],
)
def test_sessions_of_a_process_share_a_java_that_ends_with_it(
    tmp_path: Path, arguments: str, word: str
) -> None:
    (tmp_path / "own.conf").write_text("spark.shop.word told\nspark.shop.secret theirs")
    path = without_this_python()
    if "--properties-file" in arguments:  # what Spark's script starts finds its Python by itself
        path = os.pathsep.join([str(Path(sys.executable).parent), path])
    own = {"PYSPARK_SUBMIT_ARGS": arguments, "PATH": path}
    done = subprocess.run(
        [sys.executable, "-c", _TWO_SESSIONS],
        env={**os.environ, **own, "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    *said, java = done.stdout.splitlines()
    assert said == ["False hush # = hush", "7 true", "41", f"{word} one", "8 two True", "[]"]
    assert not is_running(int(java)), shlex.join(done.args)
    assert not list(tmp_path.rglob("spark.conf"))


def without_this_python() -> str:
    """A PATH as of a shell in which the environment of this Python was not activated."""
    own = str(Path(sys.executable).parent)
    return os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if p != own)


def is_running(pid: int) -> bool:
    """Whether it still runs, a moment later: Java tidies up behind itself."""
    wait = ["timeout", "20", "tail", f"--pid={pid}", "-f", "/dev/null"]
    waited = subprocess.run(wait, check=False)
    return waited.returncode != 0


def test_the_file_of_settings_is_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"

    write_privately(path, as_properties({"spark.a": "one two", "b:c": "x=#\\y\n!"}))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "spark.a=one\\ two\nb\\:c=x\\=\\#\\\\y\\n\\!\n"


def test_the_level_of_the_gateway_is_that_of_the_root_so_spark_does_not_tell_of_it() -> None:
    lines = [line.split(" = ") for line in LOGGING.read_text().splitlines() if " = " in line]
    told = dict(lines)

    assert told["logger.gateway.name"] == GATEWAY
    assert told["logger.gateway.level"] == told["rootLogger.level"]
