"""Keeping what is sent to Java out of the log, where it holds a password."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unlogged() -> Iterator[None]:
    """Inside, what is sent to Java is not logged: a root logger of level DEBUG would show it."""

    def is_wanted(record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG

    loggers = [logging.getLogger(name) for name in ("py4j", "py4j.clientserver")]
    for logger in loggers:
        logger.addFilter(is_wanted)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_wanted)
