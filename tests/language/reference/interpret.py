"""An interpreter that runs a net once for each architecture, with an oracle that answers every choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from archir.diagnostics.errors import RuleError
from archir.ir.op import OPS, Op
from archir.ir.structure import Input
from archir.language.syntax import ast
from archir.ops.activation import Scale, Shift
from archir.ops.arithmetic import Add, Div, Mul, Sub
from archir.ops.shape import Slice
from tests.language.reference.grow import IMPORTED
from tests.language.reference.operands import arguments, attribute
from tests.language.reference.values import (
    FOLDS,
    FUNCTIONS,
    Block,
    Function,
    Library,
    List,
    Operation,
    Tensor,
    TooMany,
    Wrong,
    arithmetic,
    compare,
    equal_or_none,
    index,
    integer,
    listed,
    number,
    truth,
)
from tests.language.reference.walk import Excluded, Frame, Returned, State, Walk

MAX_CALLS = 64


def files_of(text: str) -> tuple[str, str]:
    """Split a text into the imported file, which may be empty, and the file of the net."""
    imported, divided, own = text.partition(IMPORTED)
    return (imported, own) if divided else ("", text)


def walks(file: ast.File, imported: ast.File, most: int = 200) -> list[Walk]:
    """Return every run of the single net of a file, in the order of the choices' alternatives."""
    finished: list[Walk] = []
    prefix: list[int] = []
    runs = 0
    while True:
        runs += 1
        if runs > most:
            raise TooMany
        machine = Machine(imported, file, prefix)
        try:
            machine.run()
            finished.append(machine.walk)
        except Excluded:
            pass
        sizes = machine.sizes
        prefix = machine.answers
        while prefix and prefix[-1] + 1 == sizes[len(prefix) - 1]:
            prefix = prefix[:-1]
        if not prefix:
            break
        prefix = [*prefix[:-1], prefix[-1] + 1]
    reached = {choice for walk in finished for choice, kept in walk.met if kept}
    for walk in finished:
        walk.vague = walk.vague or any(choice not in reached for choice, _ in walk.met)
    return finished


