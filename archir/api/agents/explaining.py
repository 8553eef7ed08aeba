"""What a word of the language, of the library or of a message means."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from archir.api.editor.hover import operation
from archir.api.editor.signatures import of_block
from archir.base.errors import fail, suggest
from archir.base.explain import codes, page
from archir.ir.op import OPS
from archir.language.elaboration.expressions.values import Block
from archir.language.elaboration.files import Loader, Module


def explained(what: str) -> str:
    """The page of a code, an operation, a library or a block of one, in Markdown. Raises ArchError (A1201)."""
    name = what.strip().strip("`")
    if name.upper() in codes():
        return page(name.upper())
    if name in OPS:
        return operation(OPS[name])
    libraries = known_libraries()
    if name in libraries:
        return f"`import {name}` brings:\n\n" + "\n\n".join(_page(block) for block in _blocks(libraries[name]))
    found = [
        f"{_page(block)}\n\nof `{library}`: `import {library}`"
        for library, module in libraries.items()
        for block in _blocks(module)
        if name in (block.name, f"{library}.{block.name}")
    ]
    if not found:
        every = [*codes(), *OPS, *libraries, *(one.name for module in libraries.values() for one in _blocks(module))]
        raise fail("A1201", f"nothing is called `{name[:80]}`", None, suggest(name[:80], every))
    return "\n\n".join(found)


@cache
def known_libraries() -> dict[str, Module]:
    """archir's own libraries by name."""
    names = sorted(one.name[:-5] for one in (files("archir.language") / "std").iterdir() if one.name.endswith(".arch"))
    found = {}
    for name in names:
        module = Loader(None).load(f"import std.{name}\n", "<library>", None)
        found[f"std.{name}"] = module.imports[0]
    return found


def _blocks(module: Module) -> Iterator[Block]:
    yield from (value for value in module.names.values() if isinstance(value, Block))


def _page(block: Block) -> str:
    found = of_block(block)
    return f"```arch\n{found.label}\n```" + (f"\n\n{found.text}" if found.text else "")
