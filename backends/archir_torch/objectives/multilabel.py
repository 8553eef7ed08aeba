"""Several labels at once: each of them is there, or not."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from archir.ir.graph import Graph
from archir_torch.data import Data
from archir_torch.objectives import measures
from archir_torch.objectives.objective import Batch, Outputs, objective, shape
from archir_torch.objectives.supervised import Supervised, form, place, unfit


@objective("multilabel")
class Multilabel(Supervised):
    """Binary cross-entropy of logits, one for each label; targets are zeros and ones, or how likely a label is."""

    criterion, larger = "f1", True
    compares = "labels"
    measures = (measures.F1(), measures.LabelAccuracy(), measures.Exact())

    def check(self, graph: Graph, data: Data) -> None:
        """Whether there is a logit for each label, and targets are zeros and ones, or how likely a label is."""
        target = self.target(data)
        for name in self.reads(graph):
            (count,) = shape(graph, name, 1)
            span = place(graph, name)
            if target.dim() != 2:
                hint = 'one label for each sample is objective = { kind = "classification" }'
                raise unfit(
                    f"several labels are zeros and ones [labels] for each sample, and targets are {form(target)}",
                    span,
                    hint,
                )
            if target.shape[1] != count:
                text = f"there are {target.shape[1]} labels, but the output `{name}` of `{graph.name}` has {count}"
                raise unfit(text, span, f"linear({target.shape[1]}) makes as many")
        wrong = target[(target < 0) | (target > 1)]
        if len(wrong):
            raise unfit(f"several labels are numbers from 0 to 1, and targets hold {wrong[0].item():g}")

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The mean over samples and labels."""
        found, wanted = self.compared(outputs, batch)
        return self.settings.weight * F.binary_cross_entropy_with_logits(found.float(), wanted.float())
