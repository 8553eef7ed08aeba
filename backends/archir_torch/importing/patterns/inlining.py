"""Regions that run under other settings of torch (autocast, no gradients), as the operators in them."""

from __future__ import annotations

from typing import Any

from torch import fx

from archir_torch.importing.patterns.matching import name_of


def inlined(module: fx.GraphModule) -> None:
    """Put the operators of regions in the places of these: in evaluation, and in 32 bits, they compute the same."""
    found = True
    while found:
        regions = [node for node in module.graph.nodes if name_of(node).startswith("wrap_with")]
        found = bool(regions)
        for node in regions:
            _replace(module, node)


def _replace(module: fx.GraphModule, node: fx.Node) -> None:
    bodies = [(i, one) for i, one in enumerate(node.args) if isinstance(one, fx.Node) and one.op == "get_attr"]
    at, body = next((i, getattr(module, str(one.target))) for i, one in bodies)
    given = iter(node.args[at + 1 :])
    env: dict[fx.Node, Any] = {}
    results: Any = ()
    with module.graph.inserting_before(node):
        for inner in body.graph.nodes:
            if inner.op == "placeholder":
                env[inner] = next(given)
            elif inner.op == "output":
                results = fx.node.map_arg(inner.args[0], env.__getitem__)
            else:
                env[inner] = module.graph.node_copy(inner, env.__getitem__)
                if inner.op == "get_attr":
                    name = f"{body._get_name()}_{inner.target}_{id(inner)}"
                    setattr(module, name, getattr(body, str(inner.target)))
                    env[inner].target = name
    for user in list(node.users):
        if name_of(user) == "getitem":
            user.replace_all_uses_with(results[user.args[1]])
            module.graph.erase_node(user)
    if node.users:
        node.replace_all_uses_with(results[0] if isinstance(results, tuple | list) else results)
    module.graph.erase_node(node)
