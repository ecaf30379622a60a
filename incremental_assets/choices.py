"""A word that is one of several, checked where it is given."""

from __future__ import annotations

from collections.abc import Sequence

from incremental_assets.errors import DefinitionError


def require_choice(what: str, value: object, choices: Sequence[str]) -> None:
    """Raise DefinitionError for a value that is none of the choices."""
    if value not in choices:
        *others, last = map(repr, choices)
        raise DefinitionError(f"{what} is {', '.join(others)} or {last}, not {value!r}.")
