"""Write reference pages of the documentation from declarations in the code.

python docs/generate.py [--check]

In each page of PAGES, the text from the line `<!-- generated -->` to `<!-- end -->`, or to the end of the page, is
generated; the rest is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import click

import archir
from archir import ops
from archir.cli import main as commands
from archir.cli.commands import COMMAND_GROUPS
from archir.diagnostics.explain import codes, title
from archir.ir.op import OPS, Free, Op, attribute_types
from archir.language.syntax import ast
from archir.language.syntax.parse import parse
from archir.tools.lsp.signatures import describe_type

ROOT = Path(__file__).resolve().parent.parent
MARK, END = "<!-- generated -->\n", "<!-- end -->\n"


def operations() -> str:
    """Return the reference of all operations: signature, operands, attributes, and the docstrings of their rules."""
    text = ""
    for family in sorted((info.name for info in walk_packages(ops.__path__, "archir.ops.")), key=_short_name):
        module = import_module(family)
        family_ops = [op for op in OPS.values() if op.__module__ == module.__name__ and not op.internal]
        if not family_ops:
            continue
        text += f"\n## {_short_name(family).capitalize()}\n\n{paragraphs(module.__doc__)}\n"
        text += "".join(f"\n### `{op.name}`\n\n{_operation(op)}\n" for op in family_ops)
    return text


def _short_name(module: str) -> str:
    return module.rpartition(".")[2]


def _operation(op: type[Op]) -> str:
    attributes = [_attribute(f) for f in fields(op)]
    parts = [f"`{op.name}({', '.join([*map(_operand, op.operands), *attributes])})`", paragraphs(op.__doc__)]
    if fields(op):
        kinds = attribute_types(op)
        rows = [(f"`{f.name}`", describe_type(kinds[f.name]), _default(f)) for f in fields(op)]
        parts.append(table(["attribute", "type", "default"], rows))
    rules = {"Result": op.infer, "Weights": op.weights, "Multiply-accumulates": op.macs, "Kernels": op.kernels}
    descriptions = [f"- {what}: {_rule(rule)}" for what, rule in rules.items() if not _inherited(rule)]
    properties = {"commutative": op.commutative, "linear": op.linear}
    traits = [word for word, holds in properties.items() if holds]
    return "\n\n".join([*parts, "\n".join([*descriptions, *([f"- It is {' and '.join(traits)}."] if traits else [])])])


def _inherited(rule: Callable[..., Any]) -> bool:
    """True if a rule is the default: no weights, no multiply-accumulates, or one kernel."""
    return rule in (Op.weights, Free.macs, Op.kernels)


def _rule(rule: Callable[..., Any]) -> str:
    text = " ".join(cleandoc(rule.__doc__ or "").split()).removeprefix("Return ")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _operand(name: str) -> str:
    return f"{name[1:]}..." if name.startswith("*") else name


def _attribute(field: Field[Any]) -> str:
    return field.name if field.default is MISSING else f"{field.name}={value(field.default)}"


def _default(field: Field[Any]) -> str:
    return "" if field.default is MISSING else f"`{value(field.default)}`"


def value(plain: object) -> str:
    """Return a plain value in the syntax of `.arch` programs."""
    if isinstance(plain, bool) or plain is None:
        return str(plain).lower()
    return (
        f'"{plain}"'
        if isinstance(plain, str)
        else f"{plain:g}".replace("e-0", "e-")
        if isinstance(plain, float)
        else str(plain)
    )


def library() -> str:
    """Return the reference of all library blocks: their signatures, and the comments above them."""
    text = ""
    for path in sorted((ROOT / "archir" / "language" / "std").glob("*.arch")):
        source = path.read_text("utf-8")
        lines = source.splitlines()
        head = _comment(lines[: lines.index("")])
        text += f"\n## `std.{path.stem}`\n\n{head}\n"
        for item in parse(source, path.name).items:
            if isinstance(item, ast.Definition):
                comment = _comment(source[: item.span.start].splitlines())
                text += f"\n### `{item.name.text}`\n\n`{_signature(item)}`\n\n{comment}\n"
    return text


def _signature(block: ast.Definition) -> str:
    params = (p.name.text if p.default is None else f"{p.name.text}={p.default.span.text}" for p in block.params)
    return f"{block.name.text}({', '.join(params)})"


def _comment(lines: list[str]) -> str:
    """Return the comment at the end of some lines."""
    count = next((i for i, line in enumerate(reversed(lines)) if not line.startswith("#")), len(lines))
    return paragraphs("\n".join(line.removeprefix("#").strip() for line in lines[len(lines) - count :]))


def command_line() -> str:
    """Return the reference of all commands: description, arguments and options."""
    text = f"\n{_help(commands.help or '')}\n"
    group = click.Context(commands, info_name="archir")
    sections = {name: heading for heading, names in COMMAND_GROUPS.items() for name in list(names)[:1]}
    for name in commands.list_commands(group):
        text += f"\n## {sections[name]}\n" if name in sections else ""
        command = commands.get_command(group, name)
        assert command is not None
        text += _command(name, command, group, "###")
    return text


def _command(name: str, command: click.Command, parent: click.Context, level: str = "##") -> str:
    """Return the section of a command, and those of its subcommands."""
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = (p for p in command.params if isinstance(p, click.Option))
    records = (option.get_help_record(context) for option in options)
    rows = [(f"`{names}`".replace("|", "\\|"), help.replace("|", "\\|")) for names, help in filter(None, records)]
    text = f"\n{level} `{context.command_path}`\n\n```text\n{usage}\n```\n\n{_help(command.help or '')}\n\n"
    text += table(["option", "what it does"], rows) + "\n" if rows else ""
    subcommands = command.commands if isinstance(command, click.Group) else {}
    return text + "".join(_command(*item, context, f"{level}#") for item in subcommands.items())


def _help(text: str) -> str:
    """Return a help text in Markdown; paragraphs that click does not wrap become code blocks."""
    parts = cleandoc(text).split("\n\n")
    return "\n\n".join(f"```text\n{part[2:]}\n```" if part.startswith("\b") else part for part in parts)


GROUPS = {
    "A01": "Syntax", "A02": "Names and definitions", "A03": "Values", "A04": "Tensors", "A05": "Choices",
    "A06": "Limits", "A07": "Graphs and passes", "A08": "Files and imports", "A09": "Backends",
    "A10": "Architectures and sampling", "A11": "Training", "A12": "Commands",
    "A13": "Pictures", "A14": "Lint", "A15": "Latency", "A16": "Costs of spaces",
    "A17": "Training engine", "A18": "Runs", "A19": "Objectives", "A20": "Relaxation", "A21": "Derivation",
    "A22": "Recipes", "A25": "Multi-trial search", "A26": "Executors", "A28": "Quantisation", "A31": "Plugins",
    "A32": "Importing", "A33": "Optimisation and scores",
}  # fmt: skip
"""Titles of the groups of diagnostic codes, by prefix."""


def diagnostics() -> str:
    """Return a table of all diagnostic codes, with links to their pages."""
    text = ""
    for group, name in GROUPS.items():
        rows = [(f"[{c}](../archir/diagnostics/codes/{c}.md)", title(c)) for c in codes() if c.startswith(group)]
        text += f"\n## {name}\n\n{table(['code', 'message'], rows)}\n"
    return text


SPACES = {
    "full_attention": ["full_attention.arch", "tied.arch", "deep.arch"],
    "trionet": ["trionet.arch"],
    "autola": ["autola.arch"],
    "nos": ["nos.arch:nos"],
    "glit": ["glit.arch", "search.arch:high", "search.arch:low"],
    "darts": ["darts.arch:darts"],
    "nas_bench_201": ["nas_bench_201.arch"],
    "mobilenet_v3_ofa": ["mobilenet_v3_ofa.arch"],
    "autoformer": ["autoformer.arch"],
    "nas_bench_101": ["nas_bench_101.arch"],
    "nas_bert": ["nas_bert.arch"],
    "nas_fpn": ["nas_fpn.arch"],
    "llama": ["llama3.arch"],
    "grammar": ["grammar.arch"],
}
"""The published spaces and one that is a grammar, by folder of `examples`, with their nets, the main net first."""
NETS = {"resnet50": "ResNet-50", "deit_tiny": "DeiT-Tiny", "mobilenet_v2": "MobileNetV2"}
"""Networks without choices, by file of `examples`."""


def examples() -> str:
    """Return tables of the published spaces with their sizes, and of the networks without choices with their costs."""
    rows = []
    for folder, nets in SPACES.items():
        for position, net in enumerate(nets):
            name = "" if position else f"[{_title(folder)}](../examples/{folder}/README.md)"
            rows.append((name, f"`{folder}/{net}`", _size(folder, net)))
    text = "\n## Spaces\n\n" + table(["space", "net", "architectures"], rows) + "\n"
    costs = {name: archir.cost(archir.load(ROOT / "examples" / f"{name}.arch").graph) for name in NETS}
    cost_rows = [(f"[{NETS[n]}](../examples/{n}.arch)", f"{c.params:,}", f"{c.macs:,}") for n, c in costs.items()]
    return text + "\n## Networks\n\n" + table(["network", "parameters", "multiply-accumulates"], cost_rows) + "\n"


@cache
def _size(folder: str, net: str) -> str:
    return f"{archir.load(f'{ROOT}/examples/{folder}/{net}').size:,}"


def _title(folder: str) -> str:
    return (ROOT / "examples" / folder / "README.md").read_text("utf-8").splitlines()[0].removeprefix("# ")


def paragraphs(doc: str | None) -> str:
    """Return a docstring with each of its paragraphs on one line."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(doc or "").split("\n\n"))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


PAGES = {
    "docs/operations.md": operations,
    "docs/library.md": library,
    "docs/commands.md": command_line,
    "docs/diagnostics.md": diagnostics,
    "docs/examples.md": examples,
}
"""Functions that generate the pages, by file."""


def updated(name: str) -> str:
    """Return the text of a page with its generated part up to date."""
    before, _, old = (ROOT / name).read_text("utf-8").partition(MARK)
    return before + MARK + PAGES[name]() + "".join(old.partition(END)[1:])


def main() -> None:
    """Write the pages that are out of date; with --check, print their names and fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check = parser.parse_args().check
    stale = {name: text for name in PAGES if (text := updated(name)) != (ROOT / name).read_text("utf-8")}
    for name, text in stale.items():
        if not check:
            (ROOT / name).write_text(text, "utf-8")
        print(f"{name} {'is not up to date' if check else 'written'}")
    raise SystemExit(1 if stale and check else 0)


if __name__ == "__main__":
    main()
