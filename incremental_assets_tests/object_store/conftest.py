"""What the tests of an object store share: a real server in a process, a bucket, and a table in it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date

import pytest
import s3fs

from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.spark.server import free_port
from incremental_assets.storage import open_store
from incremental_assets_tests.thorough import thorough

APP = "silver/sales"
DAY = date(2017, 1, 2)
AS_S3A = "object_store/test_s3.py, object_store/test_s3_sources.py: the same as s3a"
STARTS_WITHIN_SECONDS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server; its credentials are in the environment."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < deadline:
        time.sleep(0.1)
    url = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "for-the-test")
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            environment.setenv(name, "us-east-1")
        environment.setenv("AWS_ENDPOINT_URL", url)
        environment.setenv("AWS_ALLOW_HTTP", "true")
        s3fs.S3FileSystem.clear_instance_cache()  # it knows the server of the module before
        try:
            yield url
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def bucket(request: pytest.FixtureRequest, server: str) -> str:
    """The URI of an empty bucket, by the name that Spark knows or by the one a test asks for."""
    uri = f"{getattr(request, 'param', 's3a')}://shop-{time.monotonic_ns()}"
    store, inside = open_store(uri)
    store.mkdir(inside)
    return uri


either_name = pytest.mark.parametrize(
    "bucket",
    [pytest.param("s3", marks=thorough(AS_S3A)), "s3a"],
    indirect=True,
)


@pytest.fixture
def table(bucket: str) -> str:
    path = f"{bucket}/lake/silver/sales"
    ensure_table(path, APP, (("_batch", "long"), ("dt", "date")), ("dt",))
    return path
