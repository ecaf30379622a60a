"""Starting the Java of an embedded Spark at once, in place of through Spark's shell scripts.

PySpark starts a script that starts a Java that says how the wanted Java is started: half a second.
Here the wanted Java is started itself, with what Spark's own launcher would tell it. Where somebody
has set Spark up in his own way (SPARK_HOME, Hadoop's settings, ...), the script is started.

Either way settings reach Java in a file that only this user can read and that is removed once it
was read: PySpark writes them on the command line, which everybody on the machine can list.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread

import pyspark
from pyspark import SparkContext

from incremental_assets.errors import SparkUnavailableError
from incremental_assets.settings import Settings
from incremental_assets.spark.java import java_command, release_of
from incremental_assets.spark.properties import as_properties, text_of, write_privately

# What Spark's own launcher adds, whatever Java it is.
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang",
            "java.lang.invoke",
            "java.lang.reflect",
            "java.io",
            "java.net",
            "java.nio",
            "java.util",
            "java.util.concurrent",
            "java.util.concurrent.atomic",
            "jdk.internal.ref",
            "sun.nio.ch",
            "sun.nio.cs",
            "sun.security.action",
            "sun.util.calendar",
        )
    ),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
_HOME = Path(pyspark.__file__).parent
GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
SUBMIT = "org.apache.spark.deploy.SparkSubmit"
STARTS_WITHIN_SECONDS = 300.0  # packages may have to be downloaded

SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
# What only Spark's scripts and their launcher understand, or who starts Python from Spark.
OWN_SETUP = (
    "PYSPARK_GATEWAY_PORT",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_CLASSPATH",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_MEM",
    "SPARK_SUBMIT_OPTS",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)
_OWN_SETTINGS = ("spark.driver.extraLibraryPath", "spark.driver.defaultJavaOptions")
# What is resolved or copied before there is a session.
_SUBMITTED = ("spark.jars", "spark.files", "spark.archives", "spark.submit.")
_FOR_JAVA = ("spark.driver.extraJavaOptions", "spark.driver.extraClassPath")

# It ends when its standard input does, which this process holds open.
_java: subprocess.Popen[bytes] | None = None


def can_launch(conf: Mapping[str, str], environment: Mapping[str, str] | None = None) -> bool:
    """Whether Java can be started from here: nobody set Spark up in his own way, none is running.

    PySpark keeps its Java for as long as Python lives, also when a session is stopped.
    """
    env = os.environ if environment is None else environment
    return (
        conf.get("spark.master", "").startswith("local")
        and not any(env.get(name) for name in OWN_SETUP)
        and not (_HOME / "conf").exists()
        and not any(name.startswith(_OWN_SETTINGS) for name in conf)
        and not any(
            word.startswith(("--driver", "--properties", "spark.driver."))
            for word in _submit_words(env)
        )
        and sys.platform != "win32"
        and SparkContext._gateway is None
    )


@contextmanager
def launched(conf: Mapping[str, str], settings: Settings) -> Iterator[None]:
    """Start Java, and let the session that is made inside find it, as spark-submit's programs do.

    Raises SparkUnavailableError if Java ends before it can be talked to.
    """
    told = {}
    if "PYSPARK_PYTHON" not in os.environ:  # the first python3 of the PATH may know no PySpark
        told["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        properties = Path(folder) / "spark.conf"
        own = {name: value for name, value in conf.items() if name not in _FOR_JAVA}
        command = java_arguments(conf, settings, properties)
        if SUBMIT in command:
            write_privately(properties, as_properties(own))
        told |= _started(command, Path(folder))
    with _in_environment(told):
        yield


def needs_java(conf: Mapping[str, str], environment: Mapping[str, str] | None = None) -> bool:
    """Whether a session of these settings would make PySpark start a Java."""
    env = os.environ if environment is None else environment
    return (
        "spark.master" in conf
        and not env.get("PYSPARK_GATEWAY_PORT")
        and sys.platform != "win32"
        and SparkContext._gateway is None
    )


@contextmanager
def submitted(conf: Mapping[str, str]) -> Iterator[None]:
    """Start Java by the script of the Spark that somebody has set up, as PySpark would.

    Raises SparkUnavailableError if Java ends before it can be talked to.
    """
    home = Path(os.environ.get("SPARK_HOME") or _HOME)
    theirs, words = _properties_file(_submit_words(os.environ) or ["pyspark-shell"])
    usual = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    with tempfile.TemporaryDirectory() as folder:
        properties = Path(folder) / "spark.conf"
        write_privately(properties, text_of(theirs or usual) + as_properties(conf))
        script = [str(home / "bin" / "spark-submit"), "--properties-file", str(properties)]
        told = _started([*script, *words], Path(folder))
    with _in_environment(told):
        yield


def end_java() -> None:
    """Kill the Java that was started from here, if any: it says no word of what it was at."""
    if _java is not None:
        _java.kill()


def _started(command: list[str], folder: Path) -> dict[str, str]:
    """Start Java; what PySpark has to find in the environment to talk to it."""
    global _java  # noqa: PLW0603 - one a process, and it must outlive whoever asked for it
    info = folder / "connection"
    _java = _start(command, info)
    # PySpark imports pandas at its first call to Java; here that goes on while Java starts.
    Thread(target=import_module, args=("pyspark.testing.utils",), daemon=True).start()
    port, secret = _answer(_java, info)
    return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}


@contextmanager
def _in_environment(told: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            del os.environ[name]


def java_arguments(conf: Mapping[str, str], settings: Settings, properties: Path) -> list[str]:
    """The command that Spark's own launcher would start; `properties` is a file of the settings.

    Settings that Java need not know are not in the command: they reach Spark with the session, or
    before it in the file, and who lists the machine's processes does not see them.
    """
    archive = archive_path(conf, settings)
    shared = [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive.exists() else []
    return [
        str(java_command(settings.java_home)),
        "-cp",
        os.pathsep.join(_class_path(conf)),
        f"-Xmx{conf.get('spark.driver.memory', '1g')}",
        *shlex.split(conf.get("spark.driver.extraJavaOptions", "")),
        *shared,
        *MODULE_OPTIONS,
        *_program(conf, properties),
    ]


def archive_path(conf: Mapping[str, str], settings: Settings) -> Path:
    """Where the class-data archive for this Java and these jars is, or would be.

    Java takes an archive only for the very jars that it was made of, and says nothing where it
    does not: the name tells them apart.
    """
    java = str(java_command(settings.java_home))
    parts = [str(Path(java).resolve()), release_of(java)]
    parts += map(_seen, _class_path(conf))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return settings.cache / f"spark-{digest[:16]}.jsa"


def _seen(path: str) -> str:
    """A part of a class path as Java would look at it; it may be missing, or stand for several."""
    try:
        found = Path(path).stat()
    except OSError:
        return path
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def _class_path(conf: Mapping[str, str]) -> list[str]:
    jars = sorted((_HOME / "jars").glob("*.jar"))
    # Others hold classes of that name, too, and older ones.
    jars.sort(key=lambda jar: not jar.name.startswith("slf4j-api"))
    extra = conf.get("spark.driver.extraClassPath", "").split(os.pathsep)
    return [*filter(None, extra), *map(str, jars)]


def _program(conf: Mapping[str, str], properties: Path) -> list[str]:
    words = _submit_words(os.environ)
    if not words and not any(name.startswith(_SUBMITTED) for name in conf):
        return [GATEWAY]
    return [SUBMIT, "--properties-file", str(properties), *(words or ["pyspark-shell"])]


def _submit_words(environment: Mapping[str, str]) -> list[str]:
    return shlex.split(environment.get(SUBMIT_ARGS, ""))


def _properties_file(words: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The file of settings that somebody names himself, and the other words."""
    left: list[str] = []
    found, rest = None, iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if name == "--properties-file":
            found = Path(value or next(rest, ""))
        else:
            left.append(word)
    return found, left


def _start(command: list[str], info: Path) -> subprocess.Popen[bytes]:
    told = {
        "SPARK_HOME": os.environ.get("SPARK_HOME") or str(_HOME),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
    }
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env={**os.environ, **told},
        preexec_fn=_leave_interrupts_to_python,  # noqa: PLW1509 - as PySpark starts it
    )


def _leave_interrupts_to_python() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _answer(java: subprocess.Popen[bytes], info: Path) -> tuple[int, str]:
    """Where Java listens, and the secret it wants to hear."""
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while not info.exists():
        if java.poll() is not None or time.monotonic() > deadline:
            what = "did not answer" if java.returncode is None else "ended"
            java.kill()
            raise SparkUnavailableError(
                f"Java {what} while Spark was started (exit status {java.wait()}). Look at what it "
                "printed above; INCREMENTAL_ASSETS_DRIVER_MEMORY sets how much memory it takes."
            )
        time.sleep(0.01)
    told = info.read_bytes()
    port, length = struct.unpack_from(">ii", told)
    return port, told[8 : 8 + length].decode()
