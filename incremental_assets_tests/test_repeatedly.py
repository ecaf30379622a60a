"""What is done again and again while something else goes on ends with it."""

from __future__ import annotations

from threading import Event

import pytest

from incremental_assets.repeatedly import repeatedly


def test_it_is_done_again_and_again_until_the_block_ends() -> None:
    calls: list[int] = []
    third = Event()

    def do() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            third.set()

    with repeatedly(do, 0.001):
        assert third.wait(30)
    done = len(calls)

    assert not Event().wait(0.05)
    assert len(calls) == done


def test_a_block_that_is_over_sooner_waits_for_nothing_and_its_error_is_raised() -> None:
    with pytest.raises(ValueError, match="of the block"), repeatedly(pytest.fail, 3_600):
        raise ValueError("of the block")


def test_what_fails_is_not_done_again_and_the_block_goes_on() -> None:
    calls: list[int] = []
    called = Event()

    def do() -> None:
        calls.append(1)
        called.set()
        raise ValueError("of the progress")

    with repeatedly(do, 0.001):
        assert called.wait(30)
        assert not Event().wait(0.05)

    assert calls == [1]
