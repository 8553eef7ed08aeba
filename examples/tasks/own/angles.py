"""A dataset, a loss and a measure for directions, which archir does not have."""

import math

import torch
from torch.utils.data import Dataset

from archir_torch.objectives import Objective
from archir_torch.objectives.measures import Measure


class Clocks(Dataset):
    """Images of a hand [1, 12, 12], and its angle in radians."""

    def __len__(self):
        return 300

    def __getitem__(self, number):
        angle = 2 * math.pi * torch.rand((), generator=torch.Generator().manual_seed(number))
        image = 0.1 * torch.rand(1, 12, 12, generator=torch.Generator().manual_seed(1000 + number))
        for step in torch.linspace(0, 5, 12):
            image[0, round(float(5.5 + step * angle.sin())), round(float(5.5 + step * angle.cos()))] = 1
        return image, angle


class Degrees(Measure):
    """Mean angular error, in degrees."""

    name = "degrees"

    def sums(self, output, target):
        error = torch.atan2(output[:, 1], output[:, 0]) - target
        return torch.rad2deg(torch.atan2(error.sin(), error.cos()).abs()).sum()


class Direction(Objective):
    """Loss: 1 minus the cosine of the angle between the output and the target."""

    criterion, measures = "degrees", (Degrees(),)

    def loss(self, outputs, batch, seed):
        hand, angle = self.compared(outputs, batch)
        direction = torch.stack([angle.cos(), angle.sin()], 1)
        return (1 - torch.cosine_similarity(hand, direction)).mean()


def clocks():
    return Clocks()
