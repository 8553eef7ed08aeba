"""What a network is trained to do: the objectives of a phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archir.ir.graph import Graph
from archir_torch.engine.feed import Batch
from archir_torch.search.job import Job

Call = Callable[[Tensor], Any]
"""A network as a function of images: one tensor, or tensors by the names of outputs."""


class Task:
    """The objectives, and the graph with the outputs that they want."""

    def __init__(self, job: Job, graph: Graph) -> None:
        self.job, self.graph = job, graph
        self.module = nn.ModuleDict()

    def loss(self, call: Call, batch: Batch, index: int) -> Tensor:
        """The loss of a batch."""
        outputs = call(batch.images)
        logits = outputs if isinstance(outputs, Tensor) else outputs["logits"]
        smoothing = self.job.phase.training.label_smoothing
        return F.cross_entropy(
            logits, batch.labels if batch.targets is None else batch.targets, label_smoothing=smoothing
        )

    def measured(self, call: Call, split: Any, epoch: int) -> dict[str, float]:
        """Held-out measures."""
        right = total = 0
        loss = 0.0
        for rows in torch.arange(len(split)).split(256):
            images = split.images[rows].to(self.job.device)
            labels = split.labels[rows].to(self.job.device)
            outputs = call(images)
            logits = outputs if isinstance(outputs, Tensor) else outputs["logits"]
            right += int((logits.argmax(1) == labels).sum())
            loss += float(F.cross_entropy(logits.float(), labels, reduction="sum"))
            total += len(rows)
        return {"accuracy": right / total, "held_out_loss": loss / total}
