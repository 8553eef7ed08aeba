"""Random programs, most of them valid, that choose wherever something can be chosen."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Names:
    """Visible names, by kind."""

    ints: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    bools: list[str] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    tensors: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    callees: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    """Tensors that may be features, gates or kernels."""

    def copy(self) -> Names:
        return Names(*(list(names) for names in vars(self).values()))


class Grower:
    """Generates one program."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.number = 0
        self.choices = rng.choice([1, 2, 2, 3, 3, 4, 5])
        self.remaining = 3
        self.blocks: list[tuple[str, int, bool]] = []
        """Name, number of integer parameters, whether a callee comes after those."""
        self.functions: list[str] = []
        self.recursive: list[str] = []
        self.in_cell = False

    def items(self) -> list[str]:
        """Return constants and definitions, each of which uses earlier ones only; the last one is the net."""
        items = []
        consts = Names()
        if self.rng.random() < 0.3:
            items.append(f"const SIZES = [{self.some(3)}]")
            consts.lists.append("SIZES")
        for _ in range(self.rng.choice([0, 0, 1, 1, 2, 3])):
            items.append(self.definition(consts))
        names = consts.copy()
        names.tensors.append("image")
        lines = ["input image: f32[4, 4, 4]", *self.body(names, self.rng.randint(1, 6), "net")]
        lines.append(f"output y = {self.tensor(names, 2)}")
        if self.rng.random() < 0.1:
            lines.append(f"output z = {self.tensor(names, 1)}")
        return [*items, "net n {\n" + "\n".join(f"    {line}" for line in lines) + "\n}"]

    def fresh(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number}"

    def some(self, most: int) -> str:
        return ", ".join(str(self.rng.randint(1, 4)) for _ in range(self.rng.randint(1, most)))

    # definitions

    def definition(self, consts: Names) -> str:
        kind = self.rng.choice(["block", "block", "cell", "values", "recursive", "grammar"])
        names = consts.copy()
        name = self.fresh("b")
        if kind == "values":
            names.tensors.append("x")
            names.ints.append("n")
            body = self.body(names, self.rng.randint(0, 2), "values")
            text = self.block_text(f"block {name}(x, n)", [*body, f"return {self.list(names, 2)}"])
            self.functions.append(name)
            return text
        if kind == "recursive":
            names.tensors.append("x")
            names.ints.append("n")
            body = self.body(names, self.rng.randint(0, 1), "block")
            step = self.tensor(names, 1)
            stop = "n <= 0" if self.rng.random() < 0.9 else f"n <= 0 or {self.bool(names, 1)}"
            if self.rng.random() < 0.5:
                body = [*body, f"return x if {stop} else {name}({step}, n - 1)"]
            else:
                body = [f"if {stop} {{", "    return x", "}", *body, f"return {name}({step}, n - 1)"]
            self.recursive.append(name)
            return self.block_text(f"block {name}(x, n)", body)
        if kind == "grammar":
            names.tensors.append("x")
            again = f"x |> {name}(n - 1)"
            forms = [f"a: {self.target(names, 1)}, b: {again}", f"a: identity, b: {again} |> {self.target(names, 0)}"]
            self.recursive.append(name)
            return self.block_text(
                f"block {name}(x, n)",
                ["if n == 0 {", "    return x |> relu", "}", f"return x |> choose {self.fresh('c')} {{ "
                 + self.rng.choice(forms).replace("x |> ", "") + " }"],
            )  # fmt: skip
        parameter_count = self.rng.randint(0, 2)
        takes = self.rng.random() < 0.3
        params = [f"p{i}" for i in range(parameter_count)]
        names.tensors.append("x")
        names.ints += params
        if takes:
            names.callees.append("f")
        self.in_cell = kind == "cell"
        before, self.choices = self.choices, min(self.choices, 2)
        body = self.body(names, self.rng.randint(0, 3), "block")
        text = self.block_text(
            f"{kind} {name}({', '.join(['x', *params, *(['f'] if takes else [])])})",
            [*body, f"return {self.tensor(names, 2)}"],
        )
        self.choices, self.in_cell = before, False
        self.blocks.append((name, parameter_count, takes))
        return text

    def block_text(self, head: str, lines: list[str]) -> str:
        return head + " {\n" + "\n".join(f"    {line}" for line in lines) + "\n}"

    # statements

    def body(self, names: Names, count: int, where: str) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            lines += self.statement(names, where)
        return lines

    def statement(self, names: Names, where: str) -> list[str]:
        kinds: dict[str, float] = {
            "int": 3, "list": 3, "bool": 1, "string": 0.6, "tensor": 3, "parts": 1.5, "for": 1.5, "repeat": 1,
            "if": 1.5, "require": 1, "return": 0.5 if where != "net" else 0, "again": 1, "pair": 0.4,
            "kinds": 0.5,
        }  # fmt: skip
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        new: dict[str, tuple[str, list[str], Callable[[Names, int], str]]] = {
            "int": ("i", names.ints, self.int),
            "list": ("l", names.lists, self.list),
            "bool": ("t", names.bools, self.bool),
            "string": ("s", names.strings, self.string),
            "tensor": ("x", names.tensors, self.tensor),
            "parts": ("q", names.parts, self.parts),
            "kinds": ("k", names.kinds, self.kind),
        }
        if kind in new:
            letter, names_of_kind, make = new[kind]
            name = self.fresh(letter)
            line = f"{name} = {make(names, 2)}"
            names_of_kind.append(name)
            return [line]
        if kind == "pair":
            first, second = self.fresh("i"), self.fresh("i")
            line = f"{first}, {second} = [{self.int(names, 1)}, {self.int(names, 1)}]"
            names.ints += [first, second]
            return [line]
        if kind == "again":
            pools = ((names.ints, self.int), (names.lists, self.list), (names.tensors, self.tensor))
            pools_ = [(pool, make) for pool, make in pools if pool]
            if not pools_:
                return []
            pool, make = self.rng.choice(pools_)
            mine = [name for name in pool if not name.isupper()]
            return [f"{self.rng.choice(mine)} = {make(names, 1)}"] if mine else []
        if kind == "require":
            word = self.bool(names, 2)
            return [f"require {word}"]
        if kind == "return":
            value = self.tensor(names, 1) if where == "block" else self.list(names, 1)
            return self.nested(f"if {self.bool(names, 1)}", [f"return {value}"])
        if self.remaining == 0:
            return []
        self.remaining -= 1
        inside = names.copy()
        try:
            if kind == "for":
                item = self.fresh("i")
                head = f"for {item} in {self.list(names, 1)}"
                if self.rng.random() < 0.2:
                    place = self.fresh("i")
                    head = f"for {place}, {item} in enumerate({self.list(names, 1)})"
                    inside.ints.append(place)
                inside.ints.append(item)
                return self.nested(head, self.rebound(inside, where, names))
            if kind == "repeat":
                item = self.fresh("i")
                inside.ints.append(item)
                times = self.int(names, 1)
                return self.nested(f"repeat {times} as {item}", self.rebound(inside, where, names))
            lines = self.nested(f"if {self.bool(names, 2)}", self.rebound(inside, where, names))
            if self.rng.random() < 0.5:
                lines[-1] = "} else {"
                lines += self.nested("", self.rebound(names.copy(), where, names))[1:]
            return lines
        finally:
            self.remaining += 1

    def nested(self, head: str, lines: list[str]) -> list[str]:
        return [f"{head} {{", *(f"    {line}" for line in lines), "}"]

    def rebound(self, inside: Names, where: str, outer: Names) -> list[str]:
        """Return a body that rebinds names of the enclosing scope."""
        lines = self.body(inside, self.rng.randint(0, 1), where)
        for pool, make in ((outer.tensors, self.tensor), (outer.ints, self.int), (outer.lists, self.list)):
            mine = [name for name in pool if not name.isupper() and name != "image"]
            if mine and self.rng.random() < 0.6:
                lines.append(f"{self.rng.choice(mine)} = {make(inside, 1)}")
        return lines

    # expressions

    def chosen(self) -> bool:
        """True if a choice is to be made here."""
        if self.choices > 0 and self.rng.random() < 0.3:
            self.choices -= 1
            return True
        return False

    def pick(self, names: list[str], else_: str) -> str:
        return self.rng.choice(names[-4:]) if names and self.rng.random() < 0.85 else else_

    def int(self, names: Names, depth: int) -> str:
        if self.chosen():
            label = self.fresh("c")
            return self.rng.choice([
                lambda: f"choose {label}({self.distinct()})",
                lambda: f"choose {label}({self.distinct()})",
                lambda: f"choose {label}({self.list(names, 1)})",
                lambda: f"choose {label} {{ a: {self.int(names, 1)}, b: {self.int(names, 1)} }}",
                lambda: f"choose {label}([round_to({self.int(names, 0)}, 1), {self.int(names, 0)} + 5])",
            ])()  # fmt: skip
        if depth <= 0 or self.rng.random() < 0.25:
            return self.pick(names.ints, str(self.rng.choice([0, 1, 1, 2, 2, 3, 4])))
        d = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: f"({self.int(names, d)} + {self.int(names, d)})",
            lambda: f"({self.int(names, d)} - {self.int(names, d)})",
            lambda: f"({self.int(names, d)} * {self.int(names, d)})",
            lambda: f"len({self.list(names, d)})",
            lambda: f"len({self.list(names, d)})",
            lambda: f"sum({self.list(names, d)})",
            lambda: f"{self.rng.choice(['min', 'max'])}({self.int(names, d)}, {self.int(names, d)})",
            lambda: f"max({self.list(names, d)})",
            lambda: f"({self.list(names, d)})[{self.rng.choice(['0', '-1', '1', self.int(names, 0)])}]",
            lambda: f"({self.int(names, d)} if {self.bool(names, d)} else {self.int(names, d)})",
            lambda: f"({self.int(names, d)} % 3)",
            lambda: f"(match {self.int(names, d)} {{ 1 => {self.int(names, 0)}, 2 | 3 => {self.int(names, 0)}, "
            f"else => {self.int(names, 0)} }})",
            lambda: f"(match {self.string(names, d)} {{ \"a\" => {self.int(names, 0)}, \"b\" => 1, else => 2 }})",
        ]  # fmt: skip
        if names.tensors:
            forms.append(lambda: f"{self.rng.choice(names.tensors)}.channels")
        if names.parts:
            forms.append(lambda: f"len({self.rng.choice(names.parts)})")
        return self.rng.choice(forms)()

    def distinct(self) -> str:
        values = self.rng.sample([0, 1, 1, 2, 3, 4], self.rng.choice([2, 2, 2, 3]))
        return ", ".join(map(str, dict.fromkeys(values)))

    def bool(self, names: Names, depth: int) -> str:
        if self.chosen():
            return f"choose {self.fresh('c')}(true, false)"
        if depth <= 0:
            return self.pick(names.bools, f"{self.int(names, 0)} > {self.rng.randint(0, 2)}")
        d = depth - 1
        compared = self.rng.choice(["==", "!=", "<", "<=", ">", ">="])
        forms: list[Callable[[], str]] = [
            lambda: f"{self.int(names, d)} {compared} {self.int(names, d)}",
            lambda: f"{self.int(names, d)} {compared} {self.int(names, d)}",
            lambda: f"({self.bool(names, d)} and {self.bool(names, d)})",
            lambda: f"({self.bool(names, d)} or {self.bool(names, d)})",
            lambda: f"not ({self.bool(names, d)})",
            lambda: f"{self.int(names, d)} {self.rng.choice(['in', 'not in'])} (({self.list(names, d)}) + [1])",
            lambda: f"{self.rng.choice(['any', 'all'])}([{self.int(names, 0)} > 1 for _ in {self.list(names, d)}])",
            lambda: f"({self.list(names, d)}) {self.rng.choice(['==', '!='])} ({self.list(names, d)})",
            lambda: f"{self.string(names, d)} == {self.string(names, 0)}",
            lambda: f"0 < {self.int(names, d)} < 4",
        ]
        return self.rng.choice(forms)()

    def string(self, names: Names, depth: int) -> str:
        if self.chosen():
            return f'choose {self.fresh("c")}("a", "b")'
        if depth <= 0 or self.rng.random() < 0.5:
            return self.pick(names.strings, self.rng.choice(['"a"', '"b"']))
        return f"({self.string(names, 0)} if {self.bool(names, 0)} else {self.string(names, 0)})"

    def list(self, names: Names, depth: int) -> str:
        if self.chosen():
            label = self.fresh("c")
            return self.rng.choice([
                lambda: f"(choose {label} {self.rng.choice([1, 1, 2])} of ({self.list(names, 1)}))",
                lambda: f"(choose {label} 2 of [{self.int(names, 0)}, {self.int(names, 0)}, {self.int(names, 0)}]"
                        f" where {self.rng.choice(['sum', 'max', 'len'])}({label}) {self.rng.choice(['>', '<', '=='])}"
                        f" {self.rng.randint(1, 4)})",
                lambda: f"choose {label}([{self.some(2)}], [{self.some(3)}, 9])",
                lambda: f"choose {label} {{ a: {self.list(names, 1)}, b: {self.list(names, 1)} }}",
            ])()  # fmt: skip
        if depth <= 0 or self.rng.random() < 0.2:
            return self.pick(names.lists, f"[{self.some(3)}]")
        d = depth - 1
        item = self.fresh("i")
        inside = names.copy()
        inside.ints.append(item)
        forms: list[Callable[[], str]] = [
            lambda: f"[{self.int(names, d)}, {self.int(names, d)}]",
            lambda: f"[{self.int(names, d)}]",
            lambda: f"0..{self.int(names, 0)}",
            lambda: f"(({self.list(names, d)}) + ({self.list(names, d)}))",
            lambda: f"({self.list(names, d)})[{self.rng.choice(['1:', ':1', ':2', f':{self.int(names, 0)}'])}]",
            lambda: f"[{self.int(inside, d)} for {item} in {self.list(names, d)}]",
            lambda: f"[{item} for {item} in {self.list(names, d)} if {self.bool(inside, d)}]",
            lambda: f"[{self.int(inside, d)} for {item} in {self.list(names, d)} if {self.bool(inside, d)}]",
            lambda: f"[{item} for {item} in {self.list(names, d)} if {self.bool(inside, d)} if {self.bool(inside, 0)}]",
            lambda: (
                f"[{item} + j for {item} in {self.list(names, d)} if {self.bool(inside, 0)} "
                f"for j in {self.list(inside, 0)}]"
            ),
            lambda: f"reversed({self.list(names, d)})",
            lambda: f"sorted({self.list(names, d)})",
            lambda: f"({self.list(names, d)} if {self.bool(names, d)} else {self.list(names, d)})",
            lambda: f"[{item} * j for {item}, j in zip({self.list(names, d)}, {self.list(names, d)})]",
        ]
        if names.parts:
            forms.append(lambda: f"[u.channels for u in {self.rng.choice(names.parts)}]")
        if self.functions:
            forms.append(lambda: f"{self.rng.choice(self.functions)}({self.tensor(names, 0)}, {self.int(names, d)})")
        return self.rng.choice(forms)()

    def parts(self, names: Names, depth: int) -> str:
        """Return a list of tensors."""
        if self.chosen():
            return f"(choose {self.fresh('c')} {self.rng.choice([1, 2])} of {self.parts(names, 1)})"
        if depth <= 0:
            return self.pick(names.parts, f"[{self.tensor(names, 0)}, {self.tensor(names, 0)}]")
        d = depth - 1
        item = self.fresh("i")
        inside = names.copy()
        inside.ints.append(item)
        forms: list[Callable[[], str]] = [
            lambda: f"[{self.tensor(names, d)}, {self.tensor(names, d)}]",
            lambda: f"[{self.tensor(inside, d)} for {item} in {self.list(names, d)}]",
            lambda: f"[{self.tensor(inside, d)} for {item} in {self.list(names, d)} if {self.bool(inside, d)}]",
            lambda: f"[u |> relu for u in {self.parts(names, d)} if {self.bool(names, d)}]",
            lambda: f"({self.parts(names, d)} + {self.parts(names, d)})",
            lambda: f"({self.parts(names, d)})[{self.rng.choice(['1:', ':1', ':2'])}]",
        ]
        return self.rng.choice(forms)()

    def tensor(self, names: Names, depth: int) -> str:
        if self.chosen():
            return self.rng.choice([
                lambda: f"choose {self.fresh('c')} {{ a: {self.tensor(names, 1)}, b: {self.tensor(names, 1)} }}",
                lambda: f"({self.tensor(names, 0)} |> choose {self.fresh('c')} {{ a: {self.target(names, 1)}, "
                        f"b: {self.target(names, 1)} }})",
                lambda: f"choose {self.fresh('c')}({self.tensor(names, 0)}, {self.tensor(names, 1)} |> gelu)",
            ])()  # fmt: skip
        if depth <= 0 or self.rng.random() < 0.1:
            return self.pick(names.tensors, "image" if "image" in names.tensors else "x")
        d = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: f"({self.tensor(names, d)} |> {self.target(names, d)})",
            lambda: f"({self.tensor(names, d)} |> {self.target(names, d)})",
            lambda: f"({self.tensor(names, d)} |> {self.target(names, d)})",
            lambda: f"sum({self.parts(names, d)})",
            lambda: f"concat({self.parts(names, d)})",
            lambda: f"({self.tensor(names, d)} {self.rng.choice(['+', '*', '-'])} {self.tensor(names, d)})",
            lambda: f"({self.tensor(names, d)} * {self.int(names, d)})",
            lambda: f"({self.tensor(names, d)})[0:{self.int(names, 0)}]",
            lambda: f"({self.tensor(names, d)} if {self.bool(names, d)} else {self.tensor(names, d)})",
            lambda: f"({self.parts(names, d)})[{self.rng.choice(['0', '-1', self.int(names, 0)])}]",
            lambda: f"calibrate({self.tensor(names, 0)}, {self.tensor(names, 0)} |> as_gate)",
            lambda: self.calibrated(names),
        ]
        if names.kinds:
            forms += [lambda: self.calibrated(names), lambda: f"({self.tensor(names, 0)} * {names.kinds[-1]})"]
        return self.rng.choice(forms)()

    def calibrated(self, names: Names) -> str:
        """Return features, gates and kernels together."""
        others = ", ".join(self.pick(names.kinds, self.kind(names, 0)) for _ in range(self.rng.choice([1, 1, 2])))
        return f"calibrate({self.tensor(names, 0)}, {self.rng.choice([others, f'[{others}]'])})"

    def kind(self, names: Names, depth: int) -> str:
        """Return a tensor that may be a feature, a gate or a kernel."""
        x = self.tensor(names, 0)
        plain = [
            f"({x} |> as_gate)",
            f"({x} |> conv(4, kernel=3, stride=4) |> {self.rng.choice(['as_kernel', 'as_gate'])})",
            f"({x} |> conv(4, kernel=2, padding=0) |> as_kernel)",
            x,
        ]
        if depth <= 0 or not self.chosen():
            return self.rng.choice(plain)
        label, (first, second, *_) = self.fresh("c"), self.rng.sample(plain, 3)
        return self.rng.choice([
            lambda: f"choose {label} {{ a: {first}, b: {second} }}",
            lambda: f"choose {label}({first}, {second})",
            lambda: f"({first} if {self.bool(names, 1)} else {second})",
        ])()  # fmt: skip

    def target(self, names: Names, depth: int) -> str:
        forms: list[Callable[[], str]] = [
            lambda: "relu",
            lambda: f"conv({self.int(names, min(depth, 1))}, kernel=1)",
            lambda: f"conv({self.int(names, 0)} + 1, kernel=1) |> gelu",
            lambda: "conv(4, kernel=1)",
            lambda: "conv(4, kernel=1)",
            lambda: f"own conv(4, {self.rng.choice(['1', '3', self.int(names, 0)])})",
            lambda: f"match {self.int(names, 0)} {{ 1 => relu, else => conv(4, kernel=1) }}",
        ]
        if names.callees:
            forms.append(lambda: self.rng.choice(names.callees))
        if self.blocks:
            forms += [lambda: self.applied(names, depth)] * 3
        if self.recursive:
            forms += [lambda: f"{self.rng.choice(self.recursive)}({self.rng.randint(0, 3)})"] * 2
        return self.rng.choice(forms)()

    def applied(self, names: Names, depth: int) -> str:
        name, argument_count, takes = self.rng.choice(self.blocks)
        arguments = [self.int(names, min(depth, 1)) for _ in range(argument_count)]
        if takes:
            simple = [block for block, n, f in self.blocks if n == 0 and not f]
            arguments.append(self.rng.choice(["relu", "gelu", *simple]))
        return f"{name}({', '.join(arguments)})" if arguments else name


IMPORTED = "# imported.arch\n"
"""The line that divides a text into an imported file and the file that imports it."""


def program(seed: int) -> str:
    """Return the program of a seed. Some programs import their first definitions from a file."""
    items = Grower(random.Random(seed)).items()
    rng = random.Random(f"imports of {seed}")
    if len(items) == 1 or rng.random() < 0.7:
        return "\n\n".join(items) + "\n"
    count = rng.randint(1, len(items) - 1)
    imported, own = items[:count], items[count:]
    if rng.random() < 0.5:
        return "\n\n".join(imported) + f'\n\n{IMPORTED}import "imported.arch"\n\n' + "\n\n".join(own) + "\n"
    names = [name for item in imported for name in re.findall(r"^\w+ (\w+)", item)]
    own = [re.sub(rf"\b({'|'.join(names)})\b", r"part.\1", item) for item in own]
    return "\n\n".join(imported) + f'\n\n{IMPORTED}import "imported.arch" as part\n\n' + "\n\n".join(own) + "\n"
