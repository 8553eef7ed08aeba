"""numpy, imported when something of it is first used: whoever checks, counts or draws pictures does without it.

    from archir.utils.arrays import NDArray, np

Aliases of types are texts there, such as `Codes: TypeAlias = "NDArray[np.int16]"`: they would be looked up at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["NDArray", "np", "there"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:

    class _Later:
        """What numpy is, once it is asked for."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            found = self.__dict__[name] = getattr(numpy, name)
            return found

    np = _Later()
    NDArray = Any


def there() -> bool:
    """Whether there is numpy: a browser's own Python is without it."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True
