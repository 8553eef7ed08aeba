"""A network as a Python file that imports torch alone: one class per distinct block, parameterised.

The scopes of the graph say which nodes belong to which call of which block. Calls of the same shape become one class;
numbers in which they differ become its parameters. What is not a standard layer is the source of its lowering.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from archir.diagnostics.errors import ArchError, fail, listed
from archir.ir.graph import Graph, Node, NodeId, rebuild
from archir.ir.names import require_names
from archir.ir.types import TensorType
from archir.ir.typing import Types, infer
from archir.ops.activation import Identity
from archir.ops.calibration import AsGate, AsKernel
from archir.passes.block import ambiguous, calls
from archir.passes.expand import expand
from archir_torch.export.source import program
from archir_torch.export.source.calls import parts_of, tree
from archir_torch.export.source.classes import Classes
from archir_torch.export.source.helpers import Helpers
from archir_torch.lowering.module import supports

_IMPORTS = {
    "from collections.abc import Callable": {"Callable"},
    "from typing import Any": {"Any"},
    "import torch": {"torch"},
    "import torch.nn.functional as F": {"F"},
}
"""Imports and the names that need them."""


def emit(graph: Graph) -> str:
    """The Python source of a graph without choices. Raises ArchError for what cannot be lowered (A0901, A0904, A0908).

    The last class is the network; `load` gives it the weights of a safetensors file, and the file can be run.
    """
    graph, types = prepared(graph)
    helpers = Helpers()
    classes = Classes(graph, types, helpers)
    classes.write(tree(graph, types))
    parts = [*helpers.texts.values(), *classes.texts.values()]
    about = f"The net `{graph.name}`, written by archir. It needs torch alone."
    return assembled(about, [*parts, *program.program(graph, types, [*classes.texts][-1])], program.IMPORTS)


def emit_block(graph: Graph, name: str) -> str:
    """The Python source of one block of a graph without choices, `name` or `name@scope`: a module to be used anywhere.

    Numbers in which the calls of the block differ are its parameters. Raises ArchError as `emit`, and A0906 for what is
    not one block.
    """
    scopes = calls(graph, name)
    graph, types = prepared(graph)
    helpers = Helpers()
    classes = Classes(graph, types, helpers)
    found = tree(graph, types, name.partition("@")[0]).everything()
    classes.write(found[0])
    meant = [call for call in found if call.scope in scopes]
    if not meant:
        raise fail("A0906", f"`{name}` has nothing in it but identities")
    if len({call.class_name for call in meant}) > 1:
        raise ambiguous(name, graph.name, list({call.class_name: call.scope for call in reversed(meant)}.values()))
    constructors = dict.fromkeys(call.constructor for call in found if call.class_name == meant[0].class_name)
    about = f"The block `{meant[0].name}` of the net `{graph.name}`, written by archir. It needs torch alone.\n\n"
    about += f"In that net it is {listed([*constructors])}; `weights` reads a safetensors file for `load_state_dict`.\n"
    parts = needed(meant[0].class_name, {**helpers.texts, **classes.texts})
    return assembled(about, [*parts, program.READER], ["import json", "from pathlib import Path"])


def needed(name: str, texts: Mapping[str, str]) -> list[str]:
    """A definition behind all that it uses."""
    wanted, todo = {name}, [name]
    while todo:
        used = {word for word in re.findall(r"\w+", texts[todo.pop()]) if word in texts} - wanted
        wanted |= used
        todo += used
    return [text for known, text in texts.items() if known in wanted]


def prepared(graph: Graph) -> tuple[Graph, Types]:
    """A graph as it is written, without what does nothing or stands for other operations; its types.

    All that is written of it are names that were looked at, and constants.
    """
    require_names(graph)
    problems = supports(graph)
    if problems:
        raise ArchError(*problems)
    if any("training" in parts_of(graph[number].scope) for number in graph):
        raise fail("A0904", "nothing in a torch file can be named `training`: modules have an attribute of that name")
    graph = expand(graph)
    known = iter(infer(graph).values())
    types: dict[NodeId, TensorType] = {}

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        type_ = next(known)
        made = operands[0] if isinstance(node.op, Identity | AsGate | AsKernel) else out.add(node, *operands)
        types.setdefault(made, type_)
        return made

    return rebuild(graph, step), types


def assembled(about: str, parts: list[str], imports: list[str]) -> str:
    """A file of these definitions, with the imports that they need and the ones that are given."""
    body = "\n\n\n".join(parts)
    words = set(re.findall(r"\w+", body))
    needed = [line for line, names in _IMPORTS.items() if names & words]
    standard = [line for line in [*imports, *needed] if "torch" not in line]
    standard.sort(key=lambda line: (line.startswith("from"), line))
    torch = [line for line in needed if "torch" in line]
    torch.append("from torch import Tensor, nn" if "Tensor" in words else "from torch import nn")
    gap = "\n\n\n" if body.startswith(("def ", "class ")) else "\n\n"
    head = [f'"""{about}"""', "\n".join(standard), "\n".join(torch)]
    return "\n\n".join(part for part in head if part) + f"{gap}{body}\n"
