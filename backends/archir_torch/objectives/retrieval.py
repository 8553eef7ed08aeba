"""Retrieval: embeddings in which samples of one class are neighbours, also for classes that were not trained."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archir.ir.graph import Graph
from archir.utils.settings import Count, ListAsTuple, Positive
from archir_torch.data import Data
from archir_torch.objectives.measures import Measure
from archir_torch.objectives.objective import Batch, Outputs, objective, output_shape
from archir_torch.objectives.supervised import Supervised, TaskSettings, describe_target, output_span, target_error

BLOCK = 1024
"""Number of samples whose neighbours are searched at once."""


class RetrievalSettings(TaskSettings):
    """Settings of `retrieval`.

    `scale` is the length to which embeddings and proxies are normalised in the loss. `recall` lists the numbers k for
    which Recall@k is measured.
    """

    scale: Positive = 3.0
    recall: Annotated[tuple[Count, ...], ListAsTuple] = (1, 2, 4, 8)


class Recall(Measure):
    """Recall@k: fraction of samples with a sample of the same class among the `count` nearest other samples.

    Neighbours are those with the largest cosine similarity of embeddings, among all evaluated samples.
    """

    larger = True
    compares = "classes"
    needs_all_samples = True

    def __init__(self, count: int) -> None:
        self.count, self.name = count, f"recall_at_{count}"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the normalised embedding of each sample with its class, [n, size + 1]."""
        return torch.cat([F.normalize(output.double(), dim=1), target[:, None].double()], 1)

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the fraction over all samples; 0 if there is only one sample."""
        embeddings, labels = sums[:, :-1], sums[:, -1]
        count = min(self.count, len(sums) - 1)
        if count < 1:
            return 0.0
        hits = 0
        for rows in torch.arange(len(sums)).split(BLOCK):
            similarity = embeddings[rows] @ embeddings.T
            similarity[torch.arange(len(rows)), rows] = -torch.inf
            nearest = similarity.topk(count, 1).indices
            hits += int((labels[nearest] == labels[rows, None]).any(1).sum())
        return hits / len(sums)


@objective("retrieval")
class Retrieval(Supervised):
    """Proxy-NCA loss (Movshovitz-Attias et al. 2017, eq. 4) of the first output, an embedding, with class labels.

    Each class of the training samples has a learned proxy. The loss compares the squared distance of an embedding to
    the proxy of its class with the distances to all other proxies. Classes of held-out samples may be others.
    """

    model = RetrievalSettings
    settings: RetrievalSettings
    compares = "classes"
    larger = True
    classes: Tensor
    """Classes of the training samples in ascending order [m]."""

    def configure(self) -> None:
        """Set the measures and the criterion, the first of them."""
        counts = self.settings.recall or (1,)
        self.measures = tuple(Recall(count) for count in dict.fromkeys(counts))
        self.criterion = self.measures[0].name

    def check(self, graph: Graph, data: Data) -> None:
        """Check that the targets are class labels with at least two classes, and the output is a vector.

        Raises ArchError (A1116, A1903).
        """
        labels, name = self.target(data), next(iter(self.reads(graph)))
        span = output_span(graph, name)
        output_shape(graph, name, 1)
        if labels.is_floating_point() or labels.dim() != 1:
            text = f"classes are integers, one for each sample, and targets are {describe_target(labels)}"
            raise target_error(text, span)
        if len(self._training_labels(data).unique()) < 2:
            raise target_error("all training samples have the same class", span)

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Create a proxy for each class of the training samples."""
        (size,) = output_shape(graph, next(iter(self.reads(graph))), 1)
        self.register_buffer("classes", self._training_labels(data).unique(sorted=True))
        self.proxies = nn.Parameter(torch.randn(len(self.classes), size, generator=generator))

    def _training_labels(self, data: Data) -> Tensor:
        return self.target(data)[: len(data.train)]

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the mean of -log(exp(-d(x, p_y)) / sum of exp(-d(x, p)) over the proxies p of other classes)."""
        embeddings, labels = self.compared(outputs, batch)
        positions = torch.searchsorted(self.classes, labels.contiguous())
        x, proxies = F.normalize(embeddings.float(), dim=1), F.normalize(self.proxies.float(), dim=1)
        distances = self.settings.scale**2 * (2 - 2 * x @ proxies.T)
        own = distances.gather(1, positions[:, None])[:, 0]
        others = (-distances).scatter(1, positions[:, None], -torch.inf).logsumexp(1)
        return self.settings.weight * (own + others).mean()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return the embeddings and classes of the samples for each measure; classes may lack a proxy, so there is no
        loss."""
        return {measure.name: measure.sums(*self.compared(outputs, batch)) for measure in self.measures}

    @property
    def directions(self) -> dict[str, bool]:
        """Direction of every measure by name."""
        return {measure.name: measure.larger for measure in self.measures}
