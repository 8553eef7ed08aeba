"""Teacher networks, which get the same inputs as the student and are neither trained nor saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, model_validator
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph, NodeId, enclosing_scopes
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import read_program
from archir.passes.expose import expose
from archir.utils.files import sha256
from archir.utils.settings import ListAsTuple, NonNegative, Settings
from archir_torch.lowering.module import Network, lower
from archir_torch.lowering.weights import load_weights
from archir_torch.objectives.objective import Batch, Objective, Outputs

MAX_BYTES = 1 << 29
"""Maximum size of a cache in bytes. When it is full, outputs for further samples are computed every time."""
MAX_CACHES = 2
"""Maximum number of teacher networks that have a cache."""

NamedOutputs = Mapping[str, Tensor]
"""Output tensors by name."""


class TeacherCache:
    """Cache of teacher outputs by sample, keyed by a hash of the sample's values.

    The key does not depend on the batch of the sample or its position in the batch.
    """

    def __init__(self) -> None:
        self._outputs: dict[bytes, dict[str, Tensor]] = {}
        self._bytes = 0

    def __call__(self, compute: Callable[..., NamedOutputs], inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the outputs for a batch; `compute` is called for the samples that are not cached."""
        device, keys = inputs[0].device, _keys(inputs)
        new = [row for row, key in enumerate(keys) if key not in self._outputs]
        fresh: dict[bytes, dict[str, Tensor]] = {}
        if new:
            rows = torch.tensor(new, device=device)
            computed = {name: output.cpu() for name, output in compute(*(x[rows] for x in inputs)).items()}
            for position, row in enumerate(new):
                fresh[keys[row]] = {name: output[position].clone() for name, output in computed.items()}
                self._store(keys[row], fresh[keys[row]])
        cached = [fresh.get(key) or self._outputs[key] for key in keys]
        return {name: torch.stack([output[name] for output in cached]).to(device) for name in cached[0]}

    def _store(self, key: bytes, outputs: dict[str, Tensor]) -> None:
        size = sum(output.nbytes for output in outputs.values())
        if self._bytes + size <= MAX_BYTES:
            self._outputs[key] = outputs
            self._bytes += size


@lru_cache(MAX_CACHES)
def cache_of(*key: str) -> TeacherCache:
    """Return the cache for the network that `key` identifies, so that phases share the outputs that they have
    computed."""
    return TeacherCache()


def _keys(inputs: Sequence[Tensor]) -> list[bytes]:
    """Return a hash of the values of each sample."""
    arrays = [x.detach().cpu().contiguous().numpy() for x in inputs]
    rows = (b"".join(x[row].tobytes() for x in arrays) for row in range(len(arrays[0])))
    return [blake2b(row, digest_size=16).digest() for row in rows]


class TeacherSettings(Settings):
    """Settings of objectives with a teacher.

    `teacher` is an .arch file (`FILE:NET` if the file has several nets) that is elaborated with `parameters`. `weights`
    is
    the safetensors file of the teacher's weights. The loss is multiplied by `weight`. With `remember`, the teacher's
    outputs are cached by sample; this helps only without augmentation, which changes the samples in every epoch.
    """

    teacher: str
    weights: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    weight: NonNegative = 1.0
    remember: bool = False


class StageSettings(TeacherSettings):
    """Settings of objectives that compare hidden values at several stages.

    `stages` are names of the student's outputs or scopes (see `stage_node`); `teacher_stages` are the corresponding
    names in the teacher, by default the same.
    """

    stages: Annotated[tuple[str, ...], ListAsTuple] = Field(("stage1", "stage2", "stage3"), min_length=1)
    teacher_stages: Annotated[tuple[str, ...] | None, ListAsTuple] = None

    @model_validator(mode="after")
    def _check_stage_count(self) -> StageSettings:
        if self.teacher_stages is not None and len(self.teacher_stages) != len(self.stages):
            raise ValueError("`teacher_stages` needs as many names as `stages`")
        return self

    @property
    def pairs(self) -> dict[str, str]:
        """Teacher stages by the names of the corresponding student stages."""
        return dict(zip(self.stages, self.teacher_stages or self.stages, strict=True))


