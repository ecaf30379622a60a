"""The messages of Spark's errors, wherever it runs: one line with a cause."""

from __future__ import annotations

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

# An embedded Spark's errors that PySpark has no class for come through its bridge to Java; when
# Java itself dies, the bridge is refused.
SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
_LONGEST = 500


def what_failed(error: BaseException) -> str:
    """The cause of an error of `SPARK_ERRORS` in one line of at most 500 characters."""
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return (
            f"Java has ended ({_first_line(str(error))}). It may have been stopped "
            "for the memory it used; INCREMENTAL_ASSETS_DRIVER_MEMORY sets how much it takes"
        )
    message = _first_line(_java_cause(error) if isinstance(error, Py4JJavaError) else str(error))
    if "S3AFileSystem not found" in message or "No FileSystem for scheme" in message:
        message += "; Spark has no client for this store: docs/object-stores.md has how to add one"
    return message


def _java_cause(error: Py4JJavaError) -> str:
    """The innermost Java exception, which has the reason."""
    cause = error.java_exception
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()) if cause is not None else str(error)


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:_LONGEST] if lines else "no reason given"
