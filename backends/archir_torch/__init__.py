"""The torch backend: graphs as `nn.Module`s, trained, and written as standalone Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from archir.errors import Diagnostic
from archir.ir.graph import Graph
from archir_torch import module as modules
from archir_torch import weights
from archir_torch.emit import emit
from archir_torch.module import Network

Arrays = Mapping[str, NDArray[Any]]


class TorchBackend:
    """What `archir.backends.get("torch")` gives."""

    name = "torch"

    def supports(self, graph: Graph) -> list[Diagnostic]:
        """What of a graph cannot be lowered, with places."""
        return modules.supports(graph)

    def lower(self, graph: Graph, *, seed: int = 0) -> Network:
        """The module of a graph without choices, its weights drawn with a seed. Raises ArchError (A0901, A0904)."""
        return modules.lower(graph, generator=torch.Generator().manual_seed(seed))

    def emit(self, graph: Graph) -> str:
        """A graph without choices as a Python file that imports torch alone."""
        return emit(graph)

    def save(self, module: nn.Module, path: Path, metadata: Mapping[str, str] | None = None) -> None:
        """Write a module's weights as safetensors."""
        weights.save_weights(module, path, metadata)

    def load(self, module: nn.Module, path: Path) -> dict[str, str]:
        """Load weights into a module; their metadata. Raises ArchError (A0902, A0905)."""
        return weights.load_weights(module, path)

    def arrays(self, module: nn.Module) -> dict[str, NDArray[Any]]:
        """A module's weights as arrays by state-dict name."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}

    def runner(self, module: Network) -> Callable[[Arrays], dict[str, NDArray[Any]]]:
        """The module in evaluation mode as a function of named arrays."""

        def run(inputs: Arrays) -> dict[str, NDArray[Any]]:
            training = module.training
            module.eval()
            try:
                with torch.no_grad():
                    found = module(*(torch.from_numpy(np.asarray(inputs[name])) for name in module.input_names))
            finally:
                module.train(training)
            outputs = found if isinstance(found, dict) else {module.output_names[0]: found}
            return {name: tensor.numpy() for name, tensor in outputs.items()}

        return run


BACKEND = TorchBackend()
