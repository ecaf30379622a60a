"""The names of a package's tables, found without importing a table, and so without Spark."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import traceback
from collections.abc import Mapping, Sequence
from functools import cache

from incremental_assets.choices import no_such
from incremental_assets.errors import DefinitionError, IncrementalAssetsError, SettingsError

LAYERS = ("bronze", "silver", "gold")


@cache
def table_names(package: str) -> tuple[str, ...]:
    """The tables in the layers of a package, by layer and name: `<layer>/<module>`.

    Raises SettingsError if the package or a layer of it is none.
    """
    return tuple(
        name
        for layer, folders in layers_of(package).items()
        for name in sorted(f"{layer}/{module.name}" for module in pkgutil.iter_modules(folders))
    )


def layers_of(package: str) -> Mapping[str, Sequence[str]]:
    """The layers that a package of tables has, each with the folders of its modules.

    Raises SettingsError if the package cannot be imported, or it or a layer is no package.
    """
    _require_package(package)
    layers: dict[str, Sequence[str]] = {}
    for layer in LAYERS:
        try:
            found = importlib.util.find_spec(f"{package}.{layer}")
        except IncrementalAssetsError:
            raise
        except Exception as error:  # the package may raise anything
            raise _not_imported(package, error) from error
        if found is None:
            continue
        if found.submodule_search_locations is None:
            raise SettingsError(
                f"{found.name} is a file ({found.origin}); a layer is a package, in which a module "
                f"defines one table. Make a folder {layer} with an __init__.py, and in it a file "
                "for each table."
            )
        layers[layer] = list(found.submodule_search_locations)
    return layers


def _require_package(package: str) -> None:
    try:
        found = importlib.util.find_spec(package)
    except IncrementalAssetsError:
        raise
    except Exception as error:  # what is above the package may raise anything
        missing = error.name if isinstance(error, ImportError) else None
        if not (missing and f"{package}.".startswith(f"{missing}.")):
            raise _not_imported(package, error) from error
        found = None
    if found is None:
        raise SettingsError(
            f"The package {package!r}, which INCREMENTAL_ASSETS_TABLES names, cannot be imported. "
            "Install it, or put its folder on PYTHONPATH."
        )
    if found.submodule_search_locations is None:
        raise SettingsError(
            f"INCREMENTAL_ASSETS_TABLES names {package!r}, which is a module ({found.origin}); "
            f"expected a package with packages named {', '.join(LAYERS)}."
        )


def _not_imported(package: str, error: Exception) -> SettingsError:
    """The error for a package that raises when it is imported, with file and line."""
    where = line_that_raised(error, package.partition(".")[0]) or package
    return SettingsError(
        f"The package {package!r}, which INCREMENTAL_ASSETS_TABLES names, cannot be imported: "
        f"{where}: {type(error).__name__}: {getattr(error, 'msg', None) or error}."
    )


def line_that_raised(error: Exception, module: str) -> str:
    """The last line of a module, or of a package, that is in the traceback of an error, or ""."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    own = f"{os.sep}{module.replace('.', os.sep)}"
    within = (own + os.sep, f"{own}.py")
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f"{frame.filename}, line {frame.lineno}"
        for frame in frames
        if any(part in frame.filename for part in within)
    ]
    return lines[-1] if lines else ""


def no_such_table(name: str, known: tuple[str, ...]) -> DefinitionError:
    """The error for a name that no table has."""
    return DefinitionError(no_such("table", name, known))
