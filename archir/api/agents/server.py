"""The server: tools, pages and the folders that they may look into, by the official SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib.resources import files
from inspect import Signature, signature
from pathlib import Path
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

import archir.ops  # noqa: F401  (declares the operations)
from archir import __version__
from archir.api.agents.answers import Answer
from archir.api.agents.explaining import explained, known_libraries
from archir.api.agents.room import Room
from archir.api.agents.tools import CHANGING, TOOLS
from archir.ir.op import OPS

INSTRUCTIONS = """\
archir is a language for search spaces of neural networks. Write a program, `check` it, read the problems, change it,
check it again; `fix` mends what is plain. `explain` says what codes, operations and library blocks mean; the resource
archir://language is the language in one page. Then `count`, `cost` and `sample` say what the space holds."""


def make(folders: Sequence[Path]) -> MCPServer:
    """A server of these folders. Raises ArchError (A2606) for what is no folder."""
    room = Room.of(folders)
    server = MCPServer("archir", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    turn = anyio.CapacityLimiter(1)
    for name, tool in TOOLS.items():
        writes = name in CHANGING
        notes = ToolAnnotations(read_only_hint=not writes, destructive_hint=False, open_world_hint=False)
        server.add_tool(_awaited(tool, room, turn), name=name, annotations=notes)
    server.resource("archir://language", name="language", mime_type="text/markdown")(language)
    server.resource("archir://operations", name="operations", mime_type="text/markdown")(operations)
    server.resource("archir://libraries", name="libraries", mime_type="text/markdown")(libraries)
    return server


def _awaited(tool: Callable[..., Answer], room: Room, turn: anyio.CapacityLimiter) -> Callable[..., Any]:
    """A tool of a room as a coroutine: beside it, the server goes on answering; tools run one after the other."""

    @wraps(tool)
    async def asked(**given: Any) -> Any:
        return await anyio.to_thread.run_sync(partial(tool, room, **given), limiter=turn)

    known = signature(tool, eval_str=True)
    left = [one for one in known.parameters.values() if one.name != "room"]
    asked.__signature__ = Signature(left, return_annotation=known.return_annotation)  # type: ignore[attr-defined]
    asked.__annotations__ = {one.name: one.annotation for one in left} | {"return": known.return_annotation}
    return asked


def language() -> str:
    """The language in one page: what a program may say, with an example of each."""
    return (files("archir.api.agents") / "language.md").read_text("utf-8")


def operations() -> str:
    """Every operation, and how it is called."""
    return "\n\n".join(explained(name) for name in sorted(OPS))


def libraries() -> str:
    """The blocks of archir's libraries, and how they are called."""
    return "\n\n".join(explained(name) for name in known_libraries())
