"""How far a long inspection has come: lines of a log, or of whoever asks, and a bar elsewhere."""

from __future__ import annotations

import io
import logging
import time

import pytest

from incremental_assets import scan_progress
from incremental_assets.scan_progress import counting, in_lines, on_screen, showing
from incremental_assets.screen import Screen


def count(of: int = 2_000) -> None:
    with counting("Looking through clicks", of, "offsets") as step:
        for done in (0, of // 2, of):
            step(done)


def test_a_line_comes_now_and_then_for_whoever_shows_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "incremental_assets")
    lines: list[str] = []
    file = io.StringIO()  # no terminal

    with showing(in_lines(lines.append)):
        count()
        assert lines == []  # it did not take long
        monkeypatch.setattr(scan_progress, "_SILENT_SECONDS", 0.0)
        count()
    with showing(on_screen(Screen(file))):
        count()
    count()

    expected = "Looking through clicks: 1,000 of 2,000 offsets, about 0 s more"
    assert lines == [expected]
    assert file.getvalue() == f"{expected}\n"
    assert [record.message for record in caplog.records] == [expected]


def test_a_terminal_has_a_bar_that_goes_away_also_below_a_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.StringIO()
    screen = Screen(file, force_terminal=True, width=100)

    with showing(on_screen(screen)):
        count()
        assert file.getvalue() == ""  # nothing flickers
        monkeypatch.setattr(scan_progress, "_SHORT_SECONDS", -1.0)
        with (
            screen.status("Reading the ledger …"),
            counting("Looking through clicks", 2_000, "offsets") as step,
        ):
            step(1_000)
            latest = time.monotonic() + 10
            while "1,000 of 2,000 offsets" not in file.getvalue():
                assert time.monotonic() < latest, file.getvalue()
                time.sleep(0.02)

    assert file.getvalue().endswith("\x1b[1A\x1b[2K")  # the line is free again
