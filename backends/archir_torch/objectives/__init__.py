"""What is minimised, and what is measured: tasks, and losses that are added to them.

`create("classification", {"label_smoothing": 0.1})`; one of your own, a subclass of `Objective`, is
`create("mymodule:MyObjective", {})`.
"""

from archir_torch.objectives.create import OBJECTIVES, create
from archir_torch.objectives.objective import Batch, Objective, Outputs, Together

__all__ = ["OBJECTIVES", "Batch", "Objective", "Outputs", "Together", "create"]
