"""Something that is done every few seconds while something else goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def repeatedly(do: Callable[[], None], every: float) -> Iterator[None]:
    """Call `do` every so many seconds, in a thread, until the block ends."""
    over = Event()

    def watch() -> None:
        while not over.wait(every):
            do()

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
