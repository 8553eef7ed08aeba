"""Executors by their names on a command line or in a recipe."""

from __future__ import annotations

import os
import re

from archir.diagnostics.errors import ArchError, fail, suggest
from archir.search.executors.cluster import Actors
from archir.search.executors.local import LocalExecutor
from archir.search.executors.processes import Processes
from archir.search.executors.protocol import Executor
from archir.search.executors.supervised import Supervised

KINDS = ("local", "processes", "ray")


def executor(
    text: str, *, limit: float | None = None, retries: int = 2, cores: float = 1.0, gpus: float = 0.0
) -> Executor:
    """The executor of a name.

    | name | where |
    |---|---|
    | `local` | in this process |
    | `processes`, `processes:4` | in as many processes, by default as this process has cores |
    | `ray` | on a Ray cluster of its own, on this machine |
    | `ray:HOST:PORT` | on the cluster that this machine is part of |
    | `ray://HOST:PORT` | on a cluster that this machine is not part of |

    `limit` in seconds per task; `retries` of a task whose worker died; `cores` and, on Ray, `gpus` of each worker.
    Raises ArchError: A2601 if there is none of that name, A2602 if it needs a package, A2603 if it cannot keep a limit.
    """
    _check("limit", limit is None or limit > 0, "more than 0 seconds")
    _check("retries", retries >= 0, "0 or more")
    _check("cores", cores >= 0, "0 or more")
    _check("gpus", gpus >= 0, "0 or more")
    kind, colon, where = text.partition(":")
    if kind == "local" and not colon:
        if limit is not None:
            message = "`local` cannot keep a time limit: what it would have to end is this process"
            raise fail("A2603", message, None, "`processes:1` can")
        return LocalExecutor()
    if kind == "processes":
        if colon and not re.fullmatch(r"[1-9]\d*", where):
            raise _unknown(text, "`processes:4` are four processes")
        whole = max(1, int(cores))
        number = int(where) if colon else max(1, _cores() // whole)
        return Supervised(Processes(number, whole), limit, retries)
    if kind == "ray":
        if colon and not re.fullmatch(r"(//)?[^\s/]+:\d+", where):
            raise _unknown(text, "an address is `ray:HOST:PORT` or `ray://HOST:PORT`")
        address = text if where.startswith("//") else where or None
        return Supervised(Actors(address, cores, gpus), limit, retries)
    known = ", ".join(f"`{name}`" for name in KINDS)
    raise _unknown(text, suggest(kind, KINDS) or f"there are {known}")


def device_of(text: str, own: str, gpus: float = 0.0) -> str:
    """The device on which the workers of an executor compute, where this process computes on its `own`.

    On Ray they see the GPUs that they were given, and no others, whatever there is here.
    """
    if text.partition(":")[0] != "ray":
        return own
    return "cuda" if gpus else "cpu"


def _unknown(text: str, hint: str) -> ArchError:
    return fail("A2601", f"there is no executor `{text}`", None, hint)


def _check(name: str, right: bool, wanted: str) -> None:
    if not right:
        raise fail("A2601", f"`{name}` of an executor must be {wanted}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
