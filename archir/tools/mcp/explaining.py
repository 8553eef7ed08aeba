"""What a word of the language, of the library or of a message means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from importlib.resources import files

import archir.ops  # noqa: F401  (declares the operations)
from archir.backends.written import written
from archir.diagnostics.errors import fail, suggest
from archir.diagnostics.explain import codes, page, title
from archir.diagnostics.work import anew, bounded
from archir.ir.op import OPS, Op, attribute_types
from archir.language.elaboration.files import Loader, Module
from archir.language.elaboration.foreign import NAMES
from archir.language.elaboration.unknown import alike
from archir.language.elaboration.values import Block
from archir.language.source import literal
from archir.tools.lsp.hover import KEYWORDS, operation
from archir.tools.lsp.signatures import described, of_block, of_operation
from archir.tools.mcp import examples
from archir.tools.mcp.examples import Example

_CODE = re.compile(r"[Aa]\d+")


def explained(what: str) -> str:
    """The page of a code, an operation, a library or a block of one, or a word, in Markdown.

    Operations and blocks have an example with what it costs. Raises ArchError (A1201) for what is none of these.
    """
    name = what.strip().strip("`")
    if name.upper() in codes():
        return page(name.upper())
    if name in OPS and not OPS[name].internal:
        return _operation(OPS[name])
    libraries = known_libraries()
    if name in libraries:
        return f"`import {name}` brings:\n\n" + "\n\n".join(_called(block) for block in _blocks(libraries[name]))
    found = [
        _block(block, library)
        for library, module in libraries.items()
        for block in _blocks(module)
        if name in (block.name, f"{library}.{block.name}")
    ]
    if not found and name in KEYWORDS:
        return f"`{name}`: {KEYWORDS[name]}"
    if not found:
        raise fail("A1201", f"nothing is called `{name[:80]}`", None, _meant(name[:80]))
    return "\n\n".join(found)


def listed() -> dict[str, list[tuple[str, str]]]:
    """All that is explained, by kind: names, each with a line that says what it is."""
    known = [op for op in OPS.values() if not op.internal]
    return {
        "Words": [(word, text) for word, text in KEYWORDS.items()],
        "Operations": [(op.name, _sentence(of_operation(op).text)) for op in known],
        **{
            f"Blocks of {library}": [(block.name, _sentence(of_block(block).text)) for block in _blocks(module)]
            for library, module in known_libraries().items()
        },
        "Diagnostics": [(code, title(code)) for code in codes()],
    }


@cache
def known_libraries() -> dict[str, Module]:
    """archir's own libraries by name."""
    names = sorted(one.name[:-5] for one in (files("archir.language") / "std").iterdir() if one.name.endswith(".arch"))
    found = {}
    for name in names:
        module = Loader(None).load(f"import std.{name}\n", "<library>", None)
        found[f"std.{name}"] = module.imports[0]
    return found


def _meant(name: str) -> str:
    """What may be meant by a name that means nothing: what it is in torch, or a name that is nearly the same."""
    if _CODE.fullmatch(name):
        return "`archir explain` lists all"
    blocks = [block.name for module in known_libraries().values() for block in _blocks(module)]
    every = [*(name for name in OPS if not OPS[name].internal), *blocks, *known_libraries(), *KEYWORDS, *codes()]
    near = NAMES.get(name) or alike(name, every)
    return (
        (f"did you mean `{near}`?" if near in every else near) or suggest(name, every) or "`archir explain` lists all"
    )


def _operation(op: type[Op]) -> str:
    kinds = attribute_types(op)
    given = [
        f"- `{field.name}`: {described(kinds[field.name])}"
        + (f"; `{literal(field.default)}` unless it is given" if field.default is not MISSING else "")
        for field in fields(op)
    ]
    attributes = ["Attributes:\n\n" + "\n".join(given)] if given else []
    places = " and ".join(f"`{place}`" for place in written(op))
    lowered = [f"It is lowered in {places}."] if places else []
    word = [f"`{op.name}` is a word as well: {KEYWORDS[op.name]}."] if op.name in KEYWORDS else []
    return "\n\n".join([operation(op), *attributes, *_example(examples.of_operation(op)), *lowered, *word])


def _block(block: Block, library: str) -> str:
    example = examples.of_block(block, library)
    ops = dict.fromkeys(example.graph[number].op for number in example.graph) if example is not None else ()
    names = dict.fromkeys(f"`{op.name}`" for op in ops if not op.internal)
    made = [f"It is made of {', '.join(names)}."] if names else []
    return "\n\n".join(
        [_called(block), f"It is in `{library}`: `import {library}` makes it known.", *_example(example), *made]
    )


def _example(found: Example | None) -> list[str]:
    if found is None:
        return []
    with bounded(), anew():
        return [f"```arch\n{found.text}```", f"{found.told[:1].upper()}{found.told[1:]}."]


def _blocks(module: Module) -> Iterator[Block]:
    yield from (value for value in module.names.values() if isinstance(value, Block))


def _called(block: Block) -> str:
    found = of_block(block)
    return f"```arch\n{found.label}\n```" + (f"\n\n{found.text}" if found.text else "")


def _sentence(text: str) -> str:
    """The first sentence of a text, in one line."""
    return re.split(r"\. (?=[A-Z`])", " ".join(text.split()), maxsplit=1)[0].removesuffix(".")