class Teacher:
    """Teacher network that is defined by settings.

    Relative paths in the settings are resolved against `folder`.
    """

    def __init__(self, settings: TeacherSettings, folder: Path | None) -> None:
        self._settings, self._folder = settings, folder or Path()
        self._types: dict[str, TensorType] = {}
        self._network: tuple[Network, ...] = ()
        self._memory: TeacherCache | None = None
        self._last: tuple[Batch, Outputs] | None = None

    def open(self, student: Graph, pairs: Mapping[str, str | None]) -> dict[str, TensorType]:
        """Load the teacher. Return the types of the values to compare, by their names in the student.

        `pairs` maps names in the student to names in the teacher; None stands for the teacher's first output. Raises
        ArchError: errors in the teacher's file or weights, A1902 (no such stage), or A1903 (other inputs than the
        student's).
        """
        if self._network:
            return self._types
        graph = _load_graph(self._folder / self._settings.teacher, self._settings.parameters)
        types, student_types = infer(graph), infer(student)
        teacher_inputs = [types[number].shape for number in graph.inputs.values()]
        student_inputs = [student_types[number].dims for number in student.inputs.values()]
        if teacher_inputs != student_inputs:
            text = (
                f"the teacher `{graph.name}` takes {_join_shapes(teacher_inputs)}, and the student "
                f"{_join_shapes(student_inputs)}"
            )
            raise fail("A1903", text)
        nodes = {
            name: stage_node(graph, teacher_name or next(iter(graph.outputs))) for name, teacher_name in pairs.items()
        }
        network = lower(expose(graph, graph.outputs | nodes))
        weights = self._folder / self._settings.weights
        load_weights(network, weights)
        if self._settings.remember:
            self._memory = cache_of(sha256(weights), canonical_hash(graph), *(f"{a}={n}" for a, n in nodes.items()))
        self._network = (network.eval().requires_grad_(False),)
        self._types = {name: types[number] for name, number in nodes.items()}
        return self._types

    def __call__(self, batch: Batch) -> Outputs:
        """Return the teacher's values for a batch by their names in the student.

        The values are computed once per batch, even if several students are trained on the batch.
        """
        if self._last is None or self._last[0] is not batch:
            inputs = tuple(batch.inputs.values())
            self._last = batch, self._run(*inputs) if self._memory is None else self._memory(self._run, inputs)
        return self._last[1]

    def _run(self, *inputs: Tensor) -> Outputs:
        """Run the teacher without gradients."""
        with torch.no_grad():
            result = self._network[0].to(inputs[0].device)(*inputs)
        return (
            {name: result[name] for name in self._types}
            if isinstance(result, dict)
            else dict.fromkeys(self._types, result)
        )


class StageObjective(Objective):
    """Base class of losses that compare stages of the student with stages of a teacher."""

    larger = False

    def __init__(self, settings: StageSettings, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings
        self._teacher = Teacher(settings, folder)

    @property
    def directions(self) -> dict[str, bool]:
        """Directions of the measures: the loss is the only one, and smaller is better."""
        return {self.criterion: False}

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the nodes of the student's stages."""
        return {name: stage_node(graph, name) for name in self.settings.stages}


def stage_node(graph: Graph, name: str) -> NodeId:
    """Return the node of an output, or the last node in a scope such as `layers[3]`.

    Raises ArchError (A1902) if there is neither an output nor a scope of this name.
    """
    if name in graph.outputs:
        return graph.outputs[name]
    scope_nodes = [number for number in graph if (graph[number].scope + ".").startswith((f"{name}.", f"{name}["))]
    if not scope_nodes:
        scopes = {part for number in graph for part in enclosing_scopes(graph[number].scope)}
        hint = suggest(name, [*graph.outputs, *scopes])
        raise fail("A1902", f"`{graph.name}` has neither an output nor a scope `{name}`", None, hint)
    return scope_nodes[-1]


def _join_shapes(shapes: Sequence[Sequence[object]]) -> str:
    """Return shapes as text for messages."""
    return " and ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)


def _load_graph(path: Path, parameters: Mapping[str, Any]) -> Graph:
    """Return the elaborated graph of `FILE` or `FILE:NET`."""
    net = None
    if not path.exists() and ":" in path.name:
        name, net = path.name.rsplit(":", 1)
        path = path.with_name(name)
    return elaborate(read_program(path), str(path), folder=path.resolve().parent, net=net, parameters=parameters)
