"""MCP server with archir's tools and resources, built with the official SDK."""

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

from archir import __version__
from archir.diagnostics.work import exhaust_budget
from archir.ir.op import OPS
from archir.tools.lsp.hover import operation_page
from archir.tools.mcp.answers import Answer
from archir.tools.mcp.explanations import explanation, standard_libraries
from archir.tools.mcp.tools import TOOLS, WRITING_TOOLS
from archir.tools.mcp.workspace import Workspace

MAX_SECONDS = 20.0
"""Time limit of a request in seconds; usually the work budget ends a request earlier."""
INSTRUCTIONS = """\
archir is a language for search spaces of neural networks. Write a program, `check` it, read the problems, change it,
check it again; `fix` repairs simple errors. `explain` describes diagnostic codes, operations and library blocks; the
resource archir://language describes the language on one page. Then use `count`, `cost` and `sample` on the space."""
"""Instructions for language models, which the server sends to clients."""


def make_server(folders: Sequence[Path], seconds: float = MAX_SECONDS) -> MCPServer:
    """Create an MCP server for the given folders. A request that takes longer than `seconds` fails with A0602.

    Raises ArchError (A2606) if one of the folders does not exist or is not a folder.
    """
    workspace = Workspace.open(folders)
    server = MCPServer("archir", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    turn = anyio.CapacityLimiter(1)
    for name, tool in TOOLS.items():
        writes = name in WRITING_TOOLS
        notes = ToolAnnotations(read_only_hint=not writes, destructive_hint=False, open_world_hint=False)
        server.add_tool(_as_coroutine(tool, workspace, turn, seconds), name=name, annotations=notes)
    server.resource("archir://language", name="language", mime_type="text/markdown")(language)
    server.resource("archir://operations", name="operations", mime_type="text/markdown")(operations)
    server.resource("archir://libraries", name="libraries", mime_type="text/markdown")(libraries)
    return server


def _as_coroutine(
    tool: Callable[..., Answer], workspace: Workspace, turn: anyio.CapacityLimiter, seconds: float
) -> Callable[..., Any]:
    """Wrap a tool as a coroutine that supplies its workspace parameter.

    Tools run in a thread, one at a time, so that the server stays responsive. A tool is stopped after `seconds`, or
    when the client cancels the request.
    """

    @wraps(tool)
    async def run_tool(**arguments: Any) -> Any:
        context = copy_context()
        async with turn, anyio.create_task_group() as tasks:
            tasks.start_soon(_exhaust_after, context, seconds)
            answer = await anyio.to_thread.run_sync(context.run, partial(tool, workspace, **arguments))
            tasks.cancel_scope.cancel()
        return answer

    tool_signature = signature(tool, eval_str=True)
    parameters = [parameter for parameter in tool_signature.parameters.values() if parameter.name != "workspace"]
    run_tool.__signature__ = Signature(parameters, return_annotation=tool_signature.return_annotation)  # type: ignore[attr-defined]
    run_tool.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {
        "return": tool_signature.return_annotation
    }
    return run_tool


async def _exhaust_after(context: Context, seconds: float) -> None:
    """Exhaust the work budgets of a context every `seconds` seconds, and once more when this task is cancelled."""
    try:
        while True:
            await anyio.sleep(seconds)
            exhaust_budget(context)
    finally:
        exhaust_budget(context)


def language() -> str:
    """The archir language on one page, with an example of each construct."""
    return (files("archir.tools.mcp") / "language.md").read_text("utf-8")


def operations() -> str:
    """All operations with their signatures and rules."""
    return "\n\n".join(operation_page(OPS[name]) for name in sorted(OPS) if not OPS[name].internal)


def libraries() -> str:
    """All library blocks with their signatures."""
    return "\n\n".join(explanation(name) for name in standard_libraries())
