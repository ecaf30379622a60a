"""What is tried again, how often, and how long is waited in between."""

from __future__ import annotations

import time

import pytest

from incremental_assets.retries import retried


class Attempts:
    """Fails with these errors in turn, and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.made = 0

    def __call__(self) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


def test_what_succeeds_is_done_once(pauses: list[float]) -> None:
    attempt = Attempts()

    assert retried(attempt, on=OSError, tries=3, pause_seconds=1) == "done"

    assert (attempt.made, pauses) == (1, [])


def test_an_error_that_is_named_is_tried_again_until_it_succeeds(pauses: list[float]) -> None:
    attempt = Attempts(FileNotFoundError("first"), OSError("second"))

    assert retried(attempt, on=OSError, tries=3, pause_seconds=1) == "done"

    assert attempt.made == 3
    assert len(pauses) == 2


def test_the_last_error_is_raised_after_so_many_tries_and_no_pause(pauses: list[float]) -> None:
    attempt = Attempts(OSError("first"), OSError("second"), OSError("third"))

    with pytest.raises(OSError, match="second"):
        retried(attempt, on=OSError, tries=2, pause_seconds=1)

    assert attempt.made == 2
    assert len(pauses) == 1


def test_any_other_error_is_raised_at_once(pauses: list[float]) -> None:
    attempt = Attempts(ValueError("no use in trying again"))

    with pytest.raises(ValueError, match="no use"):
        retried(attempt, on=OSError, tries=3, pause_seconds=1)

    assert (attempt.made, pauses) == (1, [])


def test_pauses_differ_and_grow_up_to_ten_times_the_first(pauses: list[float]) -> None:
    retried(Attempts(*[OSError()] * 200), on=OSError, tries=201, pause_seconds=2)

    assert len(set(pauses)) == 200
    assert all(0 < pause <= 2 * min(n, 10) for n, pause in enumerate(pauses, 1))
    assert max(pauses[20:]) > 10
