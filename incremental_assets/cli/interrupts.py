"""Ctrl-C amid a command: it ends with one sentence, whatever was going on."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable

_interrupted = threading.Event()


def end_quietly(stop: Callable[[], None] = lambda: None) -> None:
    """From now on an interrupt calls `stop`, and libraries log nothing about it.

    Py4J logs a traceback of any call that is interrupted, and Spark one of every task; so `stop`
    ends the Java of an embedded Spark. Later calls to it fail: see `was_interrupted`.
    Signals belong to the main thread: elsewhere nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def interrupted(*_: object) -> None:
        _interrupted.set()
        logging.disable(logging.CRITICAL)
        stop()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)


def was_interrupted() -> bool:
    """Whether a command was interrupted, so that an error may only follow from that."""
    return _interrupted.is_set()
