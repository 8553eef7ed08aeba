"""Deployment of the network that a search results in: weights as safetensors, and an ONNX model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save

from archir import backends
from archir.recipes.results import CERTIFICATE, MODEL, Exported
from archir_torch.lowering.module import Network, lower
from archir_torch.search.job import Outcome


class Deployment:
    """Exports the networks of outcomes, with their trained weights."""

    def weights(self, outcome: Outcome) -> bytes:
        """Return the network's weights in safetensors format; other tensors of the outcome are left out."""
        return save(_network(outcome).state_dict())

    def model(self, outcome: Outcome, opset: int | None, metadata: Mapping[str, str]) -> Exported:
        """Export the network to ONNX, and compare the outputs of the model with those of torch."""
        assert outcome.network is not None
        torch, onnx, network = backends.get("torch"), backends.get("onnx"), _network(outcome)
        options: dict[str, Any] = {} if opset is None else {"opset": opset}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / MODEL
            report = onnx.write(
                outcome.network, path, torch.arrays(network), reference=torch.runner(network), metadata=metadata,
                certified=True, **options,
            )  # fmt: skip
            certificate = (Path(folder) / CERTIFICATE).read_bytes()
            return Exported(path.read_bytes(), certificate, report.absolute, report.relative)


def _network(outcome: Outcome) -> Network:
    """Return the network of an outcome with its weights, in evaluation mode."""
    assert outcome.network is not None
    network = lower(outcome.network)
    network.load_state_dict({name: outcome.weights[name] for name in network.state_dict()})
    return network.eval()
