"""A mapping whose values are found when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar, cast

_K = TypeVar("_K")
_V = TypeVar("_V")


class LazyMapping(Mapping[_K, _V]):
    """Values by key, each found when it is first asked for; the keys are known."""

    def __init__(self, keys: Collection[_K], find: Callable[[_K], _V]) -> None:
        self._keys = keys
        self._find = find
        self._found: dict[_K, _V] = {}

    def __getitem__(self, key: _K) -> _V:
        if key not in self._keys:
            raise KeyError(key)
        if key not in self._found:
            self._found[key] = self._find(key)
        return self._found[key]

    def get(self, key: object, default: Any = None) -> Any:
        """As of any mapping, without an error on the way for a key that is not there."""
        return self[cast("_K", key)] if key in self._keys else default

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[_K]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
