"""The optimizers of torch, without its compiler.

Methods of torch's optimizers import the compiler, which takes as long as torch itself, to tell it what it must not
compile. Nothing compiles optimizers here: these have the methods that are below that.
"""

from __future__ import annotations

from inspect import unwrap

import torch


class _Plain(torch.optim.Optimizer):
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class SGD(_Plain, torch.optim.SGD):
    """Steps against gradients, with momentum."""

    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


class Adam(_Plain, torch.optim.Adam):
    """Steps of a size that hardly depends on that of gradients."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class AdamW(_Plain, torch.optim.AdamW):
    """As `Adam`, with weights that decay by themselves."""

    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))
