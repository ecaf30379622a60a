"""Logs of many connectors of Debezium, each in the order in which its changes became true."""

from __future__ import annotations

import json
from typing import Any

from incremental_assets.changes.log_position import (
    PositionKind,
)


def postgres(op: str, lsn: int, commit: int | None, snapshot: str = "false") -> dict[str, Any]:
    sequence = json.dumps([commit and str(commit), str(lsn)])
    return {"op": op, "source": {"lsn": lsn, "sequence": sequence, "snapshot": snapshot}}


def mysql(op: str, file: str, pos: Any, row: int = 0, **source: Any) -> dict[str, Any]:
    transaction = {"transaction": source.pop("transaction")} if "transaction" in source else {}
    source |= {"file": file, "pos": pos, "row": row, "gtid": None}
    return {"op": op, "source": source, **transaction}


def change_table(op: str, commit: str, change: str | None, serial: Any = None) -> dict[str, Any]:
    source = {"commit_lsn": commit, "change_lsn": change, "event_serial_no": serial}
    return {"op": op, "source": source}


def oracle(op: str, commit_scn: str | None, scn: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "source": {"commit_scn": commit_scn, "scn": scn, "ssn": 0}, **more}


def redo(rs_id: str | None, ssn: int = 0) -> dict[str, Any]:
    source = {"commit_scn": "2122185", "scn": "2122184", "rs_id": rs_id, "ssn": ssn}
    return {"op": "u", "source": source}


def mongodb(op: str, ts_ms: int, ord_: int, **more: Any) -> dict[str, Any]:
    return {"op": op, "source": {"ts_ms": ts_ms, "ord": ord_, "collection": "c"}, **more}


def nth(total_order: Any) -> dict[str, Any]:
    return {"transaction": {"id": "1", "total_order": total_order, "data_collection_order": "1"}}


