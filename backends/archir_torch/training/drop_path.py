"""Schedule of drop-path rates, which grow during training."""

from __future__ import annotations

from torch import nn

from archir.ops.random import DropPath
from archir_torch.lowering.module import Layer
from archir_torch.lowering.rules import RULES


class DropPaths:
    """Scales the rates of all `drop_path` layers in a network.

    The rates grow in proportion to the epoch, as in the code of DARTS (Liu et al. 2019), after Zoph et al. (2018).
    The rates are set only once per epoch, because a compiled network is recompiled whenever they change.
    """

    def __init__(self, module: nn.Module) -> None:
        function = RULES[DropPath].function
        layers = [layer for layer in module.modules() if isinstance(layer, Layer) and layer.function is function]
        self._rates = [(layer, float(layer.attributes["rate"])) for layer in layers]
        self._scale = 1.0

    def __len__(self) -> int:
        return len(self._rates)

    def scale(self, factor: float) -> None:
        """Set every rate to `factor` times the rate that the net defines."""
        if factor == self._scale:
            return
        self._scale = factor
        for layer, rate in self._rates:
            layer.attributes["rate"] = rate * factor
