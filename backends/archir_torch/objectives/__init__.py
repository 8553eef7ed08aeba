"""What is minimised, and what is measured: tasks, and losses that are added to them.

`create("classification", {"label_smoothing": 0.1})`; one of your own, a subclass of `Objective`, is
`create("mymodule:MyObjective", {})`, or has a name of its own: `@objective("mine")`. Every file of this folder is read.
"""

from archir.plugins.bundled import import_all
from archir_torch.objectives.create import create
from archir_torch.objectives.measures import MEASURES, Measure, measure
from archir_torch.objectives.objective import OBJECTIVES, Batch, Objective, Outputs, Together, objective
from archir_torch.objectives.supervised import Supervised

__all__ = [
    "MEASURES", "OBJECTIVES", "Batch", "Measure", "Objective", "Outputs", "Supervised", "Together", "create", "measure",
    "objective",
]  # fmt: skip

import_all(__name__)
