"""Methods whose bodies stand in rooms above: a space is shown by pictures, which know nothing of notebooks.

A class of a lower room says that it has the method, `archir` says where it is, and it is imported when it is called:

    class Space(Shown):
        if TYPE_CHECKING:
            optimize = optimizing.optimize
        else:
            optimize = Above()

    stands({"Space.optimize": "archir.api.optimizing:optimize"})

The method is the function itself: it has one signature and one docstring.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archir.api.notebook import frames, showing

_PLACES: dict[str, str] = {}


def stands(places: Mapping[str, str]) -> None:
    """Say where methods are: `{"Class.method": "package.module:function"}`."""
    _PLACES.update(places)


class Above:
    """A method whose body is a function of a room above."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def __get__(self, instance: object, owner: type) -> Any:
        module, _, name = _PLACES[self._name].partition(":")
        function = getattr(import_module(module), name)
        return function if instance is None else function.__get__(instance, owner)


class Shown:
    """What notebooks show as tables and pictures; elsewhere it is its `repr`."""

    __slots__ = ()

    if TYPE_CHECKING:
        _repr_html_ = showing.html
        _repr_mimebundle_ = showing.bundle
    else:
        _repr_html_ = Above()
        _repr_mimebundle_ = Above()


class Framed(Shown):
    """What consists of rows."""

    __slots__ = ()

    if TYPE_CHECKING:
        to_frame = frames.to_frame
    else:
        to_frame = Above()

    def columns(self) -> dict[str, list[Any]]:
        """The rows in columns of one length, by name."""
        return {}
