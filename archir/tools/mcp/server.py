"""The server: tools, pages and the folders that they may look into, by the official SDK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
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
from archir.diagnostics.work import stop
from archir.ir.op import OPS
from archir.tools.lsp.hover import operation
from archir.tools.mcp.answers import Answer
from archir.tools.mcp.explaining import explained, known_libraries
from archir.tools.mcp.room import Room
from archir.tools.mcp.tools import CHANGING, TOOLS

MOST_SECONDS = 20.0
"""How long a request may take; a budget of work is most often spent before."""
INSTRUCTIONS = """\
archir is a language for search spaces of neural networks. Write a program, `check` it, read the problems, change it,
check it again; `fix` mends what is plain. `explain` says what codes, operations and library blocks mean; the resource
archir://language is the language in one page. Then `count`, `cost` and `sample` say what the space holds."""


def make(folders: Sequence[Path], seconds: float = MOST_SECONDS) -> MCPServer:
    """A server of these folders; a request that takes more `seconds` ends with A0602. Raises ArchError (A2606) for what
    is no folder."""
    room = Room.of(folders)
    server = MCPServer("archir", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    turn = anyio.CapacityLimiter(1)
    for name, tool in TOOLS.items():
        writes = name in CHANGING
        notes = ToolAnnotations(read_only_hint=not writes, destructive_hint=False, open_world_hint=False)
        server.add_tool(_awaited(tool, room, turn, seconds), name=name, annotations=notes)
    server.resource("archir://language", name="language", mime_type="text/markdown")(language)
    server.resource("archir://operations", name="operations", mime_type="text/markdown")(operations)
    server.resource("archir://libraries", name="libraries", mime_type="text/markdown")(libraries)
    return server


def _awaited(
    tool: Callable[..., Answer], room: Room, turn: anyio.CapacityLimiter, seconds: float
) -> Callable[..., Any]:
    """A tool of a room as a coroutine: beside it, the server goes on answering; tools run one after the other. It ends
    after so many seconds, and when the client asks no more."""

    @wraps(tool)
    async def asked(**given: Any) -> Any:
        context = copy_context()
        async with turn, anyio.create_task_group() as tasks:
            tasks.start_soon(_ended, context, seconds)
            found = await anyio.to_thread.run_sync(context.run, partial(tool, room, **given))
            tasks.cancel_scope.cancel()
        return found

    known = signature(tool, eval_str=True)
    left = [one for one in known.parameters.values() if one.name != "room"]
    asked.__signature__ = Signature(left, return_annotation=known.return_annotation)  # type: ignore[attr-defined]
    asked.__annotations__ = {one.name: one.annotation for one in left} | {"return": known.return_annotation}
    return asked


async def _ended(context: Context, seconds: float) -> None:
    """Work of a context has no budget any more after so many seconds, or once this is cancelled."""
    try:
        while True:
            await anyio.sleep(seconds)
            stop(context)
    finally:
        stop(context)


def language() -> str:
    """The language in one page: what a program may say, with an example of each."""
    return (files("archir.tools.mcp") / "language.md").read_text("utf-8")


def operations() -> str:
    """Every operation, and how it is called."""
    return "\n\n".join(operation(OPS[name]) for name in sorted(OPS))


def libraries() -> str:
    """The blocks of archir's libraries, and how they are called."""
    return "\n\n".join(explained(name) for name in known_libraries())
