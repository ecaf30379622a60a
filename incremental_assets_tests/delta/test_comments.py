"""Comments in the log of a table: written once, and without a row that changes."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import Any

import polars as pl
from deltalake import DeltaTable

from incremental_assets.delta.comments import Comments, missing_comments, write_comments
from incremental_assets.delta.delta_table import add_columns
from incremental_assets.delta.writable import fields_of
from incremental_assets.delta_protocol.commit import commit_files, retried_commit
from incremental_assets.descriptions import LONGEST_COMMENT, comment_of

SALES = Comments("Sales, by line.", {"qty": "Pieces.", "price": "Of one piece.", "gone": "…"})


def made(folder: Path) -> str:
    path = str(folder / "sales")
    rows = pl.DataFrame({"order_id": ["a", "b"], "qty": [1, 2], "price": [2.5, 2.5]})
    rows.write_delta(path, delta_write_options={"name": "silver/sales"})
    return path


def told(path: str) -> dict[str, Any]:
    return {f["name"]: f["metadata"].get("comment") for f in fields_of(DeltaTable(path))}


def test_a_table_gets_the_comments_that_it_lacks_and_no_commit_for_those_it_has(
    tmp_path: Path,
) -> None:
    path = made(tmp_path)
    DeltaTable(path).alter.set_column_metadata("order_id", {"comment": "By hand."})

    written = write_comments(path, SALES)

    table = DeltaTable(path)
    assert written == 3
    assert table.version() == 4
    assert (table.metadata().name, table.metadata().description) == ("silver/sales", SALES.table)
    assert told(path) == {"order_id": "By hand.", "qty": "Pieces.", "price": "Of one piece."}
    assert not missing_comments(table, SALES)
    assert write_comments(path, SALES) == 0
    assert DeltaTable(path).version() == 4


def test_a_description_that_changes_changes_the_comment_and_nothing_else(tmp_path: Path) -> None:
    path = made(tmp_path)
    write_comments(path, SALES)
    before = DeltaTable(path)

    written = write_comments(path, Comments("", {"qty": "Pieces, never negative."}))

    table = DeltaTable(path)
    assert (written, told(path)["qty"]) == (1, "Pieces, never negative.")
    assert table.metadata().description == SALES.table
    assert [(f.name, f.type) for f in table.schema().fields] == [
        (f.name, f.type) for f in before.schema().fields
    ]
    assert table.file_uris() == before.file_uris()
    assert table.protocol() == before.protocol()


def test_loads_that_commit_meanwhile_lose_nothing_and_the_comments_are_all_there(
    tmp_path: Path,
) -> None:
    path = made(tmp_path)
    numbers = range(1, 41)

    def commits() -> None:
        for number in numbers:

            def attempt(number: int = number) -> None:
                commit_files(DeltaTable(path), [], transaction=("silver/sales", number))

            retried_commit(path, attempt, "Nothing was published")

    load = Thread(target=commits)
    load.start()
    write_comments(path, SALES)
    load.join()

    table = DeltaTable(path)
    assert not missing_comments(table, SALES)
    assert table.transaction_version("silver/sales") == numbers[-1]
    assert table.version() == len(numbers) + 3


def test_columns_are_added_though_comments_are_written_meanwhile(tmp_path: Path) -> None:
    path, done = made(tmp_path), Event()
    names = [f"c{number}" for number in range(8)]

    def comments() -> None:
        number = 0
        while not done.is_set():
            number += 1
            write_comments(path, Comments("", {"qty": f"Pieces, {number}."}))

    others = Thread(target=comments)
    others.start()
    try:
        for name in names:
            add_columns(path, [{"name": name, "type": "long", "nullable": True, "metadata": {}}])
    finally:
        done.set()
        others.join()

    assert set(names) < told(path).keys()


def test_a_description_of_any_length_is_a_comment_of_one_line(tmp_path: Path) -> None:
    path = made(tmp_path)

    write_comments(path, Comments(comment_of("ü\n" * 3_000), {}))

    written = DeltaTable(path).metadata().description
    assert len(written) == LONGEST_COMMENT
    assert written.startswith("ü ü ü")
    assert written.endswith("…")
