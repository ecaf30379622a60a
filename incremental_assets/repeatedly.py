"""Something that is done every few seconds while something else goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final

_SECONDS: Final = 10  # to be waited for, at the end, if it hangs


@contextmanager
def repeatedly(do: Callable[[], None], every: float) -> Iterator[None]:
    """Call `do` every so many seconds, in a thread, until the block ends, or `do` fails."""
    over = Event()

    def watch() -> None:
        with suppress(Exception):  # progress that fails fails no load
            while not over.wait(every):
                do()

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join(_SECONDS)
