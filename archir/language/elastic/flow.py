"""Data flow of numbers in a program: traces literals through parameters, variables and lists to the operations
they configure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from archir.ir.op import OPS, Op, attribute_names
from archir.language.elaboration.module import Block, Library, Module
from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast

Role = Literal["width", "kernel", "heads", "depth", "ratio", "follows", "groups", "order"]
"""What a number configures.

Numbers with the roles `follows` (shapes and slice bounds) and `groups` either change together with a width or do not
change at all. `order` is the group count of an operation that permutes channels; it is never changed, because trained
weights of later layers depend on the permutation.
"""
_ARGUMENT_ROLES: dict[str, Role] = {"kernel": "kernel", "heads": "heads", "channels": "width", "groups": "groups"}
"""Roles of operation arguments that are single numbers."""
_FOLLOWING_ARGUMENTS = {"shape": "follows", "start": "follows", "stop": "follows"}
"""Operation arguments (numbers or lists of numbers) that change together with a width."""
_SCALING_OPERATORS = ("*", "/", "//")
"""Operators that scale a number by a factor."""


def constant(expr: ast.Expr) -> Fraction | None:
    """Return the value of a numeric literal such as `64` or `1/4`; None for other expressions."""
    match expr:
        case ast.Literal(value=int() | Fraction() as value) if not isinstance(value, bool):
            return Fraction(value)
        case ast.Chain(first=first, links=(("/", divisor),)):
            above, below = constant(first), constant(divisor)
            return above / below if above is not None and below else None
    return None


@dataclass(frozen=True, eq=False)
class Home:
    """Definition (net, block or cell) and the module that contains it."""

    definition: ast.Definition
    module: Module


@dataclass(frozen=True, eq=False)
class CallSite:
    """Call of an operation or block, with its argument expressions by parameter name."""

    home: Home
    callee: type[Op] | Block
    arguments: dict[str, ast.Expr]
    call: ast.Expr


@dataclass(frozen=True)
class Setter:
    """Expression that sets a width, kernel size or other number, with its role.

    `scaled` says that the expression is a factor in a product. `missing` is a call and a parameter for which the call
    passes no argument; `expr` is then the parameter's default, and the call could pass another value.
    """

    expr: ast.Expr
    role: Role
    home: Home
    scaled: bool = False
    missing: tuple[CallSite, str] | None = None


class Flow:
    """All calls that a net makes, directly or indirectly, and the data flow of numbers into them."""

    def __init__(self, module: Module, net: ast.Definition) -> None:
        self.homes: list[Home] = []
        self.uses: list[CallSite] = []
        self._homes_by_definition: dict[int, Home] = {}
        self._parameter_calls: list[tuple[Home, ast.Name, tuple[ast.Expr, tuple[ast.Argument, ...], bool]]] = []
        self._resolved: set[tuple[int, int]] = set()
        self._enter(net, module)
        done = 0
        while done < len(self.homes):  # definitions call further ones, and blocks that are passed to them
            self._collect(self.homes[done])
            done += 1
            if done == len(self.homes):
                self._follow_blocks()
        self._calls: dict[int, list[CallSite]] = defaultdict(list)
        for use in self.uses:
            if isinstance(use.callee, Block):
                self._calls[id(use.callee.definition)].append(use)
        self._seen: set[tuple[int, Role, bool, int]] = set()

    def _enter(self, definition: ast.Definition, module: Module) -> None:
        """Register a definition unless it is registered already."""
        if id(definition) not in self._homes_by_definition:
            self._homes_by_definition[id(definition)] = Home(definition, module)
            self.homes.append(self._homes_by_definition[id(definition)])

    def _collect(self, home: Home) -> None:
        """Record the calls in a definition."""
        piped = {
            id(target) for part in walk(home.definition.body) if isinstance(part, ast.Pipe) for target in part.targets
        }
        callees: set[int] = set()
        for part in walk((home.definition.params, home.definition.body)):
            if isinstance(part, ast.Call):
                callees.add(id(part.callee))
                self._resolve_call(home, part, part.callee, part.arguments, id(part) in piped)
            elif isinstance(part, (ast.Name, ast.Attribute)) and id(part) not in callees:
                self._resolve_call(home, part, part, (), id(part) in piped)

    def _resolve_call(
        self, home: Home, call: ast.Expr, callee: ast.Expr, arguments: tuple[ast.Argument, ...], piped: bool
    ) -> None:
        """Record a call if its callee is known statically; if the callee is a parameter, it is resolved later."""
        if isinstance(callee, ast.Name) and callee.text in self._params(home):
            self._parameter_calls.append((home, callee, (call, arguments, piped)))
            return
        target = self._resolve(home, callee)
        if target is not None:
            self._add_call(home, target, call, callee, arguments, piped)

    def _add_call(
        self, home: Home, target: type[Op] | Block, call: ast.Expr, callee: ast.Expr, passed: tuple[ast.Argument, ...],
        piped: bool,
    ) -> None:  # fmt: skip
        """Record a call of a known operation or block."""
        if isinstance(target, Block):
            self._enter(target.definition, target.module)
            names = [param.name.text for param in target.definition.params]
        else:
            names = [*target.operands[: len(target.operands) - target.optional], *attribute_names(target)]
        if call is callee and not piped:  # no call: the block itself is passed as an argument
            return
        arguments, position = {}, 1 if piped else 0
        for argument in passed:
            if argument.name is not None:
                arguments[argument.name.text] = argument.value
            elif position < len(names) and not any(name.startswith("*") for name in names[: position + 1]):
                arguments[names[position]] = argument.value
                position += 1
        self.uses.append(CallSite(home, target, arguments, call))

    def _follow_blocks(self) -> None:
        """Resolve calls whose callee is a parameter: to its default, and to every block that a call passes for it."""
        for home, callee, (call, passed, piped) in self._parameter_calls:
            default = self._params(home)[callee.text].default
            values = [(home, default)] if default is not None else []
            for use in self.uses:
                if isinstance(use.callee, Block) and use.callee.definition is home.definition:
                    values += [(use.home, value)] if (value := use.arguments.get(callee.text)) is not None else []
            for origin, value in values:
                target = self._resolve(origin, value)
                key = id(call), id(target.definition) if isinstance(target, Block) else id(target)
                if target is not None and key not in self._resolved:
                    self._resolved.add(key)
                    self._add_call(home, target, call, callee, passed, piped)

    def _resolve(self, home: Home, callee: ast.Expr) -> type[Op] | Block | None:
        """Return the operation or block that an expression denotes; None if it denotes neither."""
        if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
            library = home.module.imported.get(callee.value.text)
            value = library.module.lookup(callee.name.text) if isinstance(library, Library) else None
            return value if isinstance(value, Block) else None
        if not isinstance(callee, ast.Name) or callee.text in self._params(home):
            return None
        value = home.module.lookup(callee.text)
        if isinstance(value, Block):
            return value
        return OPS[callee.text] if value is None and callee.text in OPS else None

    @staticmethod
    def _params(home: Home) -> dict[str, ast.Param]:
        """Return the parameters of a definition by name."""
        return {param.name.text: param for param in home.definition.params}

    # which expressions set something

    @cached_property
    def setters(self) -> list[Setter]:
        """Expressions that set a width, kernel size, depth and so on, in discovery order."""
        setters: list[Setter] = []
        for use in self.uses:
            if isinstance(use.callee, Block):
                continue
            for name, expr in use.arguments.items():
                role = _ARGUMENT_ROLES.get(name)
                if name == "kernel" and not {"channels", "heads"} & {*attribute_names(use.callee)}:
                    role = None  # the kernel of a pooling layer has no weights
                if name == "groups" and use.callee.weights is Op.weights:
                    role = "order"
                if role is not None:
                    setters += self.follow(use.home, expr, role)
                elif name in _FOLLOWING_ARGUMENTS:
                    items = expr.items if isinstance(expr, ast.Sequence) else (expr,)
                    for item in items:
                        setters += self.follow(use.home, item, "follows")
        for home in self.homes:
            for part in walk(home.definition.body):
                match part:
                    case ast.Repeat():
                        setters += self.follow(home, part.times, "depth")
                    case ast.ForLoop(items=ast.Range() as counted):
                        setters += self.follow(home, counted.stop, "depth")
                    case ast.Slice():
                        for bound in (part.start, part.stop):
                            setters += self.follow(home, bound, "follows") if bound is not None else ()
        return setters

    def follow(self, home: Home, expr: ast.Expr, role: Role, scaled: bool = False) -> Iterator[Setter]:
        """Yield a setter for an expression, and for each expression from which its value comes."""
        key = id(expr), role, scaled, id(home)
        if key in self._seen:
            return
        self._seen.add(key)
        yield Setter(expr, role, home, scaled)
        if constant(expr) is not None:
            return
        match expr:
            case ast.Name():
                yield from self._name(home, expr.text, role, scaled)
            case ast.IfElse():
                yield from self.follow(home, expr.then, role, scaled)
                yield from self.follow(home, expr.orelse, role, scaled)
            case ast.Chain() if all(sign in _SCALING_OPERATORS for sign, _ in expr.links):
                yield from self.follow(home, expr.first, role, True)
                for sign, factor in expr.links:
                    if sign == "*":
                        yield from self.follow(home, factor, role, True)
            case ast.Call(callee=ast.Name(text="round_to"), arguments=(first, *_)):
                yield from self.follow(home, first.value, role, scaled)
            case ast.Index():
                yield from self._items(home, expr.value, None, role, scaled)

    def _name(self, home: Home, name: str, role: Role, scaled: bool) -> Iterator[Setter]:
        """Trace a parameter, variable or loop variable to the expressions that give its value."""
        if name in (params := self._params(home)):
            yield from self._parameter(home, params[name], role, scaled)
        for part in walk(home.definition.body):
            match part:
                case ast.Assign() if [target.text for target in part.targets] == [name]:
                    yield from self.follow(home, part.value, role, scaled)
                case ast.ForLoop() | ast.For() if name in (names := [target.text for target in part.targets]):
                    position = names.index(name) if len(names) > 1 else None
                    yield from self._items(home, part.items, position, role, scaled)

    def _parameter(self, home: Home, param: ast.Param, role: Role, scaled: bool) -> Iterator[Setter]:
        """Trace a parameter to its default and to the arguments of all calls."""
        default = param.default
        if default is not None:
            yield from self.follow(home, default, role, scaled)
        for use in self._calls[id(home.definition)]:
            argument = use.arguments.get(param.name.text)
            if argument is not None:
                yield from self.follow(use.home, argument, role, scaled)
            elif default is not None and home.module.library:
                yield Setter(default, role, use.home, scaled, (use, param.name.text))

    def _items(self, home: Home, items: ast.Expr, position: int | None, role: Role, scaled: bool) -> Iterator[Setter]:
        """Trace the items of a list; for a list of tuples, their components at `position`."""
        match items:
            case ast.Sequence():
                for item in items.items:
                    if position is None:
                        yield from self.follow(home, item, role, scaled)
                    elif isinstance(item, ast.Sequence) and position < len(item.items):
                        yield from self.follow(home, item.items[position], role, scaled)
            case ast.Call(callee=ast.Name(text="zip")) if position is not None and position < len(items.arguments):
                yield from self._items(home, items.arguments[position].value, None, role, scaled)
            case ast.Name():
                for part in walk(home.definition.body):
                    if isinstance(part, ast.Assign) and [target.text for target in part.targets] == [items.text]:
                        yield from self._items(home, part.value, position, role, scaled)
                params = self._params(home)
                if items.text in params:
                    if (default := params[items.text].default) is not None:
                        yield from self._items(home, default, position, role, scaled)
                    for use in self._calls[id(home.definition)]:
                        if items.text in use.arguments:
                            yield from self._items(use.home, use.arguments[items.text], position, role, scaled)
