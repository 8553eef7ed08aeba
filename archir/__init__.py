"""archir: search spaces of neural architectures, written as small programs and compiled to a graph IR.

    space = archir.load("space.arch", channels=32)
    space.size                          # exact
    network = space.specialize(space.sample(seed=0))
    module = archir.compile(network)    # a torch module
    archir.export(network, "net.onnx", module)

`import archir` does not import torch, onnx or onnxruntime; functions that need them import them when they
are called.

The public names are those in the `__all__` of the modules of `archir.api`. Type checkers and editors see
the star imports below; at run time `__getattr__` looks a name up in the same modules when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"


def load_ipython_extension(shell: Any) -> None:
    """Register archir's displays and the `%%arch` cell magic; IPython calls this for `%load_ext archir`.

    Cells that begin with `%%arch` are `.arch` programs (docs/notebook.ipynb).
    """
    from archir.tools.notebook.cells import CellMagics
    from archir.tools.notebook.registration import register

    register(shell)
    shell.register_magics(CellMagics(shell))


if TYPE_CHECKING:
    from archir.api.analysis import *
    from archir.api.classes import *
    from archir.api.drawing import *
    from archir.api.importing import *
    from archir.api.loading import *
    from archir.api.lowering import *
    from archir.api.measurement import *
    from archir.api.opening import *
    from archir.api.optimizing import *
    from archir.api.samplers import *
    from archir.api.searching import *
    from archir.api.shrinking import *
else:

    def _modules() -> Iterator[ModuleType]:
        names = (
            "loading",
            "analysis",
            "searching",
            "shrinking",
            "lowering",
            "measurement",
            "importing",
            "opening",
            "optimizing",
            "samplers",
            "drawing",
            "classes",
        )
        return (import_module(f"archir.api.{name}") for name in names)

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return sorted(["__version__", *(public for module in _modules() for public in module.__all__)])
        if find_spec(f"archir.{name}") is None:  # `from archir import backends` calls this before the package's import
            for module in _modules():
                if name in module.__all__:
                    return globals().setdefault(name, getattr(module, name))  # cached: not looked up again
        raise AttributeError(f"module 'archir' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return __getattr__("__all__")


if (_ipython := sys.modules.get("IPython")) is not None and (_shell := _ipython.get_ipython()) is not None:
    from archir.tools.notebook.registration import register

    register(_shell)
