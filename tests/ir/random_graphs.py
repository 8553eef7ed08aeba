"""Random graphs for property tests: all operations of the reference interpreter, choices, and values that depend on
them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagnostics.errors import RuleError
from archir.diagrams.conditions import conjoin, disjoin, if_else, negate
from archir.diagrams.diagram import Choice, Value, outcome_in
from archir.ir.graph import Constraint, Decision, Graph, Node
from archir.ir.op import Op
from archir.ir.reachability import reachability_conditions
from archir.ir.structure import Input, Select
from archir.ir.typing import infer_op
from archir.ops.activation import Identity, Relu, Relu6, Scale, Shift, Sigmoid, Zero
from archir.ops.arithmetic import Add, Concat, Mul, Sub
from archir.ops.conv import Linear
from archir.ops.random import Dropout
from archir.ops.shape import Flatten, Reshape, Slice, Transpose
from archir.passes.prune import prune

SHAPES = [(8,), (1, 8), (2, 4), (4, 2), (2, 2, 2), (8, 1, 1), (-1,), (2, -1)]

labels = st.one_of(st.integers(-3, 40), st.sampled_from(["conv3", "skip", "true", "3x3", ""]), st.text(max_size=4))


@st.composite
def choices(draw: Any, most: int = 4, odd: bool = True) -> dict[str, Decision]:
    """Return choices, each active under a condition on earlier ones."""
    decisions: dict[str, Decision] = {}
    for i in range(draw(st.integers(1, most))):
        alternatives = tuple(draw(st.lists(labels, min_size=1, max_size=3, unique_by=str)))
        take = draw(st.none() | st.integers(1, len(alternatives)))
        tags = draw(st.frozensets(st.sampled_from(["op", "stage", "a b" if odd else "a_b"]), max_size=2))
        path = draw(
            st.sampled_from([f"layer[{i}].op", f"c{i}", f"odd name {i}" if odd else f"even[{i}][0].x", f"case.c{i}"])
        )
        active = draw(conditions([decision.choice for decision in decisions.values()]))
        decisions[path] = Decision(Choice(path, alternatives, i, take, tags), active)
    return decisions


@st.composite
def conditions(draw: Any, choice_list: list[Choice]) -> Value:
    """Return a condition on some of the choices."""
    condition: Value = True
    for choice in draw(st.lists(st.sampled_from(choice_list), max_size=3)) if choice_list else []:
        term = outcome_in(choice, draw(st.sets(st.integers(0, choice.outcome_count - 1))))
        condition = draw(st.sampled_from([conjoin, disjoin]))(condition, draw(st.sampled_from([term, negate(term)])))
    return condition if condition is not False else True


@st.composite
def varied(draw: Any, choice_list: list[Choice], plain: st.SearchStrategy[Any]) -> Value:
    """Return a plain value, or one that depends on choices."""
    if draw(st.booleans()):
        return draw(plain)
    return if_else(draw(conditions(choice_list)), draw(plain), draw(plain))


@st.composite
def operations(draw: Any, decisions: dict[str, Decision]) -> tuple[Op, int]:
    """Return an operation and the number of its operands."""
    choice_list = [decision.choice for decision in decisions.values()]
    kind = draw(st.sampled_from(["unary", "binary", "scale", "shift", "shape", "concat", "slice", "linear", "select"]))
    if kind == "unary":
        return draw(st.sampled_from([Relu(), Relu6(), Identity(), Zero(), Sigmoid(), Flatten(), Dropout()])), 1
    if kind == "binary":
        return draw(st.sampled_from([Add(), Add(), Sub(), Mul()])), 2
    if kind in ("scale", "shift"):
        number = draw(varied(choice_list, st.sampled_from([0.0, 1.0, -0.5, 2.0])))
        return (Scale(number) if kind == "scale" else Shift(number)), 1
    if kind == "shape":
        axes = st.none() | st.sampled_from([(0,), (1, 0), (0, 1), (2, 0, 1), (1, 2, 0), (0, 1, 2)])
        reshape = st.builds(Reshape, varied(choice_list, st.sampled_from(SHAPES)))
        return draw(reshape | st.builds(Transpose, varied(choice_list, axes))), 1
    if kind == "concat":
        return Concat(draw(st.none() | st.integers(-1, 1))), draw(st.integers(1, 2))
    if kind == "slice":
        stop = draw(varied(choice_list, st.none() | st.integers(1, 8)))
        return Slice(draw(st.integers(0, 1)), stop, draw(st.none() | st.just(0))), 1
    if kind == "linear":
        channels = draw(varied(choice_list, st.sampled_from([4, 8])))
        return Linear(channels, draw(varied(choice_list, st.booleans()))), 1
    choice = draw(st.sampled_from(choice_list))
    operands = draw(st.integers(1, 3))
    cases = draw(st.lists(st.integers(0, operands - 1), min_size=choice.outcome_count, max_size=choice.outcome_count))
    return Select(choice.path, tuple(cases)), operands


@st.composite
def graphs(draw: Any, most_nodes: int = 14, most_choices: int = 4, odd: bool = True) -> Graph:
    """Return a valid graph; with `odd`, names may be ones that no file can contain."""
    graph = Graph(draw(st.sampled_from(["tiny", "a net" if odd else "a_net", "case"])))
    graph.decisions = draw(choices(most_choices, odd))
    types = {}
    for i, dims in enumerate(draw(st.lists(st.sampled_from([(8,), (2, 4), (2, 2, 2)]), min_size=1, max_size=2))):
        op: Op = Input(f"x{i}", dims)
        number = graph.add(Node(op, scope=draw(st.sampled_from([f"x{i}", ""]))))
        types[number] = infer_op(op, [])
    for i in range(draw(st.integers(1, most_nodes))):
        op, count = draw(operations(graph.decisions))
        recent = st.sampled_from(sorted(types, reverse=True))
        operands = draw(st.lists(recent, min_size=count, max_size=count))
        choice = graph.decisions[op.choice].choice if isinstance(op, Select) else None
        try:
            type_ = infer_op(op, [types[operand] for operand in operands], True, choice)
        except RuleError:
            continue
        if isinstance(op, Linear | Dropout):
            scopes = [f"block.layer[{i}]", f"odd {i}" if odd else f"even[{i}]", f"net.n{i}"]
            same = [graph[n].scope for n in graph if graph[n].op == op and graph.operands(n) == tuple(operands)]
            scope = draw(st.sampled_from(same or scopes))
        else:
            scope = draw(st.sampled_from(["", "block.relu", "block", "net.a"]))
        types[graph.add(Node(op, scope=scope), *operands)] = type_
    outputs = ["y", "aux", "an output" if odd else "an_output"]
    for name in draw(st.lists(st.sampled_from(outputs), min_size=1, max_size=2, unique=True)):
        graph.outputs[name] = draw(st.sampled_from(sorted(types, reverse=True)))
    graph.blocks = {"block": "residual", "net": "stem", "block.layer[1]": "layer"}
    needed = reachability_conditions(graph)
    is_pruned = all(operand in needed for number in needed for operand in graph.operands(number))
    return graph if is_pruned else prune(graph)


@st.composite
def annotated(draw: Any, odd: bool = True) -> Graph:
    """Return a graph with constraints and parameters."""
    graph = draw(graphs(odd=odd))
    choice_list = [decision.choice for decision in graph.decisions.values()]
    texts = st.sampled_from(["", "depth <= 3", 'a "quoted"\nline', "\u2028\x00é"])
    for word in draw(st.lists(st.sampled_from(["where", "require"]), max_size=2)):
        graph.constraints.append(Constraint(draw(conditions(choice_list)), word, draw(texts)))
    if draw(st.booleans()):
        limit = draw(varied(choice_list, st.integers(0, 10**12)))
        cost = draw(st.sampled_from(["macs", 'latency("cpu")', "true"]))
        relation = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
        bound = Constraint(
            draw(conditions(choice_list)), "require", draw(texts), cost=cost, relation=relation, limit=limit
        )
        graph.constraints.append(bound)
    names = st.sampled_from(["channels", "form", *(["π", "a b"] if odd else [])])
    graph.parameters = draw(st.dictionaries(names, varied(choice_list, parameters), max_size=3))
    return graph


atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False).filter(bool),  # a case tells 0.0 and -0.0 apart no more than `==` does
    st.fractions(),
    st.text(max_size=5),
    st.builds(range, st.integers(-3, 3), st.integers(0, 9)),
)
parameters = st.recursive(atoms, lambda items: st.lists(items, max_size=3).map(tuple), max_leaves=4)
