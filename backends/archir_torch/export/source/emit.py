"""Conversion of a network to a Python file that imports only torch, with one class per distinct block.

Scopes determine which nodes belong to which block call. Calls of equal structure share a class, whose parameters are
the numbers in which they differ. Operations without a standard torch layer are emitted as the source of their
lowering rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from archir.diagnostics.errors import ArchError, fail, join_names
from archir.ir.graph import Graph, Node, NodeId, rebuild, scope_path
from archir.ir.names import require_names
from archir.ir.types import TensorType
from archir.ir.typing import Types, infer
from archir.ops.activation import Identity
from archir.ops.calibration import AsGate, AsKernel
from archir.passes.block import ambiguous, calls
from archir.passes.expand import expand
from archir_torch.export.source import program
from archir_torch.export.source.calls import call_tree
from archir_torch.export.source.classes import Classes
from archir_torch.export.source.helpers import Helpers
from archir_torch.lowering.module import supports

_IMPORTS = {
    "from collections.abc import Callable": {"Callable"},
    "from typing import Any": {"Any"},
    "import torch": {"torch"},
    "import torch.nn.functional as F": {"F"},
}
"""Import lines, each with the names that require it."""


def emit(graph: Graph) -> str:
    """Return the Python source of a graph without choices.

    The last class is the network; the function `load` loads its weights from a safetensors file, and the file can be
    run. Raises ArchError (A0901, A0904, A0908) if the graph cannot be lowered.
    """
    graph, types = prepare_graph(graph)
    helpers = Helpers()
    classes = Classes(graph, types, helpers)
    classes.write(call_tree(graph, types))
    parts = [*helpers.texts.values(), *classes.texts.values()]
    about = f"The net `{graph.name}`, written by archir. It needs torch alone."
    return assemble_file(about, [*parts, *program.load_and_main(graph, types, [*classes.texts][-1])], program.IMPORTS)


def emit_block(graph: Graph, name: str) -> str:
    """Return the Python source of one block of a graph without choices, as a reusable module.

    `name` is the block's name, or `name@scope`. Numbers in which the calls of the block differ become its parameters.
    Raises ArchError as `emit` does, and A0906 if the name does not identify exactly one block.
    """
    scopes = calls(graph, name)
    graph, types = prepare_graph(graph)
    helpers = Helpers()
    classes = Classes(graph, types, helpers)
    block_calls = call_tree(graph, types, name.partition("@")[0]).everything()
    classes.write(block_calls[0])
    matching = [call for call in block_calls if call.scope in scopes]
    if not matching:
        raise fail("A0906", f"`{name}` contains only identities")
    if len({call.class_name for call in matching}) > 1:
        raise ambiguous(name, graph.name, list({call.class_name: call.scope for call in reversed(matching)}.values()))
    constructors = dict.fromkeys(call.constructor for call in block_calls if call.class_name == matching[0].class_name)
    about = f"The block `{matching[0].name}` of the net `{graph.name}`, written by archir. It needs torch alone.\n\n"
    about += (
        f"In that net it is {join_names([*constructors])}; `weights` reads a safetensors file for `load_state_dict`.\n"
    )
    parts = used_definitions(matching[0].class_name, {**helpers.texts, **classes.texts})
    return assemble_file(about, [*parts, program.READER], ["import json", "from pathlib import Path"])


def used_definitions(name: str, texts: Mapping[str, str]) -> list[str]:
    """Return the source of a definition and of all definitions it depends on, in the order of `texts`."""
    names, pending = {name}, [name]
    while pending:
        used = {word for word in re.findall(r"\w+", texts[pending.pop()]) if word in texts} - names
        names |= used
        pending += used
    return [text for defined, text in texts.items() if defined in names]


def prepare_graph(graph: Graph) -> tuple[Graph, Types]:
    """Expand composite operations, remove identities, and return the graph with the types of its nodes.

    All names that will be emitted are checked first. Raises ArchError (A0901, A0904, A0908).
    """
    require_names(graph)
    problems = supports(graph)
    if problems:
        raise ArchError(*problems)
    if any("training" in scope_path(graph[number].scope) for number in graph):
        raise fail("A0904", "a scope is named `training`, which is an attribute of all torch modules: rename it")
    graph = expand(graph)
    node_types = iter(infer(graph).values())
    types: dict[NodeId, TensorType] = {}

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        type_ = next(node_types)
        result = operands[0] if isinstance(node.op, Identity | AsGate | AsKernel) else out.add(node, *operands)
        types.setdefault(result, type_)
        return result

    return rebuild(graph, step), types


def assemble_file(about: str, parts: list[str], imports: list[str]) -> str:
    """Return the source of a file with a docstring, imports and definitions.

    The imports are those in `imports` and those that names in the definitions require.
    """
    body = "\n\n\n".join(parts)
    words = set(re.findall(r"\w+", body))
    required = [line for line, names in _IMPORTS.items() if names & words]
    standard = [line for line in [*imports, *required] if "torch" not in line]
    standard.sort(key=lambda line: (line.startswith("from"), line))
    torch = [line for line in required if "torch" in line]
    torch.append("from torch import Tensor, nn" if "Tensor" in words else "from torch import nn")
    gap = "\n\n\n" if body.startswith(("def ", "class ")) else "\n\n"
    head = [f'"""{about}"""', "\n".join(standard), "\n".join(torch)]
    return "\n\n".join(part for part in head if part) + f"{gap}{body}\n"
