"""How weights start. All numbers come from the generator that is passed in."""

from __future__ import annotations

import torch
from torch import Tensor

from archir.ir.op import Weight


def initial(weight: Weight, generator: torch.Generator | None) -> Tensor:
    """A tensor of the weight's shape; see `archir.ir.op.Init` for what the words mean."""
    tensor = torch.empty(weight.shape)
    match weight.init:
        case "zeros":
            return tensor.zero_()
        case "ones":
            return tensor.fill_(1)
        case "slope":
            return tensor.fill_(0.25)
        case "lecun":
            return tensor.normal_(0, weight.fan_in**-0.5, generator=generator)
        case "fan_in":
            bound = weight.fan_in**-0.5
            return tensor.uniform_(-bound, bound, generator=generator)
        case "token":
            return torch.nn.init.trunc_normal_(tensor, std=0.02, a=-0.04, b=0.04, generator=generator)
