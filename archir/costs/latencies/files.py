"""Files named in costs such as `latency("cpu.json")`: latency tables or fitted latency models."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from archir.costs.latencies.model import LatencyModel
from archir.costs.latencies.table import LatencyTable
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import describe_error, fail
from archir.diagnostics.hints import suggest_file
from archir.ir.graph import Graph
from archir.language.elaboration.cost_names import latency_confidence, latency_file
from archir.utils.files import read_bytes

MAX_FILE_BYTES = 2**28
"""Maximum size in bytes of a latency table's or model's file."""


class _FileKind(BaseModel):
    """Minimal schema of a latency file: the field that exists only in models, which tells them from tables."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None


def read_latency_file(path: str | Path, shown: str = "") -> LatencyTable | LatencyModel:
    """Read a latency table or model; error messages refer to the file as `shown`.

    Raises ArchError (A1501) if the file is neither.
    """
    shown = shown or str(path)
    try:
        text = read_bytes(Path(path), MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        hint = suggest_file(Path(path)) or (
            f"measure a table: archir latency table FILE -o {shown}, or fit a model: archir latency fit FILE -o {shown}"
        )
        raise fail("A1501", f"{shown} cannot be read: {describe_error(error)}", None, hint) from None
    kind: type[LatencyTable] | type[LatencyModel] = LatencyTable
    try:
        kind = LatencyModel if _FileKind.model_validate_json(text).model is not None else LatencyTable
        return kind.model_validate_json(text)
    except ValidationError as error:
        problems = [f"`{'.'.join(map(str, problem['loc'])) or '$'}`: {problem['msg']}" for problem in error.errors()]
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        what = "model" if kind is LatencyModel else "table"
        command = f"archir latency {'fit' if kind is LatencyModel else 'table'} FILE -o {shown}"
        hint = f"files of other versions must be measured again: {command}"
        raise fail("A1501", f"{shown} is not a latency {what}: {'; '.join(problems[:3])}{more}", None, hint) from None


def read_table(path: str | Path) -> LatencyTable:
    """Read a latency table. Raises ArchError (A1501) if the file is not a valid one."""
    content = read_latency_file(path)
    if isinstance(content, LatencyModel):
        raise fail("A1501", f"{path} is a latency model, not a latency table")
    return content


def read_model(path: str | Path) -> LatencyModel:
    """Read a latency model. Raises ArchError (A1501) if the file is not a valid one."""
    content = read_latency_file(path)
    if isinstance(content, LatencyTable):
        hint = f"fit a model: archir latency fit FILE -o MODEL.json --operations {path}"
        raise fail("A1501", f"{path} is a latency table, not a latency model", None, hint)
    return content


def latency_cost(graph: Graph, name: str, file: Path | None = None) -> Rule:
    """Return the rule of the cost `name`: the latency of a space's networks in nanoseconds.

    The table or model is read from `file` or, by default, from the file named in the cost's name. Raises ArchError
    (A1501, A1502), and A1509 if a confidence is requested although the file is a table, which has no error estimate.
    """
    shown, confidence = latency_file(name) or "", latency_confidence(name)
    content = read_latency_file(file or shown, shown)
    if isinstance(content, LatencyTable) and confidence is not None:
        hint = f"fit a model to measured networks: archir latency fit FILE -o MODEL.json --operations {shown}"
        raise fail("A1509", f"a latency table has no error estimate for a confidence: {shown}", None, hint)
    content.check_covers(graph)
    return content.rule() if isinstance(content, LatencyTable) else content.rule(confidence)