class Machine(State):
    """One run."""

    # the whole

    def run(self) -> None:
        try:
            names = self.names_of(self.file)
            nets = [value.definition for value in names.values() if isinstance(value, Block) and value.is_net]
            assert nets
            net = nets[-1]
            self.frame = Frame({}, definition=net, names=names)
            for param in net.params:
                assert param.default is not None
                self.frame.env[param.name.text] = self.eval(param.default)
            self.execute(net.body)
            self.walk.graph, self.walk.types = self.graph, self.types
        except (Wrong, RuleError, OverflowError) as error:
            if self.walk.kept:
                self.walk.wrong = str(error) or "wrong"
            else:
                self.walk.vague = True

    def names_of(self, file: ast.File) -> dict[str, Any]:
        """Return the definitions and imports of a file."""
        names: dict[str, Any] = {}
        for item in file.items:
            if isinstance(item, ast.Import):
                imported_names = self.names_of(self.imported)
                names |= imported_names if item.alias is None else {item.alias.text: Library(imported_names)}
        for item in file.items:
            if isinstance(item, ast.Const):
                self.frame = Frame({}, names=names)
                names[item.name.text] = self.eval(item.value)
            elif isinstance(item, ast.Definition):
                names[item.name.text] = Block(item, names)
        return names

    # statements

    def execute(self, body: ast.Body) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, tree: ast.Statement) -> None:
        match tree:
            case ast.Assign():
                label = tree.targets[0].text if len(tree.targets) == 1 else None
                self.bind(tree.targets, self.eval(tree.value, label))
            case ast.Return():
                values = [self.eval(value) for value in tree.values]
                raise Returned(values[0] if len(values) == 1 else List(values))
            case ast.ForLoop():
                self.loop(tree.targets, listed(self.eval(tree.items)), tree.body)
            case ast.Repeat():
                times = integer(self.eval(tree.times, tree.index.text if tree.index else None))
                self.loop((tree.index,) if tree.index else (), List(range(times)), tree.body)
            case ast.If():
                self.execute(tree.then if truth(self.eval(tree.condition)) else tree.orelse)
            case ast.Input():
                dims = tuple(integer(self.eval(dim)) for dim in tree.type.dims)
                self.frame.env[tree.name.text] = self.add(Input(tree.name.text, dims, tree.type.dtype.text))
            case ast.Output():
                value = self.tensor(self.eval(tree.value, tree.name.text))
                self.graph.outputs[tree.name.text] = value.node
            case ast.Require():
                self.require(tree.condition)

    def require(self, tree: ast.Expr) -> None:
        """Execute a requirement; `a and b` is two requirements."""
        if isinstance(tree, ast.Logical) and tree.word == "and":
            for operand in tree.operands:
                self.require(operand)
        elif not truth(self.eval(tree)):
            self.walk.kept = False

    def loop(self, targets: tuple[ast.Name, ...], items: List, body: ast.Body) -> None:
        outer = self.frame.loops
        try:
            for position, item in enumerate(items):
                self.frame.loops = (*outer, position)
                if targets:
                    self.bind(targets, item)
                self.execute(body)
        finally:
            self.frame.loops = outer

    def bind(self, targets: tuple[ast.Name, ...], value: Any) -> None:
        if len(targets) == 1:
            self.frame.env[targets[0].text] = value
            return
        if not isinstance(value, List) or len(value) != len(targets):
            raise Wrong("cannot be taken apart")
        for target, item in zip(targets, value, strict=True):
            self.frame.env[target.text] = item

    # expressions

    def eval(self, tree: ast.Expr, label: str | None = None) -> Any:
        self.left -= 1
        if self.left < 0:
            raise TooMany
        match tree:
            case ast.Name(text=text):
                return self.name(text)
            case ast.Literal(value=value):
                return value
            case ast.Sequence():
                return List([self.eval(item) for item in tree.items])
            case ast.Comprehension():
                return List([element() for _, element in self.comprehension(tree, tree.parts)])
            case ast.Chain():
                value = self.eval(tree.first)
                for op, operand in tree.links:
                    value = self.binary(op, value, self.eval(operand))
                return value
            case ast.Comparison():
                values = [self.eval(tree.first), *(self.eval(operand) for _, operand in tree.links)]
                results = [compare(op, values[i], values[i + 1]) for i, (op, _) in enumerate(tree.links)]
                return all(results)
            case ast.Signed():
                value = self.eval(tree.operand)
                if isinstance(value, Tensor):
                    return value if tree.sign == "+" else self.add(Scale(-1.0), value)
                if not number(value):
                    raise Wrong("a sign is for numbers")
                return -value if tree.sign == "-" else value
            case ast.Not():
                return not truth(self.eval(tree.operand))
            case ast.Logical():
                stop = tree.word == "or"
                for operand in tree.operands:
                    if truth(self.eval(operand)) is stop:
                        return stop
                return not stop
            case ast.Range():
                start, stop_ = self.eval(tree.start), self.eval(tree.stop)
                return range(integer(start), integer(stop_))
            case ast.IfElse():
                return self.eval(tree.then if truth(self.eval(tree.condition)) else tree.orelse)
            case ast.Index():
                items, place = self.eval(tree.value), self.eval(tree.position)
                return index(items, place)
            case ast.Slice():
                return self.slice(tree)
            case ast.Attribute():
                value = self.eval(tree.value)
                if isinstance(value, Library):
                    return value.names[tree.name.text]
                return attribute(self.tensor(value).type, tree.name.text)
            case ast.Call():
                return self.call_tree(tree, [])
            case ast.Pipe():
                return self.pipe(tree, label)
            case ast.Match():
                return self.match(tree, None, label)
            case ast.ChooseValue():
                return self.choose_value(tree, label)
            case ast.ChooseOne():
                return self.choose_one(tree, None, label)
            case ast.ChooseSubset():
                return self.choose_subset(tree, label)
        raise AssertionError(tree)

    def name(self, text: str) -> Any:
        if text in self.frame.env:
            return self.frame.env[text]
        if text in self.frame.names:
            return self.frame.names[text]
        if text in OPS and not OPS[text].internal:
            return Operation(OPS[text])
        if text in FUNCTIONS or text in FOLDS:
            return Function(text)
        raise Wrong(f"there is no {text}")

    def comprehension(
        self, tree: ast.Comprehension, parts: tuple[ast.For | ast.Filter, ...]
    ) -> Iterator[tuple[Any, Callable[[], Any]]]:
        """Return the elements, each as a function that evaluates it."""
        if not parts:
            env, loops = dict(self.frame.env), self.frame.loops

            def element() -> Any:
                before = self.frame.env, self.frame.loops
                self.frame.env, self.frame.loops = env, loops
                try:
                    return self.eval(tree.item)
                finally:
                    self.frame.env, self.frame.loops = before

            yield None, element
            return
        part, other_parts = parts[0], parts[1:]
        if isinstance(part, ast.Filter):
            if truth(self.eval(part.condition)):
                yield from self.comprehension(tree, other_parts)
            return
        env, loops = dict(self.frame.env), self.frame.loops
        try:
            for position, item in enumerate(listed(self.eval(part.items))):
                self.frame.loops = (*loops, position)
                self.bind(part.targets, item)
                yield from self.comprehension(tree, other_parts)
        finally:
            self.frame.env, self.frame.loops = env, loops

    def elements(self, tree: ast.Expr) -> list[Callable[[], Any]]:
        """Return the elements of a list as functions; elements of list literals are evaluated when called."""
        if isinstance(tree, ast.Sequence):
            return [lambda item=item: self.eval(item) for item in tree.items]  # type: ignore[misc]
        if isinstance(tree, ast.Comprehension):
            return [element for _, element in self.comprehension(tree, tree.parts)]
        return [lambda item=item: item for item in listed(self.eval(tree))]  # type: ignore[misc]

    def slice(self, tree: ast.Slice) -> Any:
        value = self.eval(tree.value)
        start, stop = (None if bound is None else self.eval(bound) for bound in (tree.start, tree.stop))
        start, stop = (bound if bound is None else integer(bound) for bound in (start, stop))
        if isinstance(value, Tensor):
            return self.add(Slice(0 if start is None else start, stop), value)
        if not isinstance(value, (List, range)):
            raise Wrong("no slices of this")
        return value[start:stop] if isinstance(value, range) else List(value[start:stop])

    def binary(self, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            kinds: dict[str, type[Op]] = {"+": Add, "-": Sub, "*": Mul, "/": Div}
            if op not in kinds:
                raise Wrong("not on tensors")
            return self.add(kinds[op](), a, b)
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            return arithmetic(op, a, b)
        tensor, amount = (a, b) if isinstance(a, Tensor) else (b, a)
        if op not in ("*", "+") and not (op in ("-", "/") and tensor is a):
            raise Wrong("not on a tensor and a number")
        if not number(amount):
            raise Wrong("a number is needed")
        match op:
            case "*":
                return self.add(Scale(float(amount)), tensor)
            case "/":
                return self.add(Scale(float(arithmetic("/", 1, amount))), tensor)
            case "+":
                return self.add(Shift(float(amount)), tensor)
        return self.add(Shift(float(-amount)), tensor)

    # calls

    def pipe(self, tree: ast.Pipe, label: str | None) -> Any:
        value = self.eval(tree.first, None)
        for target in tree.targets:
            value = self.feed(target, value, label)
        return value

    def feed(self, target: ast.Expr, value: Any, label: str | None = None) -> Any:
        match target:
            case ast.Call():
                return self.call_tree(target, [value])
            case ast.Pipe():
                value = self.feed(target.first, value)
                for further in target.targets:
                    value = self.feed(further, value)
                return value
            case ast.ChooseOne():
                return self.choose_one(target, (value,), label)
            case ast.Match():
                return self.match(target, (value,), label)
            case ast.IfElse():
                return self.feed(target.then if truth(self.eval(target.condition)) else target.orelse, value)
        return self.call(self.eval(target), [(None, value)], target)

    def call_tree(self, tree: ast.Call, first: list[Any]) -> Any:
        callee = self.eval(tree.callee)
        argument_values = [(None, value) for value in first]
        argument_values += [(a.name.text if a.name else None, self.eval(a.value)) for a in tree.arguments]  # type: ignore[misc]
        return self.call(callee, argument_values, tree)

    def call(self, callee: Any, argument_values: list[tuple[str | None, Any]], tree: ast.Expr) -> Any:
        if isinstance(callee, Operation):
            operands, attributes = arguments(callee.op, argument_values)
            return self.add(callee.op(**attributes), *operands)
        if isinstance(callee, Block):
            return self.call_block(callee, argument_values, tree)
        if isinstance(callee, Function):
            return self.call_function(callee.name, [value for _, value in argument_values])
        raise Wrong("this cannot be called")

    def call_function(self, name: str, values: list[Any]) -> Any:
        if name not in FOLDS:
            try:
                return FUNCTIONS[name](*values)
            except TypeError:
                raise Wrong("other arguments are needed") from None
        items = listed(values[0]) if len(values) == 1 else List(values)
        if name in ("any", "all"):
            truths = [truth(item) for item in items]
            return any(truths) if name == "any" else all(truths)
        if not items:
            if name == "sum":
                return 0
            raise Wrong("of an empty list")
        total = items[0]
        for item in items[1:]:
            if name == "sum":
                total = self.binary("+", total, item)
            elif not (number(total) and number(item)):
                raise Wrong("numbers are needed")
            else:
                total = min(total, item) if name == "min" else max(total, item)
        return total

    def call_block(self, block: Block, argument_values: list[tuple[str | None, Any]], tree: ast.Expr) -> Any:
        caller, definition = self.frame, block.definition
        if caller.depth > MAX_CALLS:
            raise Wrong("calls itself without end")
        under: Frame | None = caller
        while definition.word == "cell" and under is not None:
            if under.definition is definition:
                raise Wrong("a cell calls itself")
            under = under.outer
        names = [param.name.text for param in definition.params]
        env: dict[str, Any] = {}
        for position, (name, value) in enumerate(argument_values):
            name = name or (names[position] if position < len(names) else None)
            if name not in names or name in env:
                raise Wrong("no such parameter")
            env[name] = value
        frame = Frame(env, depth=caller.depth + 1, definition=definition, outer=caller, names=block.names)
        if definition.word == "cell":
            frame.cell = definition.name.text
        else:
            frame.cell = caller.cell
            frame.chain = (*caller.chain, (id(tree), caller.loops, definition.name.text))
        self.frame = frame
        try:
            for param in definition.params:
                if param.name.text not in env:
                    if param.default is None:
                        raise Wrong("an argument is missing")
                    env[param.name.text] = self.eval(param.default)
            try:
                self.execute(definition.body)
            except Returned as result:
                return result.value
            raise Wrong("returns nothing")
        finally:
            self.frame = caller

    # choices

    def choose_value(self, tree: ast.ChooseValue, label: str | None) -> Any:
        name = self.label(tree, label)
        values: list[Callable[[], Any]]
        if len(tree.values) == 1 and isinstance(tree.values[0], (ast.Sequence, ast.Comprehension)):
            values = self.elements(tree.values[0])
        elif len(tree.values) == 1:
            value = self.eval(tree.values[0])
            items = value if isinstance(value, (List, range)) else List([value])
            values = [lambda item=item: item for item in items]  # type: ignore[misc]
        else:
            values = [lambda value=value: self.eval(value) for value in tree.values]  # type: ignore[misc]
        if not values:
            raise Wrong("a choice of nothing")
        outcome = self.decide(id(tree), name, [], len(values))
        return values[outcome]()

    def choose_one(self, tree: ast.ChooseOne, piped: tuple[Any, ...] | None, label: str | None) -> Any:
        labels = [alternative.name.text for alternative in tree.alternatives]
        outcome = self.decide(id(tree), self.label(tree, label), labels, len(labels))
        value = tree.alternatives[outcome].value
        before, self.frame.chain = self.frame.chain, (*self.frame.chain, (id(tree), self.frame.loops))
        loops, self.frame.loops = self.frame.loops, ()
        try:
            return self.eval(value) if piped is None else self.feed(value, piped[0])
        finally:
            self.frame.chain, self.frame.loops = before, loops

    def choose_subset(self, tree: ast.ChooseSubset, label: str | None) -> Any:
        take = integer(self.eval(tree.count))
        elements = self.elements(tree.items)
        if not 1 <= take <= len(elements):
            raise Wrong("cannot take so many")
        subsets = list(combinations(range(len(elements)), take))
        name = self.label(tree, label)
        outcome = self.decide(id(tree), name, [], len(subsets))
        chosen = List([elements[position]() for position in subsets[outcome]])
        if tree.where is not None:
            before, self.frame.env = self.frame.env, {**self.frame.env, name: chosen}
            try:
                holds = truth(self.eval(tree.where))
            finally:
                self.frame.env = before
            if not holds:
                raise Excluded
        return chosen

    def match(self, tree: ast.Match, piped: tuple[Any, ...] | None, label: str | None) -> Any:
        subject = self.eval(tree.subject)
        for arm in tree.arms:
            matches = [equal_or_none(subject, self.eval(pattern)) for pattern in arm.patterns]
            if None in matches:
                raise Wrong("a pattern that never matches")
            if not arm.patterns or True in matches:
                return self.eval(arm.value, label) if piped is None else self.feed(arm.value, piped[0], label)
        raise Wrong("no arm matches")
