"""Training objectives: tasks with their losses and measures, and additional losses that can be added to a
task's loss.

`create("classification", {"label_smoothing": 0.1})` creates an objective. A subclass of `Objective` in a plugin is
created by `create("mymodule:MyObjective", {})`, or by the name under which `@objective("mine")` registers it.
"""

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
