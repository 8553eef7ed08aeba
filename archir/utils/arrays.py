"""numpy, imported on first use, so that commands which only check, count or draw pictures start without it.

    from archir.utils.arrays import NDArray, np

Type aliases must be strings, such as `Codes: TypeAlias = "NDArray[np.int16]"`: otherwise they would import
numpy at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["NDArray", "has_numpy", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:

    class _LazyNumpy:
        """Stand-in for the module numpy that imports it on the first attribute access."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            attribute = self.__dict__[name] = getattr(numpy, name)
            return attribute

    np = _LazyNumpy()
    NDArray = Any


def has_numpy() -> bool:
    """Return whether numpy can be imported; Python in a browser (Pyodide) may lack it."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True
