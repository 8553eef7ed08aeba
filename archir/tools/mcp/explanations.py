"""Explanations of diagnostic codes, keywords, operations and library blocks, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from importlib.resources import files

from archir.backends.lowering_sources import lowering_locations
from archir.diagnostics.errors import fail
from archir.diagnostics.explain import codes, page, title
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import fresh_budget, work_budget
from archir.ir.op import OPS, Op, attribute_types
from archir.language.elaboration.files import Loader
from archir.language.elaboration.module import Block, Module
from archir.language.elaboration.unknown_names import NAMES, same_spelling
from archir.language.literals import literal
from archir.tools.lsp.hover import KEYWORDS, operation_page
from archir.tools.lsp.signatures import block_signature, describe_type, operation_signature
from archir.tools.mcp import examples
from archir.tools.mcp.examples import Example

_CODE = re.compile(r"[Aa]\d+")
"""Pattern that a diagnostic code matches."""


def explanation(topic: str) -> str:
    """Return the documentation of a diagnostic code, operation, library, library block or keyword, in Markdown.

    Pages of operations and blocks contain an example with its costs. Raises ArchError (A1201) for any other name.
    """
    name = topic.strip().strip("`")
    if name.upper() in codes():
        return page(name.upper())
    op = OPS.find(name)
    if op is not None and not op.internal:
        return _operation_text(op)
    libraries = standard_libraries()
    if name in libraries:
        return f"Blocks of `{name}`:\n\n" + "\n\n".join(_signature_block(block) for block in _blocks(libraries[name]))
    pages = [
        _block_text(block, library)
        for library, module in libraries.items()
        for block in _blocks(module)
        if name in (block.name, f"{library}.{block.name}")
    ]
    if not pages and name in KEYWORDS:
        return f"`{name}`: {KEYWORDS[name]}"
    if not pages:
        raise fail("A1201", f"there is no explanation of `{name[:80]}`", None, _hint(name[:80]))
    return "\n\n".join(pages)


def list_topics() -> dict[str, list[tuple[str, str]]]:
    """Return the names that can be explained, by kind, each with a one-line description."""
    public_ops = [op for op in OPS.values() if not op.internal]
    return {
        "Words": [(word, text) for word, text in KEYWORDS.items()],
        "Operations": [(op.name, _first_sentence(operation_signature(op).text)) for op in public_ops],
        **{
            f"Blocks of {library}": [
                (block.name, _first_sentence(block_signature(block).text)) for block in _blocks(module)
            ]
            for library, module in standard_libraries().items()
        },
        "Diagnostics": [(code, title(code)) for code in codes()],
    }


@cache
def standard_libraries() -> dict[str, Module]:
    """Return archir's own libraries by name, such as `std.cells`, leaving out those of plugins."""
    names = sorted(
        file.name[:-5] for file in (files("archir.language") / "std").iterdir() if file.name.endswith(".arch")
    )
    modules = {}
    for name in names:
        module = Loader(None).load(f"import std.{name}\n", "<library>", None)
        modules[f"std.{name}"] = module.imports[0]
    return modules


def _hint(name: str) -> str:
    """Return a hint for an unknown name.

    The hint names the archir equivalent if the name is known from torch, or else a similar name; if there is neither,
    it says how to list all names.
    """
    if _CODE.fullmatch(name):
        return "`archir explain` lists all"
    blocks = [block.name for module in standard_libraries().values() for block in _blocks(module)]
    topics = [*(name for name in OPS if not OPS[name].internal), *blocks, *standard_libraries(), *KEYWORDS, *codes()]
    similar = NAMES.get(name) or same_spelling(name, topics)
    return (
        (f"did you mean `{similar}`?" if similar in topics else similar)
        or suggest(name, topics)
        or "`archir explain` lists all"
    )


def _operation_text(op: type[Op]) -> str:
    """Return the documentation of an operation: signature, rules, attributes, example, and the files that lower it."""
    kinds = attribute_types(op)
    attribute_lines = [
        f"- `{field.name}`: {describe_type(kinds[field.name])}"
        + (f"; default `{literal(field.default)}`" if field.default is not MISSING else "")
        for field in fields(op)
    ]
    attributes = ["Attributes:\n\n" + "\n".join(attribute_lines)] if attribute_lines else []
    locations = " and ".join(f"`{place}`" for place in lowering_locations(op))
    lowered = [f"It is lowered in {locations}."] if locations else []
    keyword = [f"`{op.name}` is also a keyword: {KEYWORDS[op.name]}."] if op.name in KEYWORDS else []
    return "\n\n".join(
        [operation_page(op), *attributes, *_example_texts(examples.operation_example(op)), *lowered, *keyword]
    )


def _block_text(block: Block, library: str) -> str:
    """Return the documentation of a library block: signature, library, example, and the operations that it uses."""
    example = examples.block_example(block, library)
    ops = dict.fromkeys(example.graph[number].op for number in example.graph) if example is not None else ()
    names = dict.fromkeys(f"`{op.name}`" for op in ops if not op.internal)
    op_line = [f"It uses {', '.join(names)}."] if names else []
    return "\n\n".join(
        [
            _signature_block(block),
            f"Defined in `{library}`; import it with `import {library}`.",
            *_example_texts(example),
            *op_line,
        ]
    )


def _example_texts(example: Example | None) -> list[str]:
    """Return the Markdown of an example: a code block, followed by its output type and costs."""
    if example is None:
        return []
    with work_budget(), fresh_budget():
        return [f"```arch\n{example.text}```", f"{example.summary[:1].upper()}{example.summary[1:]}."]


def _blocks(module: Module) -> Iterator[Block]:
    """Yield the blocks and cells of a file."""
    yield from (value for value in module.names.values() if isinstance(value, Block))


def _signature_block(block: Block) -> str:
    """Return the signature of a block as a code block, followed by its description."""
    signature = block_signature(block)
    return f"```arch\n{signature.label}\n```" + (f"\n\n{signature.text}" if signature.text else "")


def _first_sentence(text: str) -> str:
    """Return the first sentence of a text, on one line."""
    return re.split(r"\. (?=[A-Z`])", " ".join(text.split()), maxsplit=1)[0].removesuffix(".")
