"""The password goes to MariaDB alone, and accounts that cannot log in are told why."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.sources.jdbc import FixedJdbc, Jdbc
from incremental_assets_tests.databases.impostor import Impostor, impostor
from incremental_assets_tests.databases.mariadb import Database, MariaDB
from incremental_assets_tests.databases.server import PASSWORD

QUERY = "SELECT 1 AS one"
REFUSED = r"FAILED_JDBC\.CONNECTION"


def read_by_spark(spark: SparkSession, maria: Database, other: Impostor, options: str) -> None:
    """Read of another server what was inspected of the real one."""
    fixed = Jdbc(maria.url, query=QUERY).fix()
    assert isinstance(fixed, FixedJdbc)
    with Frames.over(spark) as frames:
        replace(fixed, of=Jdbc(other.url + options, query=QUERY)).rows(frames).collect()


def test_a_server_without_tls_gets_no_password_if_it_has_to_be_verified(
    spark: SparkSession, mariadb: MariaDB, maria: Database
) -> None:
    options = f"?sslMode=verify-full&serverSslCert={mariadb.certificate}"
    with impostor(maria, "mysql_clear_password") as other:
        with pytest.raises(SourceError, match="SSL is required but the server doesn't support it"):
            Jdbc(other.url + options, query=QUERY).fix()
        with pytest.raises(AnalysisException, match=REFUSED):
            read_by_spark(spark, maria, other, options)
    assert other.told == b""


@pytest.mark.parametrize(
    "plugin", ["mysql_clear_password", "dialog", "sha256_password", "caching_sha2_password"]
)
def test_no_server_gets_the_password_itself_unless_it_was_verified(
    maria: Database, plugin: str
) -> None:
    with (
        impostor(maria, plugin) as other,
        pytest.raises(SourceError, match=rf"{plugin}.*sslMode=verify-full"),
    ):
        Jdbc(other.url, query=QUERY).fix()
    assert b"loader" in other.told
    assert PASSWORD.encode() not in other.told


def test_nor_does_a_server_that_spark_reads(spark: SparkSession, maria: Database) -> None:
    for plugin in ("mysql_clear_password", "dialog"):
        with impostor(maria, plugin) as other, pytest.raises(AnalysisException, match=REFUSED):
            read_by_spark(spark, maria, other, "")
        assert b"loader" in other.told
        assert PASSWORD.encode() not in other.told


@pytest.mark.skipif(find_spec("nacl") is not None, reason="PyNaCl is there")
def test_an_account_whose_plugin_needs_a_package_is_told_which(maria: Database) -> None:
    with (
        impostor(maria, "client_ed25519") as other,
        pytest.raises(SourceError, match=r"pynacl.*pip install PyNaCl"),
    ):
        Jdbc(other.url, query=QUERY).fix()
