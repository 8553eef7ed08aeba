"""Initialisation of weights. All random numbers come from the caller's generator."""

from __future__ import annotations

import torch
from torch import Tensor

from archir.ir.op import Weight


def initial_tensor(weight: Weight, generator: torch.Generator | None) -> Tensor:
    """Return a tensor of the weight's shape, filled by the weight's initializer (see `archir.ir.op.Init`)."""
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
