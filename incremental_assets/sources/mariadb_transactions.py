"""Since when statements run in a MariaDB server, and transactions are open."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from incremental_assets.errors import SourceError
from incremental_assets.sources.database import DbConnection, Settled, ask, utc
from incremental_assets.sources.dialect import LAG

_DENIED = 1227
# The server counts a transaction from its first row on, in whole seconds. The statement that began
# it has the time of its own start: before the table's lock that it may have waited for.
_BEFORE_FIRST_ROW = timedelta(minutes=1)
# A statement has the time of its own start, also while it waits to begin its transaction. Events
# have the command of those who have not logged in yet.
_RUNNING = """
SELECT ID, COMMAND, UTC_TIMESTAMP(6) - INTERVAL TIME_MS * 1000 MICROSECOND
FROM information_schema.PROCESSLIST
WHERE ID <> CONNECTION_ID() AND TIME_MS > 0 AND USER <> 'unauthenticated user'
  AND COMMAND NOT IN ('Sleep', 'Daemon', 'Binlog Dump')
"""
_TRANSACTIONS = """
SELECT trx_mysql_thread_id, trx_is_read_only, {started} FROM information_schema.INNODB_TRX
"""
_COMMITTED_ELSEWHERE = """
SHOW GLOBAL VARIABLES WHERE Value <> 'OFF' AND Variable_name IN ('read_only', 'wsrep_on')
"""
# The server shows transactions as they were when they were last asked for, for a tenth of a second.
_STALE, _TRIES = 0.12, 25


def settled(connection: DbConnection, clock: datetime) -> Settled:
    """Up to when every transaction that began has ended; `clock` was the time before.

    Raises SourceError if the server does not show it, or not to this user.
    """
    if ask(connection, _COMMITTED_ELSEWHERE):
        raise SourceError(
            "the server is read-only or in a cluster, and does not know the transactions that "
            f"are open elsewhere; {LAG}"
        )
    running, transactions = _open(connection)
    if any(command.startswith("Slave") for _, command, _ in running):
        raise SourceError(
            f"a replica does not know the transactions that are open at its primary; {LAG}"
        )
    if not all(thread for thread, *_ in transactions) and ask(connection, "XA RECOVER"):
        raise SourceError(
            "a prepared transaction (XA RECOVER) has outlived its connection or the server, "
            f"and it is unknown since when it is open; end it, or {LAG}"
        )
    reports = {thread for thread, is_read_only, _ in transactions if is_read_only}
    begun = [utc(at) for thread, _, at in running if thread not in reports]
    begun += [
        utc(at) - _BEFORE_FIRST_ROW for _, is_read_only, at in transactions if not is_read_only
    ]
    until = min((clock, *begun))
    why = "" if until == clock else "a transaction that may be open since then has ended"
    return Settled(until, clock, why)


def _open(connection: DbConnection) -> tuple[Sequence[Any], Sequence[Any]]:
    """The statements that run, and the open transactions: a thread, what it is, since when.

    The statements are asked for first: what ends its statement afterwards has its transaction among
    those that are shown. What the server shows of these may be older while others ask, so it is
    asked until a transaction that was begun for this is among them.
    """
    import pymysql  # deferred: an extra

    ((own,),) = ask(connection, "SELECT CONNECTION_ID()")
    running = ask(connection, _RUNNING)
    for _ in range(_TRIES):
        time.sleep(_STALE)
        connection.cursor().execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            found = ask(connection, _TRANSACTIONS.format(started=in_utc("trx_started")))
        except pymysql.OperationalError as error:
            if error.args[0] != _DENIED:
                raise
            raise SourceError(
                "the user may not see since when other transactions are open, which may still "
                f"bring rows below the watermark; GRANT PROCESS ON *.* to it, or {LAG}"
            ) from error
        finally:
            connection.cursor().execute("ROLLBACK")
        others = [each for each in found if each[0] != own]
        if len(others) < len(found):
            return running, others
    raise SourceError(f"the server does not show which transactions are open; {LAG}")


def in_utc(value: str) -> str:
    """A time in the zone of the server's system; in the hour that comes twice a year, the first."""
    once = f"CONVERT_TZ({value}, 'SYSTEM', '+00:00')"
    before = f"({once} - INTERVAL 1 HOUR)"
    return f"IF(CONVERT_TZ({before}, '+00:00', 'SYSTEM') = {value}, {before}, {once})"
