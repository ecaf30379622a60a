"""What a ledger must look like: today's format, the first one, and what is refused with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from incremental_assets.errors import LedgerError
from incremental_assets.ledger.entry import (
    FORMAT_VERSION,
    SCHEMA,
    SINCE_2,
    SINCE_3,
    SINCE_4,
    Entry,
    Window,
    from_frame,
    to_frame,
)
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.maintenance import configuration
from incremental_assets.ledger.settle import record
from incremental_assets.ledger.tail import TableTail
from incremental_assets.ledger.watermarks import watermark_rows
from incremental_assets_tests.ledger.entries import (
    DAY,
    NOON,
    SALES,
    append,
    claim,
    entry,
    numbers,
)

EVENTS = "bronze/events"
ASK: dict[str, Callable[[Ledger], object]] = {
    "view": Ledger.view,
    "tail": lambda ledger: ledger.tail(SALES),
    "watermark": lambda ledger: ledger.watermark(SALES, EVENTS, DAY),
    "watermark_rows": watermark_rows,
    "transact": lambda ledger: ledger.transact(lambda _: [entry(9)]),
    "transact_on": lambda ledger: ledger.transact_on(SALES, lambda _: [entry(9)]),
}
every_method = pytest.mark.parametrize("ask", ASK.values(), ids=ASK.keys())


def first_format(path: str, *entries: Entry) -> Ledger:
    """A ledger as the first version of this project made and wrote it."""
    return _of_format(1, path, (*SINCE_2, *SINCE_3, *SINCE_4), entries)


def second_format(path: str, *entries: Entry) -> Ledger:
    """A ledger as it was made and written before it recorded the code of a batch."""
    return _of_format(2, path, (*SINCE_3, *SINCE_4), entries)


def third_format(path: str, *entries: Entry) -> Ledger:
    """A ledger as it was made and written before claims had a token."""
    return _of_format(3, path, SINCE_4, entries)


def _of_format(number: int, path: str, without: Sequence[str], entries: Sequence[Entry]) -> Ledger:
    columns = [name for name in SCHEMA if name not in without]
    DeltaTable.create(
        path,
        schema=to_frame([]).select(columns).to_arrow().schema,
        partition_by=["table"],
        configuration={"delta.checkpointInterval": "50"},
    )
    for one in entries:
        row = to_frame([replace(one, format_version=number)]).select(columns)
        write_deltalake(path, row, mode="append")
    return Ledger(path)


def test_the_schema_has_a_column_for_each_field_of_an_entry() -> None:
    frame = to_frame([entry(1)])

    assert frame.columns == list(SCHEMA)
    assert from_frame(frame) == [entry(1)]


def test_a_ledger_of_the_first_format_is_read_and_has_no_watermark_texts(ledger: Ledger) -> None:
    old = entry(1, "committed", windows=(Window(EVENTS, 0, 4),), target_version=3)

    ledger = first_format(ledger.path, entry(1), old)

    (claimed, committed) = ledger.view().table(SALES).entries
    assert (claimed.state, committed.state) == ("claimed", "committed")
    assert (committed.low, committed.high, committed.position) == ("", "", "")
    assert committed.format_version == 1
    assert ledger.tail(SALES) == TableTail(SALES, 1, (), (committed,))
    assert ledger.watermark(SALES, EVENTS, DAY) == 4
    assert watermark_rows(ledger).is_empty()


def test_a_ledger_of_the_first_format_is_written_on(ledger: Ledger) -> None:
    ledger = first_format(ledger.path, entry(1), entry(1, "committed"))
    new = entry(2, "committed", low="1", high="2", position='{"high": 2}')

    append(ledger, entry(2), new, entry(3))

    entries = Ledger(ledger.path).view().table(SALES).entries
    assert [(e.batch, e.high, e.position, e.format_version) for e in entries] == [
        (1, "", "", 1),
        (1, "", "", 1),
        (2, "", "", FORMAT_VERSION),
        (2, "2", '{"high": 2}', FORMAT_VERSION),
        (3, "", "", FORMAT_VERSION),
    ]
    assert watermark_rows(ledger).rows() == [(SALES, "2", NOON)]


def test_a_ledger_of_the_second_format_is_read_and_written_on_and_knows_no_code(
    ledger: Ledger,
) -> None:
    ledger = second_format(ledger.path, entry(1), entry(1, "committed", high="1"))

    append(ledger, entry(2, code_version="7"), entry(2, "committed", high="2", code_version="7"))

    entries = Ledger(ledger.path).view().table(SALES).entries
    assert [(e.batch, e.high, e.code_version, e.format_version) for e in entries] == [
        (1, "", "", 2),
        (1, "1", "", 2),
        (2, "", "7", FORMAT_VERSION),
        (2, "2", "7", FORMAT_VERSION),
    ]
    assert ledger.tail(SALES).committed[0].code_version == "7"
    assert watermark_rows(ledger).rows() == [(SALES, "2", NOON)]


def test_a_ledger_of_the_third_format_is_read_and_written_on_and_knows_no_tokens(
    ledger: Ledger,
) -> None:
    ledger = third_format(ledger.path, entry(1), entry(1, "committed", code_version="7"), entry(2))
    assert [claim.token for claim in ledger.tail(SALES).unsettled] == [""]

    record(ledger, SALES, [entry(2, "abandoned")])
    append(ledger, entry(3, token="abc"), entry(3, "committed", token="abc"))

    entries = Ledger(ledger.path).view().table(SALES).entries
    assert [(e.batch, e.state, e.code_version, e.token, e.format_version) for e in entries] == [
        (1, "claimed", "", "", 3),
        (1, "committed", "7", "", 3),
        (2, "claimed", "", "", 3),
        (2, "abandoned", "", "", FORMAT_VERSION),
        (3, "claimed", "", "abc", FORMAT_VERSION),
        (3, "committed", "", "abc", FORMAT_VERSION),
    ]


def test_who_is_overtaken_on_a_ledger_of_the_first_format_decides_again(
    ledger: Ledger, other: Ledger
) -> None:
    first_format(ledger.path)
    seen: list[int] = []

    def decide(tail: TableTail) -> Sequence[Entry]:
        seen.append(tail.last_batch)
        if len(seen) == 1:
            claim(other)
        return [entry(seen[-1] + 1)]

    ledger.transact_on(SALES, decide)

    assert seen == [0, 1]
    assert numbers(ledger) == [1, 2]


def test_rows_of_both_formats_that_others_put_into_one_file_have_no_nulls(ledger: Ledger) -> None:
    ledger = first_format(ledger.path, entry(1, "committed"))
    append(ledger, entry(2, "committed", high="2"))

    DeltaTable(ledger.path).optimize.compact()

    entries = Ledger(ledger.path).view().table(SALES).entries
    assert [(e.low, e.high, e.position) for e in entries] == [("", "", ""), ("", "2", "")]


def test_a_ledger_of_the_first_format_gets_todays_properties_with_its_first_compaction(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.ledger.maintenance.COMPACT_AT_FILES", 5)
    ledger = first_format(ledger.path)

    for _ in range(5):
        claim(ledger)

    there = DeltaTable(ledger.path).metadata().configuration
    assert there.items() >= configuration(ledger.path).items()
    assert numbers(ledger) == [1, 2, 3, 4, 5]


def test_instants_as_spark_writes_them_are_read(ledger: Ledger) -> None:
    append(ledger, entry(1))
    (file,) = Path(ledger.path).rglob("part-*.parquet")
    rows = pq.ParquetFile(file).read()

    pq.write_table(rows, file, use_deprecated_int96_timestamps=True, store_schema=False)

    assert Ledger(ledger.path).view().table(SALES).entries == (entry(1),)


@every_method
def test_a_ledger_of_a_newer_version_is_neither_read_nor_written(
    ledger: Ledger, ask: Callable[[Ledger], object]
) -> None:
    claim(ledger)
    newer = entry(2, table="of/another", format_version=FORMAT_VERSION + 1)
    write_deltalake(ledger.path, to_frame([newer]), mode="append")
    version = DeltaTable(ledger.path).version()

    with pytest.raises(LedgerError) as raised:
        ask(ledger)

    message = str(raised.value)
    assert "_ledger" in message
    assert f"format {FORMAT_VERSION + 1}" in message
    assert f"this program knows format {FORMAT_VERSION}" in message
    assert "Use the version of incremental_assets that wrote it, or a newer one" in message
    assert DeltaTable(ledger.path).version() == version


@every_method
def test_a_classic_watermark_table_is_refused_and_left_as_it_is(
    ledger: Ledger, ask: Callable[[Ledger], object]
) -> None:
    classic = {"table_name": ["sales"], "watermark_value": ["2017-01-01"], "last_updated": [NOON]}
    write_deltalake(ledger.path, pl.DataFrame(classic))

    with pytest.raises(LedgerError) as raised:
        ask(ledger)

    message = str(raised.value)
    assert ledger.path in message
    assert "a plain watermark table (columns table_name, watermark_value, last_updated)" in message
    assert "not a ledger" in message
    assert "Choose another path" in message
    assert DeltaTable(ledger.path).version() == 0


def test_a_table_at_the_ledgers_path_without_its_columns_is_refused(ledger: Ledger) -> None:
    write_deltalake(ledger.path, pl.DataFrame({"table": ["x"], "batch": [1]}))

    with pytest.raises(LedgerError, match=r"of another version.*'format_version'"):
        ledger.view()