LOGS: dict[str, tuple[PositionKind, list[dict[str, Any]]]] = {
    "Postgres": (
        "lsn",
        [
            postgres("r", 1000, None, "last"),
            postgres("u", 1010, None),
            postgres("u", 1030, 1020),
            postgres("r", 1060, 1040, "incremental"),
            # The commit seen last does not count: this one was written before the transaction's.
            postgres("u", 1070, 1020),
            postgres("d", 1090, 1080),
        ],
    ),
    "Postgres, without a sequence until the connector was upgraded": (
        "lsn",
        [
            {"op": "c", "source": {"lsn": "999"}},
            {"op": "u", "source": {"lsn": 1000}},
            postgres("u", 1050, 1040),
        ],
    ),
    "Postgres, read where a change was": (
        "lsn",
        # Debezium's own create and update events have one lsn.
        [
            {"op": "c", "source": {"lsn": 24023128, "snapshot": True}},
            {"op": "u", "source": {"lsn": 24023128}},
        ],
    ),
    "MySQL": (
        "binlog",
        [
            mysql("r", "mysql-bin.000003", 154, snapshot="true"),
            mysql("c", "mysql-bin.000003", 154),
            mysql("u", "mysql-bin.000003", 484, 9),
            mysql("u", "mysql-bin.000003", "484", 10),
            mysql("u", "mysql-bin.000003", 1000),
            mysql("u", "mysql-bin.000009", 4),
            mysql("u", "mysql-bin.000010", 4),
            mysql("u", "db-1.log.1000000", 4),
            mysql("d", "db-1.log.1000000", 4294967295),
        ],
    ),
    "MySQL, in a compressed transaction": (
        "binlog",
        # One event of the log, in which each event's rows are counted from 0.
        [
            mysql("c", "mysql-bin.000003", 484, 0, **nth(1)),
            mysql("u", "mysql-bin.000003", 484, 7, **nth(8)),
            mysql("u", "mysql-bin.000003", 484, 0, **nth(9)),
            mysql("u", "mysql-bin.000003", 484, 1, **nth(10)),
        ],
    ),
    "SQL Server": (
        "commit_lsn",
        [
            change_table("r", "00000025:00000d98:00a2", None),
            change_table("c", "00000025:00000d98:00a2", "00000025:00000d98:0002", 1),
            change_table("u", "00000027:00000ac0:0007", "00000027:00000ac0:0002", "1"),
            change_table("u", "00000027:00000ac0:0007", "00000027:00000ac0:0002", "2"),
            change_table("u", "00000027:00000ac0:0007", "00000027:00000ac0:000a", "1"),
            change_table("u", "00000027:00000ac0:0010", "00000026:00000000:0001", "1"),
            change_table("d", "0000002A:00000001:0000", "00000027:00000db0:0005", "1"),
        ],
    ),
    "Db2": (
        "commit_lsn",
        [
            change_table(
                "c", "00000000:00001e36:000000000004a1b4", "00000000:00000000:000000000446140f"
            ),
            change_table(
                "u", "00000000:00001e36:000000000004a1b4", "00000000:00000000:ffffffff00000000"
            ),
            change_table(
                "u", "00000000:00001e37:0000000000000001", "00000000:00000000:0000000000000001"
            ),
            change_table(
                "u", "00000001:00000000:0000000000000000", "00000000:00000000:0000000000000001"
            ),
        ],
    ),
    "Informix": (
        "commit_lsn",
        [
            change_table("r", "0", "0"),
            change_table("c", "99", "-1"),
            change_table("u", "99", "9"),
            change_table("u", "99", "10"),
            change_table("u", "100", "8"),
        ],
    ),
    "Oracle": (
        "scn",
        [
            oracle("r", None, "2122180"),
            oracle("c", "2122185", "2122182"),
            oracle("u", "2122185", "2122184", **nth(2)),
            oracle("u", "2122185", "2122184", **nth("10")),
            oracle("u", "2122190", "2122181"),
        ],
    ),
    "Oracle, by its redo records": (
        "scn",
        [
            redo(" 0x000001.00000009.0010 "),
            redo("0x000001.00000010.0010"),
            redo("0x000001.00000010.00A0", ssn=0),
            redo("000001.00000010.00a0", ssn=1),
            redo("0x000001.00000010.00a0", ssn=1000),
            redo("000001.0000001f.0000"),
            redo("0x000001.ffffffff.ffff", ssn=98),
        ],
    ),
    "Oracle, by the row in a record that is not named so": (
        "scn",
        [redo("?", ssn=1), redo(None, ssn=2)],
    ),
    "MongoDB": (
        "oplog",
        [
            mongodb("r", 1558965508000, 31),
            mongodb("c", 1558965508000, 31, **nth(1)),
            mongodb("u", 1558965508000, 31, **nth(2)),
            mongodb("u", 1558965508000, 100),
            mongodb("d", 1558965509000, 1),
        ],
    ),
    "a log that has only times": (
        "time",
        [
            {"op": "r", "source": {"ts_ms": 0}, "ts_ms": 1},
            {"op": "c", "source": {"ts_ms": 1559033904000}, "ts_ms": 1559033905500},
            {"op": "u", "source": {"ts_ms": 1559033904000}, "ts_us": 1559033905500001},
            {"op": "u", "source": {"ts_ms": 1559033904000}, "ts_us": 1559033905500001, **nth(2)},
            {"op": "u", "source": {"ts_ms": "1559033904863"}, "ts_ms": 1},
            {"op": "u", "source": {"ts_us": 1559033904863001}, "ts_ms": 1},
            {"op": "u", "source": {"ts_ns": 1559033904863001002, "ts_ms": 1}, "ts_ms": 1},
            {"op": "u", "source": {}, "ts_ms": 1559033904864},
        ],
    ),
    "flattened Postgres": (
        "lsn",
        [
            {"__op": "r", "__lsn": 30, "__source_sequence": '[null,"30"]'},
            {"__op": "u", "__lsn": "40", "__sequence": '["35","40"]'},
            {"__op": "u", "__source_lsn": 48, "__source_sequence": '["35","48"]'},
        ],
    ),
    "flattened MySQL": (
        "binlog",
        [
            {"__op": "u", "__file": "b.000009", "__pos": 9},
            {"__op": "u", "__file": "b.000009", "__pos": "10"},
        ],
    ),
    "flattened, with times": (
        "time",
        [
            {"__op": "u", "__source_ts_ms": 1559033904863, "__ts_ms": 7},
            {
                "__op": "u",
                "__source_ts_ms": 1559033904863,
                "__ts_ms": 8,
                "__transaction_total_order": 1,
            },
            {
                "__op": "u",
                "__source_ts_ms": 1559033904863,
                "__ts_ms": 8,
                "__transaction_total_order": 2,
            },
            {"__op": "u", "__ts_ms": 1559033904864},
        ],
    ),
}
