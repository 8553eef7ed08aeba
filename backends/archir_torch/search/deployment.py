"""The network that a search ends with, as it is deployed: weights as safetensors, and an ONNX model."""

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
    """Networks with the weights that phases came to."""

    def weights(self, outcome: Outcome) -> bytes:
        """The network's weights, without what else there is."""
        return save(_network(outcome).state_dict())

    def model(self, outcome: Outcome, opset: int | None, metadata: Mapping[str, str]) -> Exported:
        """The network as ONNX, compared with torch."""
        assert outcome.network is not None
        torch, onnx, network = backends.get("torch"), backends.get("onnx"), _network(outcome)
        form: dict[str, Any] = {} if opset is None else {"opset": opset}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / MODEL
            report = onnx.write(
                outcome.network, path, torch.arrays(network), reference=torch.runner(network), metadata=metadata,
                certified=True, **form,
            )  # fmt: skip
            certificate = (Path(folder) / CERTIFICATE).read_bytes()
            return Exported(path.read_bytes(), certificate, report.absolute, report.relative)


def _network(outcome: Outcome) -> Network:
    assert outcome.network is not None
    network = lower(outcome.network)
    network.load_state_dict({name: outcome.weights[name] for name in network.state_dict()})
    return network.eval()
