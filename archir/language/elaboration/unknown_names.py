"""Hints for undefined names: a similar name, or the library that defines the name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from archir.diagnostics.errors import Diagnostic, join_names
from archir.diagnostics.hints import closest_name, suggest
from archir.ir.op import OPS, op_name
from archir.language.elaboration.cost_calls import BITS
from archir.language.elaboration.cost_names import COSTS, LATENCY
from archir.language.elaboration.foreign_names import METHODS, NAMES
from archir.language.elaboration.name_analysis import assigned
from archir.language.syntax import ast
from archir.plugins.registry import plugin_hint

if TYPE_CHECKING:
    from archir.language.elaboration.module import Module

_DEFINED = re.compile(r"^(?:own[ \t]+)?(?:block|cell|const)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_CHOICES = re.compile(r"\bchoose[ \t]+([A-Za-z_]\w*)")
_CLASS = re.compile(r"^class[ \t]+([A-Za-z_]\w*)\(", re.MULTILINE)
_DIMENSIONS = re.compile(r"[123]d$")


@cache
def libraries() -> dict[str, tuple[str, ...]]:
    """Map each of archir's own libraries to the names that it defines."""
    entries = sorted((files("archir.language") / "std").iterdir(), key=lambda entry: entry.name)
    texts = {f"std.{entry.name[:-5]}": entry.read_text("utf-8") for entry in entries if entry.name.endswith(".arch")}
    return {name: tuple(_DEFINED.findall(text)) for name, text in texts.items()}


def unknown_name(tree: ast.Name, visible: Iterable[str], module: Module) -> Diagnostic:
    """Return the diagnostic (A0201) for an undefined name; `visible` are the names that could be used instead."""
    return Diagnostic("A0201", f"there is no `{tree}`", tree.span, _name_hint(tree, visible, module))


def _name_hint(tree: ast.Name, visible: Iterable[str], module: Module) -> str | None:
    """Return a hint for an undefined name; `visible` are the names that could be used instead."""
    name, visible = tree.text, set(visible)
    if tree.span.source.text[: tree.span.start].rstrip(" \t").endswith("//"):
        return "comments begin with `#`; `//` divides and rounds down"
    member = re.match(r"\.([A-Za-z_]\w*)", tree.span.source.text[tree.span.end : tree.span.end + 64])
    if member is not None and name in NAMES:
        name = member[1]
    if name in visible:
        return f"{NAMES[tree.text]}: write `{name}`"
    if name in NAMES:
        return NAMES[name]
    if name in BITS:
        return f'element types are texts: write `"{name}"`'
    near = same_spelling(name, visible)
    if near is not None:
        return f"did you mean `{near}`?"
    choice = closest_name(name, _CHOICES.findall(tree.span.source.text), 0.8)
    if choice is not None and closest_name(name, visible, 0.8) is None:
        return f"a choice is called `{choice}`; its value needs a name too: `{choice} = choose {choice} ...`"
    if name in COSTS or name == LATENCY:
        return "only complete networks have costs: `archir cost` prints them, `require macs <= 600M` bounds them"
    hint = NAMES.get(tree.text) or _library_hint(name, module) or _plugin_hint(name, module)
    return hint or _other_scope_hint(tree, module) or _similar_hint(name, visible) or plugin_hint()


def tensor_attribute_hint(name: str, names: Iterable[str], module: Module) -> str | None:
    """Return a hint for an attribute that tensors do not have.

    The attribute may be an operation of this language, or a tensor method in other libraries.
    """
    if name in METHODS:
        return METHODS[name]
    if name in NAMES and name not in OPS:
        return NAMES[name]
    operation = name if module.lookup(name) is not None or (name in OPS and not OPS[name].internal) else None
    operation = operation or same_spelling(name, [op for op in OPS if not OPS[op].internal])
    return f"operations and blocks are applied by a pipe: `x |> {operation}`" if operation else suggest(name, names)


def same_spelling(name: str, names: Iterable[str]) -> str | None:
    """Return the name that equals `name` except for capitals, underscores and a suffix such as `2d`; None if there
    is none."""
    for normalize in (_normalized, _without_dimensions):
        wanted = normalize(name)
        matches = [candidate for candidate in names if normalize(candidate) == wanted]
        if matches:
            return min(matches)
    return None


def _normalized(name: str) -> str:
    return name.lower().replace("_", "")


def _without_dimensions(name: str) -> str:
    return _DIMENSIONS.sub("", _normalized(name))


def _library_hint(name: str, module: Module) -> str | None:
    imports = [item for item in module.tree.items if isinstance(item, ast.Import)]
    library = f"std.{name}"
    if library in {item.path for item in imports}:
        return f"`import {library}` brings its names as they are: drop `{name}.`"
    if library in libraries() or name == "std":
        return f"`import {library} as {name}`" if name != "std" else "`import std.gates`, and drop the prefix"
    for item in imports:
        if item.alias is not None and name in libraries().get(item.path, ()):
            return f"write `{item.alias}.{name}`"
    imports_found = [f"import {library}" for library, names in libraries().items() if name in names]
    imports_found += [
        f'import "{file}"' for file, text in module.sibling_programs.items() if name in _DEFINED.findall(text)
    ]
    return f"{join_names(imports_found, 3).replace(' and ', ' or ')} makes it known" if imports_found else None


def _plugin_hint(name: str, module: Module) -> str | None:
    for file, text in module.sibling_python.items():
        if name in map(op_name, _CLASS.findall(text)):
            return f"`{file}` defines it: name the plugin, `--plugin {file.removesuffix('.py')}`"
    return None


def _other_scope_hint(tree: ast.Name, module: Module) -> str | None:
    """Return a hint for a name that is defined only inside another definition of the file, or None."""
    name = tree.text
    for definition in module.definitions():
        inside = (
            definition.span.source is tree.span.source
            and definition.span.start <= tree.span.start < definition.span.end
        )
        if not inside and name in {*(param.name.text for param in definition.params), *assigned(definition.body)}:
            remedy = "pass it as an argument" if definition.word == "net" else "return it from there"
            return f"`{name}` is only known in `{definition.word} {definition.name.text}`: {remedy}"
    return None


def _similar_hint(name: str, visible: set[str]) -> str | None:
    """Return a hint that suggests a similar name, visible here or defined by a library."""
    where = {defined: library for library, names in libraries().items() for defined in names if defined not in visible}
    hint = suggest(name, visible | where.keys())
    similar = hint and hint.split("`")[1]
    return f"did you mean `{similar}`, of `import {where[similar]}`?" if similar in where else hint
