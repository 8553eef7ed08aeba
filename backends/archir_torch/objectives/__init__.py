"""Training objectives: tasks with their losses and measures, and losses that are added to a task's.

`create("classification", {"label_smoothing": 0.1})` makes one. A subclass of `Objective` in a plugin is
`create("mymodule:MyObjective", {})`, or has a registered name: `@objective("mine")`. All modules of this package are
imported.
"""

from archir.plugins.bundled import import_all
from archir_torch.objectives.create import create
from archir_torch.objectives.measures import MEASURES, Measure, measure
from archir_torch.objectives.objective import OBJECTIVES, Batch, CombinedObjective, Objective, Outputs, objective
from archir_torch.objectives.supervised import Supervised

__all__ = [
    "MEASURES",
    "OBJECTIVES",
    "Batch",
    "CombinedObjective",
    "Measure",
    "Objective",
    "Outputs",
    "Supervised",
    "create",
    "measure",
    "objective",
]  # fmt: skip

import_all(__name__)
