"""Shifts and mirror images of a batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def augmented(images: Tensor, generator: torch.Generator, *, flip: bool) -> Tensor:
    """Each image shifted by up to an eighth of its size, zeros coming in, and mirrored half of the time if `flip`."""
    count, _, height, width = images.shape
    y, x = (torch.randint(-(s // 8), s // 8 + 1, (count,), generator=generator) for s in (height, width))
    pad_y, pad_x = height // 8, width // 8
    padded = F.pad(images, (pad_x, pad_x, pad_y, pad_y))
    rows = (torch.arange(height) + y[:, None] + pad_y).to(images.device)
    columns = (torch.arange(width) + x[:, None] + pad_x).to(images.device)
    which = torch.arange(count, device=images.device)[:, None, None]
    shifted = padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if flip:
        mirrored = torch.rand(count, generator=generator).to(images.device) < 0.5
        shifted = torch.where(mirrored[:, None, None, None], shifted.flip(3), shifted)
    return shifted.contiguous()
