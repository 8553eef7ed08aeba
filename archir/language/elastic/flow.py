"""What the numbers of a program set: a literal is followed through parameters, variables and lists to an operation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from archir.ir.op import OPS, Op, attribute_names
from archir.language.elaboration.files import Module
from archir.language.elaboration.locals import walk
from archir.language.elaboration.values import Block, Library
from archir.language.syntax import ast

Role = Literal["width", "kernel", "heads", "depth", "ratio", "follows", "groups", "order"]
"""What is set; shapes, bounds of slices (`follows`) and `groups` go with a width or stay. The groups that channels are
dealt out of are an `order` of them, which trained weights behind it know, and stay."""
_SET: dict[str, Role] = {"kernel": "kernel", "heads": "heads", "channels": "width", "groups": "groups"}
_MOVED = {"shape": "follows", "start": "follows", "stop": "follows"}
_SCALES = ("*", "/", "//")


def constant(expr: ast.Expr) -> Fraction | None:
    """The number that an expression is as it is written, such as `64` or `1/4`."""
    match expr:
        case ast.Literal(value=int() | Fraction() as value) if not isinstance(value, bool):
            return Fraction(value)
        case ast.Chain(first=first, rest=(("/", divisor),)):
            above, below = constant(first), constant(divisor)
            return above / below if above is not None and below else None
    return None


@dataclass(frozen=True, eq=False)
class Home:
    """A definition, and the file that it is in."""

    definition: ast.Definition
    module: Module


@dataclass(frozen=True, eq=False)
class Use:
    """A call of an operation or a block: the expressions of its arguments, by parameter."""

    home: Home
    callee: type[Op] | Block
    arguments: dict[str, ast.Expr]
    call: ast.Expr


@dataclass(frozen=True)
class Reached:
    """An expression that sets something. `scaled`: it is a factor of a product. `missing`: it is not written in this
    call, which could give the parameter of this name something else than its default."""

    expr: ast.Expr
    role: Role
    home: Home
    scaled: bool = False
    missing: tuple[Use, str] | None = None


class Flow:
    """The calls below a net, and what its numbers come to be."""

    def __init__(self, module: Module, net: ast.Definition) -> None:
        self.homes: list[Home] = []
        self.uses: list[Use] = []
        self._known: dict[int, Home] = {}
        self._given: list[tuple[Home, ast.Name, tuple[ast.Expr, tuple[ast.Argument, ...], bool]]] = []
        self._resolved: set[tuple[int, int]] = set()
        self._enter(net, module)
        done = 0
        while done < len(self.homes):  # each may call others, and those what they are given
            self._collect(self.homes[done])
            done += 1
            if done == len(self.homes):
                self._follow_blocks()
        self._calls: dict[int, list[Use]] = defaultdict(list)
        for use in self.uses:
            if isinstance(use.callee, Block):
                self._calls[id(use.callee.definition)].append(use)
        self._seen: set[tuple[int, Role, bool, int]] = set()

    def _enter(self, definition: ast.Definition, module: Module) -> None:
        if id(definition) not in self._known:
            self._known[id(definition)] = Home(definition, module)
            self.homes.append(self._known[id(definition)])

    def _collect(self, home: Home) -> None:
        piped = {
            id(target) for part in walk(home.definition.body) if isinstance(part, ast.Pipe) for target in part.targets
        }
        callees: set[int] = set()
        for part in walk((home.definition.params, home.definition.body)):
            if isinstance(part, ast.Call):
                callees.add(id(part.callee))
                self._use(home, part, part.callee, part.arguments, id(part) in piped)
            elif isinstance(part, (ast.Name, ast.Attribute)) and id(part) not in callees:
                self._use(home, part, part, (), id(part) in piped)

    def _use(self, home: Home, call: ast.Expr, callee: ast.Expr, given: tuple[ast.Argument, ...], piped: bool) -> None:
        if isinstance(callee, ast.Name) and callee.text in self._params(home):
            self._given.append((home, callee, (call, given, piped)))
            return
        found = self._meaning(home, callee)
        if found is not None:
            self._used(home, found, call, callee, given, piped)

    def _used(
        self, home: Home, found: type[Op] | Block, call: ast.Expr, callee: ast.Expr, given: tuple[ast.Argument, ...],
        piped: bool,
    ) -> None:  # fmt: skip
        if isinstance(found, Block):
            self._enter(found.definition, found.module)
            names = [param.name.text for param in found.definition.params]
        else:
            names = [*found.operands[: len(found.operands) - found.optional], *attribute_names(found)]
        if call is callee and not piped:  # the block itself is passed on
            return
        arguments, position = {}, 1 if piped else 0
        for argument in given:
            if argument.name is not None:
                arguments[argument.name.text] = argument.value
            elif position < len(names) and not any(name.startswith("*") for name in names[: position + 1]):
                arguments[names[position]] = argument.value
                position += 1
        self.uses.append(Use(home, found, arguments, call))

    def _follow_blocks(self) -> None:
        """Calls of what a block was given: of each that it is given anywhere, or by default."""
        for home, callee, (call, given, piped) in self._given:
            default = self._params(home)[callee.text].default
            values = [(home, default)] if default is not None else []
            for use in self.uses:
                if isinstance(use.callee, Block) and use.callee.definition is home.definition:
                    values += [(use.home, value)] if (value := use.arguments.get(callee.text)) is not None else []
            for of, value in values:
                found = self._meaning(of, value)
                key = id(call), id(found.definition) if isinstance(found, Block) else id(found)
                if found is not None and key not in self._resolved:
                    self._resolved.add(key)
                    self._used(home, found, call, callee, given, piped)

    def _meaning(self, home: Home, callee: ast.Expr) -> type[Op] | Block | None:
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
        return {param.name.text: param for param in home.definition.params}

    # what sets something

    @cached_property
    def reached(self) -> list[Reached]:
        """Every expression that sets a width, a kernel, a depth and so on, in the order in which they were met."""
        found: list[Reached] = []
        for use in self.uses:
            if isinstance(use.callee, Block):
                continue
            for name, expr in use.arguments.items():
                role = _SET.get(name)
                if name == "kernel" and not {"channels", "heads"} & {*attribute_names(use.callee)}:
                    role = None  # that of a pooling has no weights
                if name == "groups" and use.callee.weights is Op.weights:
                    role = "order"
                if role is not None:
                    found += self.follow(use.home, expr, role)
                elif name in _MOVED:
                    items = expr.items if isinstance(expr, ast.Sequence) else (expr,)
                    for item in items:
                        found += self.follow(use.home, item, "follows")
        for home in self.homes:
            for part in walk(home.definition.body):
                match part:
                    case ast.Repeat():
                        found += self.follow(home, part.times, "depth")
                    case ast.ForLoop(items=ast.Range() as counted):
                        found += self.follow(home, counted.stop, "depth")
                    case ast.Slice():
                        for bound in (part.start, part.stop):
                            found += self.follow(home, bound, "follows") if bound is not None else ()
        return found

    def follow(self, home: Home, expr: ast.Expr, role: Role, scaled: bool = False) -> Iterator[Reached]:
        """What an expression takes its value from; itself at least."""
        key = id(expr), role, scaled, id(home)
        if key in self._seen:
            return
        self._seen.add(key)
        yield Reached(expr, role, home, scaled)
        if constant(expr) is not None:
            return
        match expr:
            case ast.Name():
                yield from self._name(home, expr.text, role, scaled)
            case ast.IfElse():
                yield from self.follow(home, expr.then, role, scaled)
                yield from self.follow(home, expr.otherwise, role, scaled)
            case ast.Chain() if all(sign in _SCALES for sign, _ in expr.rest):
                yield from self.follow(home, expr.first, role, True)
                for sign, factor in expr.rest:
                    if sign == "*":
                        yield from self.follow(home, factor, role, True)
            case ast.Call(callee=ast.Name(text="round_to"), arguments=(first, *_)):
                yield from self.follow(home, first.value, role, scaled)
            case ast.Index():
                yield from self._items(home, expr.value, None, role, scaled)

    def _name(self, home: Home, name: str, role: Role, scaled: bool) -> Iterator[Reached]:
        if name in (params := self._params(home)):
            yield from self._parameter(home, params[name], role, scaled)
        for part in walk(home.definition.body):
            match part:
                case ast.Assign() if [target.text for target in part.targets] == [name]:
                    yield from self.follow(home, part.value, role, scaled)
                case ast.ForLoop() | ast.For() if name in (names := [target.text for target in part.targets]):
                    position = names.index(name) if len(names) > 1 else None
                    yield from self._items(home, part.items, position, role, scaled)

    def _parameter(self, home: Home, param: ast.Param, role: Role, scaled: bool) -> Iterator[Reached]:
        default = param.default
        if default is not None:
            yield from self.follow(home, default, role, scaled)
        for use in self._calls[id(home.definition)]:
            given = use.arguments.get(param.name.text)
            if given is not None:
                yield from self.follow(use.home, given, role, scaled)
            elif default is not None and home.module.library:
                yield Reached(default, role, use.home, scaled, (use, param.name.text))

    def _items(self, home: Home, items: ast.Expr, position: int | None, role: Role, scaled: bool) -> Iterator[Reached]:
        """Items of a list; of each, the one at a position."""
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
