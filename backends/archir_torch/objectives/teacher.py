"""A network that teaches: it sees what the student sees, and is neither trained nor saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, model_validator
from torch import Tensor

from archir.diagnostics.errors import fail, suggest
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import read
from archir.passes.expose import expose
from archir.utils.files import sha256
from archir.utils.settings import Many, NonNegative, Settings
from archir_torch.lowering.module import Network, lower
from archir_torch.lowering.weights import load_weights
from archir_torch.objectives.memory import Memory, memory_of
from archir_torch.objectives.objective import Batch, Outputs


class TeacherSettings(Settings):
    """`teacher` is an .arch file (`FILE:NET` of one with several nets), made with `parameters`; `weights` are its
    safetensors. The loss is multiplied by `weight`. With `remember`, what the teacher says of a sample is kept, and it
    is not asked again; samples that are augmented differ every time, so that this helps where they are not."""

    teacher: str
    weights: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    weight: NonNegative = 1.0
    remember: bool = False


class StageSettings(TeacherSettings):
    """`stages` are the values that are compared: names of outputs, or scopes (see `stage`); `teacher_stages` what the
    teacher calls them."""

    stages: Annotated[tuple[str, ...], Many] = Field(("stage1", "stage2", "stage3"), min_length=1)
    teacher_stages: Annotated[tuple[str, ...] | None, Many] = None

    @model_validator(mode="after")
    def _as_many(self) -> StageSettings:
        if self.teacher_stages is not None and len(self.teacher_stages) != len(self.stages):
            raise ValueError("the teacher has as many stages as are compared")
        return self

    @property
    def pairs(self) -> dict[str, str]:
        """The teacher's stages by the student's."""
        return dict(zip(self.stages, self.teacher_stages or self.stages, strict=True))


class Teacher:
    """The teacher of settings, whose relative paths start in the folder."""

    def __init__(self, settings: TeacherSettings, folder: Path | None) -> None:
        self._settings, self._folder = settings, folder or Path()
        self._types: dict[str, TensorType] = {}
        self._network: tuple[Network, ...] = ()
        self._memory: Memory | None = None
        self._last: tuple[Batch, Outputs] | None = None

    def open(self, student: Graph, pairs: Mapping[str, str | None]) -> dict[str, TensorType]:
        """The types of the teacher's values by the student's names for them; its first output has no name here.

        Raises ArchError: what is wrong with its file or weights, or A1902, A1903.
        """
        if self._network:
            return self._types
        graph = _elaborated(self._folder / self._settings.teacher, self._settings.parameters)
        types, wanted = infer(graph), infer(student)
        taken = [types[number].shape for number in graph.inputs.values()]
        given = [wanted[number].dims for number in student.inputs.values()]
        if taken != given:
            text = f"the teacher `{graph.name}` takes {_listed(taken)}, and the student {_listed(given)}"
            raise fail("A1903", text)
        found = {mine: stage(graph, its or next(iter(graph.outputs))) for mine, its in pairs.items()}
        network = lower(expose(graph, graph.outputs | found))
        weights = self._folder / self._settings.weights
        load_weights(network, weights)
        if self._settings.remember:
            self._memory = memory_of(sha256(weights), canonical_hash(graph), *(f"{a}={n}" for a, n in found.items()))
        self._network = (network.eval().requires_grad_(False),)
        self._types = {mine: types[number] for mine, number in found.items()}
        return self._types

    def __call__(self, batch: Batch) -> Outputs:
        """Its values by the student's names for them. It is asked once for all students of a step."""
        if self._last is None or self._last[0] is not batch:
            inputs = tuple(batch.inputs.values())
            self._last = batch, self._asked(*inputs) if self._memory is None else self._memory(self._asked, inputs)
        return self._last[1]

    def _asked(self, *inputs: Tensor) -> Outputs:
        with torch.no_grad():
            found = self._network[0].to(inputs[0].device)(*inputs)
        return (
            {name: found[name] for name in self._types}
            if isinstance(found, dict)
            else dict.fromkeys(self._types, found)
        )


def stage(graph: Graph, name: str) -> NodeId:
    """The node of an output; or the last one of a scope, such as `layers[3]`. Raises ArchError (A1902)."""
    if name in graph.outputs:
        return graph.outputs[name]
    inside = [number for number in graph if (graph[number].scope + ".").startswith((f"{name}.", f"{name}["))]
    if not inside:
        scopes = {part for number in graph for part in _enclosing(graph[number].scope)}
        hint = suggest(name, [*graph.outputs, *scopes])
        raise fail("A1902", f"`{graph.name}` has neither an output nor a scope `{name}`", None, hint)
    return inside[-1]


def _enclosing(scope: str) -> Sequence[str]:
    parts = scope.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def _listed(shapes: Sequence[Sequence[object]]) -> str:
    return " and ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)


def _elaborated(path: Path, parameters: Mapping[str, Any]) -> Graph:
    """The graph of `FILE` or `FILE:NET`."""
    net = None
    if not path.exists() and ":" in path.name:
        name, net = path.name.rsplit(":", 1)
        path = path.with_name(name)
    return elaborate(read(path), str(path), folder=path.resolve().parent, net=net, parameters=parameters)
