"""Drop path that grows during training."""

from __future__ import annotations

from torch import nn

from archir.ops.random import DropPath
from archir_torch.lowering.module import Layer
from archir_torch.lowering.rules import RULES


class DropPaths:
    """The `drop_path`s of a network, at a part of the rates that the network has.

    They grow in proportion to the epoch in the code of DARTS (Liu et al. 2019), after Zoph et al. (2018). Rates are set
    once an epoch: a compiled network is compiled anew when they change.
    """

    def __init__(self, module: nn.Module) -> None:
        function = RULES[DropPath].function
        layers = [layer for layer in module.modules() if isinstance(layer, Layer) and layer.function is function]
        self._rates = [(layer, float(layer.attributes["rate"])) for layer in layers]
        self._part = 1.0

    def __len__(self) -> int:
        return len(self._rates)

    def scale(self, part: float) -> None:
        """From now on rates are this part of the network's."""
        if part == self._part:
            return
        self._part = part
        for layer, rate in self._rates:
            layer.attributes["rate"] = rate * part
