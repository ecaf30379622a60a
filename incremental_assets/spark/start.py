"""Starting an embedded Spark, or the driver of a cluster, by PySpark with settings from a file.

PySpark writes the settings of a builder on Java's command line, which everybody on the machine can
list, object stores' secrets among them. Here they are in a file that only this user can read and
that is removed once Spark is up; `spark-submit`, which PySpark starts, gets its path.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from secrets import token_hex
from threading import Thread

from pyspark.sql import SparkSession

SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_STDERR = 2  # which Java inherits, whatever sys.stderr is
_INCUBATOR = re.compile(rb"WARNING: Using incubator modules: [^\n]*\n")
# Python was started by spark-submit: Java runs already, and PySpark writes no command line.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
# When the Spark of a session was started, in milliseconds since 1970.
_STARTED = "spark.app.startTime"
# What spark-submit resolves, and what counts for Java alone: it may arrive as something else.
_RESOLVED = (
    "spark.driver.",
    "spark.jars",
    "spark.files",
    "spark.archives",
    "spark.submit.",
    "spark.sql.warehouse.dir",
)


def is_submitted() -> bool:
    """Whether Python was started by spark-submit."""
    return _SUBMITTED in os.environ


def start(conf: Mapping[str, str], java_home: Path | None) -> SparkSession:
    """A session with these settings; one that is there already gets those that can be changed."""
    configured = SparkSession.builder.config(map=dict(conf))
    if is_submitted():
        return configured.getOrCreate()
    began = time.time()
    with _settings_in_a_file(conf, java_home):
        session = SparkSession.builder.getOrCreate()
        has = session.conf.getAll
        if all(has.get(n) == v for n, v in conf.items() if not n.startswith(_RESOLVED)):
            return session
        # Java was there without these settings, or PYSPARK_SUBMIT_ARGS has others.
        if int(has[_STARTED]) >= int(began * 1000):
            session.stop()
        return configured.getOrCreate()


def end_java(folder: str | None = None) -> None:
    """Kill the Java that this process started, if any; it prints nothing about its work.

    It and the scripts that start it are known by the folder of settings on their command line, this
    one or any of this process. Without /proc (macOS) they end by themselves when Python does.
    """
    known_by = os.fsencode(folder or _prefix())
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if known_by in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


@contextmanager
def _settings_in_a_file(conf: Mapping[str, str], java_home: Path | None) -> Iterator[None]:
    """Have PySpark start Java, if it has to, with these settings after those of the user."""
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--properties-file", type=Path)
    words = shlex.split(os.environ.get(SUBMIT_ARGS) or "pyspark-shell")
    theirs, words = options.parse_known_args(words)
    with tempfile.TemporaryDirectory(prefix=_prefix()) as folder:
        file = Path(folder) / "spark.conf"
        file.touch(mode=0o600)
        file.write_text(_text_of(theirs.properties_file) + as_properties(conf), encoding="utf-8")
        own = ["--load-spark-defaults", "--properties-file", str(file)]
        overrides = {SUBMIT_ARGS: shlex.join([*own, *words])}
        # The first python3 of the PATH may know no PySpark.
        overrides["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
        if java_home is not None:
            overrides["JAVA_HOME"] = str(java_home)
        # A process that ends meanwhile removes the file, and Java would report that it is missing.
        stop = atexit.register(partial(end_java, folder))
        try:
            with _environment(overrides), _without_warnings_of_java():
                yield
        finally:
            atexit.unregister(stop)


@contextmanager
def _without_warnings_of_java() -> Iterator[None]:
    """Leave one line out of what the Java that is started in the block writes to standard error.

    Spark adds an incubating module to Java's command line, and Java warns of it at each start;
    neither has a setting that ends this.
    """
    try:
        terminal = os.dup(_STDERR)
    except OSError:  # it is closed
        yield
        return
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    Thread(target=_pass_on, args=(reading, os.dup(terminal)), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(terminal, _STDERR)
        os.close(terminal)


def _pass_on(reading: int, terminal: int) -> None:
    """Copy what Java writes for as long as it lives; where nobody reads it, Java gets an error."""
    try:
        while written := os.read(reading, 65_536):
            left = _INCUBATOR.sub(b"", written)
            while left:
                left = left[os.write(terminal, left) :]
    except OSError:
        pass
    finally:
        os.close(reading)
        os.close(terminal)


@contextmanager
def _environment(overrides: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in overrides}
    os.environ.update(overrides)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def as_properties(conf: Mapping[str, str]) -> str:
    """Settings as the text of a file of Java's properties."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.items())


def _escaped(text: str) -> str:
    """Text in which nothing means anything to the reader of such a file."""
    plain = re.sub(r"[\\ =:#!]", r"\\\g<0>", text)
    return plain.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _text_of(path: Path | None) -> str:
    return path.read_text(encoding="utf-8") + "\n" if path else ""


def _prefix() -> str:
    """What only this process has: a host sees those of its containers, whose numbers are theirs."""
    return f"incremental-assets-{os.getpid()}-{_token(os.getpid())}-"


@lru_cache(maxsize=1)
def _token(process: int) -> str:
    """Of a process, which a fork of it does not share."""
    return token_hex(4)
