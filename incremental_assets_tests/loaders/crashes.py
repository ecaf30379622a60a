"""The moments at which a load may die, for tests that let it."""

from __future__ import annotations

from incremental_assets.engine import target_steps as load_module
from incremental_assets.testing import Killed


def _before_the_write(*_: object, **__: object) -> None:
    raise Killed


def _after_the_write(*args: object, **named: object) -> None:
    publish(*args, **named)  # type: ignore[arg-type]
    raise Killed


publish = load_module.publish
CRASHES = {
    "before the write": ("ChangeSet", _before_the_write),
    "when its rows are staged": ("publish", _before_the_write),
    "after the write": ("publish", _after_the_write),
}
