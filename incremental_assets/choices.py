"""A word that is one of several, checked where it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from incremental_assets.errors import DefinitionError

_NEAR = 0.55  # of the letters; a table's name without its layer still is


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """`; did you mean …?` with the nearest of the known words; "" where none is near."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


def nearest(word: object, known: Iterable[str]) -> str:
    """The known word that is nearest; "" where none is near."""
    return next(iter(get_close_matches(str(word), list(known), 1, _NEAR)), "")


def no_such(what: str, word: object, known: Sequence[str]) -> str:
    """The sentence that something does not exist: the nearest known word, or all of them."""
    meant = did_you_mean(word, known) or f"; expected one of {', '.join(known)}."
    return f"There is no {what} {word!r}{meant}"


def require_column(what: str, value: object) -> None:
    """Raise DefinitionError for what is not the name of a column."""
    if not isinstance(value, str) or not value:
        raise DefinitionError(f"{what} is {value!r}; expected the name of a column.")


def require_function(what: str, value: object) -> None:
    """Raise DefinitionError for what is neither a function nor None."""
    if value is not None and not callable(value):
        raise DefinitionError(f"{what} is {value!r}; expected a function, or None.")


def require_choice(
    what: str, value: object, choices: Sequence[str], others: Sequence[str] = ()
) -> None:
    """Raise DefinitionError for a value that is none of the choices; `others` are no texts."""
    if value not in choices:
        *first, last = (*map(repr, choices), *others)
        raise DefinitionError(
            f"{what} is {', '.join(first)} or {last}, not {value!r}"
            f"{did_you_mean(value, choices) or '.'}"
        )
