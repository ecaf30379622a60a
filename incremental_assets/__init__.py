"""Incremental loading on Spark and Delta Lake under Dagster, day by day and exactly once."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from incremental_assets.definitions import defs

__all__ = ["defs"]


def __getattr__(name: str) -> Any:
    """`defs` is made when it is asked for: the loaders and the command line do without Dagster.

    A setting that cannot be used is told by who asked, then, not by the import of the package.
    """
    if name == "defs":
        # What is imported stays until the process ends: the collector need not look through it,
        # neither amid further imports nor at the exit, which is half a second of a run.
        gc.freeze()
        from incremental_assets.definitions import defs

        gc.freeze()
        globals()[name] = defs
        return defs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names of the package, `defs` among them, which Dagster looks for in this list."""
    return sorted({*globals(), *__all__})
