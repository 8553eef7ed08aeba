"""Sharded training (FSDP): each process holds a shard of the weights, the gradients and the optimizer's state.

The network is created in each process before it is sharded, so its weights must fit into the memory of one device.
Checkpoints have full tensors (see `State.unsharded`), as those of one process have.
"""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from archir_torch.lowering.module import Layer
from archir_torch.training.distributed import broadcast, on_gpus, world

MIN_SHARDED_LAYER = 2**20
"""Minimum number of parameters for which a layer is gathered separately when it runs.

Smaller layers are gathered together.
"""


def shard(module: nn.Module) -> None:
    """Shard the module of the first process over all processes; call it before a Learner is created.

    With a single process, the module stays unsharded.
    """
    if world().size == 1:
        return
    broadcast(module.state_dict().values())
    mesh = init_device_mesh("cuda" if on_gpus() else "cpu", (world().size,))
    for layer in module.modules():
        if isinstance(layer, Layer) and sum(p.numel() for p in layer.parameters()) >= MIN_SHARDED_LAYER:
            fully_shard(layer, mesh=mesh)
    # by default the root module stays gathered after an evaluation, and would go on training with those stale weights
    fully_shard(module, mesh=mesh, reshard_after_forward=True)
