"""Who a source is asked as: a user and a password of the environment, which no setting holds.

They are read when the source is, and nobody logs or shows the password.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from incremental_assets.errors import DefinitionError, SourceError

_VARIABLES = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user, and a password that may be empty."""

    user: str
    password: str = field(repr=False)


def require_variables(what: str, begin: str, example: str) -> None:
    """Raise DefinitionError where no two variables can begin so.

    `what` names the option, and `example` is what it could be.
    """
    if not _VARIABLES.fullmatch(begin):
        raise DefinitionError(
            f"{what}={begin!r}; expected how two environment variables begin, in capitals: "
            f"{example!r} for {example}_USER and {example}_PASSWORD."
        )


def credentials_of(path: str, begin: str, option: str = "credentials") -> Credentials:
    """The values of `<begin>_USER` and `<begin>_PASSWORD`. Raises SourceError without a user.

    `option` is the source's, by which others can be named.
    """
    user = os.environ.get(f"{begin}_USER", "")
    if not user:
        raise SourceError(
            f"{path}: {begin}_USER is not set. Nothing was loaded; set it and {begin}_PASSWORD in "
            f"the environment of whatever loads the table, or name others by {option}=…"
        )
    return Credentials(user, os.environ.get(f"{begin}_PASSWORD", ""))
