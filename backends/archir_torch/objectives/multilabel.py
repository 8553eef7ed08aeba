"""Multi-label classification: several binary labels per sample."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from archir.ir.graph import Graph
from archir_torch.data import Data
from archir_torch.objectives import measures
from archir_torch.objectives.objective import Batch, Outputs, objective, output_shape
from archir_torch.objectives.supervised import Supervised, describe_target, output_span, target_error


@objective("multilabel")
class Multilabel(Supervised):
    """Binary cross-entropy with one logit per label. Targets are zeros and ones, or probabilities."""

    criterion, larger = "f1", True
    compares = "labels"
    predicts = "labels"
    measures = (measures.F1(), measures.LabelAccuracy(), measures.ExactMatch())

    def check(self, graph: Graph, data: Data) -> None:
        """Check that there is one logit per label, and that targets are from 0 to 1. Raises ArchError (A1116)
        otherwise."""
        target = self.target(data)
        for name in self.reads(graph):
            (count,) = output_shape(graph, name, 1)
            span = output_span(graph, name)
            if target.dim() != 2:
                hint = 'one label for each sample is objective = { kind = "classification" }'
                raise target_error(
                    "several labels are zeros and ones [labels] for each sample, and targets are "
                    f"{describe_target(target)}",
                    span,
                    hint,
                )
            if target.shape[1] != count:
                text = f"there are {target.shape[1]} labels, but the output `{name}` of `{graph.name}` has {count}"
                raise target_error(text, span, f"linear({target.shape[1]}) makes as many")
        wrong = target[(target < 0) | (target > 1)]
        if len(wrong):
            raise target_error(f"several labels are numbers from 0 to 1, and targets hold {wrong[0].item():g}")

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the mean over samples and labels."""
        logits, labels = self.compared(outputs, batch)
        return self.settings.weight * F.binary_cross_entropy_with_logits(logits.float(), labels.float())
