"""Names that mean nothing: what was meant, and which library has it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from archir.diagnostics.errors import listed, nearest, suggest
from archir.ir.op import OPS, op_name
from archir.language.elaboration.costs import BITS
from archir.language.elaboration.foreign import METHODS, NAMES
from archir.language.elaboration.locals import COSTS, LATENCY, assigned
from archir.language.syntax import ast
from archir.plugins.registry import door

if TYPE_CHECKING:
    from archir.language.elaboration.files import Module

_DEFINED = re.compile(r"^(?:own[ \t]+)?(?:block|cell|const)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_CHOICES = re.compile(r"\bchoose[ \t]+([A-Za-z_]\w*)")
_CLASS = re.compile(r"^class[ \t]+([A-Za-z_]\w*)\(", re.MULTILINE)
_DIMENSIONS = re.compile(r"[123]d$")


@cache
def libraries() -> dict[str, tuple[str, ...]]:
    """What each library of archir defines, by its name."""
    found = sorted((files("archir.language") / "std").iterdir(), key=lambda entry: entry.name)
    texts = {f"std.{entry.name[:-5]}": entry.read_text("utf-8") for entry in found if entry.name.endswith(".arch")}
    return {name: tuple(_DEFINED.findall(text)) for name, text in texts.items()}


def about_name(tree: ast.Name, known: Iterable[str], module: Module) -> str | None:
    """A hint on a name that means nothing in a file."""
    name, known = tree.text, set(known)
    if tree.span.source.text[: tree.span.start].rstrip(" \t").endswith("//"):
        return "comments begin with `#`; `//` divides and rounds down"
    member = re.match(r"\.([A-Za-z_]\w*)", tree.span.source.text[tree.span.end : tree.span.end + 64])
    if member is not None and name in NAMES:
        name = member[1]
    if name in known:
        return f"{NAMES[tree.text]}: write `{name}`"
    if name in NAMES:
        return NAMES[name]
    if name in BITS:
        return f'element types are texts: write `"{name}"`'
    near = alike(name, known)
    if near is not None:
        return f"did you mean `{near}`?"
    choice = nearest(name, _CHOICES.findall(tree.span.source.text), 0.8)
    if choice is not None and nearest(name, known, 0.8) is None:
        return f"a choice is called `{choice}`; its value needs a name too: `{choice} = choose {choice} ...`"
    if name in COSTS or name == LATENCY:
        return "a cost is known of a whole network: `archir cost` prints it, `require macs <= 600M` bounds it"
    found = NAMES.get(tree.text) or _of_libraries(name, module) or _of_plugins(name, module)
    return found or _of_others(tree, module) or _near(name, known) or door()


def about_attribute_of_tensor(name: str, known: Iterable[str], module: Module) -> str | None:
    """A hint on an attribute that no tensor has: operations are no methods."""
    if name in METHODS:
        return METHODS[name]
    if name in NAMES and name not in OPS:
        return NAMES[name]
    called = name if module.lookup(name) is not None or (name in OPS and not OPS[name].internal) else None
    called = called or alike(name, [op for op in OPS if not OPS[op].internal])
    return f"operations and blocks stand behind a pipe: `x |> {called}`" if called else suggest(name, known)


def alike(name: str, known: Iterable[str]) -> str | None:
    """The known name that differs in capitals, underscores and a number of dimensions at most."""
    for plain in (_plain, _without_dimensions):
        wanted = plain(name)
        found = [one for one in known if plain(one) == wanted]
        if found:
            return min(found)
    return None


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _without_dimensions(name: str) -> str:
    return _DIMENSIONS.sub("", _plain(name))


def _of_libraries(name: str, module: Module) -> str | None:
    imports = [item for item in module.tree.items if isinstance(item, ast.Import)]
    library = f"std.{name}"
    if library in {item.path for item in imports}:
        return f"`import {library}` brings its names as they are: drop `{name}.`"
    if library in libraries() or name == "std":
        return f"`import {library} as {name}`" if name != "std" else "`import std.gates`, and drop what is in front"
    for item in imports:
        if item.alias is not None and name in libraries().get(item.path, ()):
            return f"write `{item.alias}.{name}`"
    found = [f"import {library}" for library, names in libraries().items() if name in names]
    found += [f'import "{file}"' for file, text in module.beside.items() if name in _DEFINED.findall(text)]
    return f"{listed(found, 3).replace(' and ', ' or ')} makes it known" if found else None


def _of_plugins(name: str, module: Module) -> str | None:
    for file, text in module.modules_beside.items():
        if name in map(op_name, _CLASS.findall(text)):
            return f"`{file}` defines it: name the plugin, `--plugin {file.removesuffix('.py')}`"
    return None


def _of_others(tree: ast.Name, module: Module) -> str | None:
    """Where a name is one that is not known here: inside of another definition of the file."""
    name = tree.text
    for one in module.definitions():
        inside = one.span.source is tree.span.source and one.span.start <= tree.span.start < one.span.end
        if not inside and name in {*(param.name.text for param in one.params), *assigned(one.body)}:
            way = "hand it over as a parameter" if one.word == "net" else "what others need of it, it returns"
            return f"`{name}` is known in `{one.word} {one.name.text}` alone: {way}"
    return None


def _near(name: str, known: set[str]) -> str | None:
    where = {one: library for library, names in libraries().items() for one in names if one not in known}
    hint = suggest(name, known | where.keys())
    near = hint and hint.split("`")[1]
    return f"did you mean `{near}`, of `import {where[near]}`?" if near in where else hint
