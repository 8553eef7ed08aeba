"""The files that costs such as `latency("cpu.json")` name: tables of operations, and models of measured networks."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from archir.costs.latencies.model import LatencyModel
from archir.costs.latencies.table import MOST_BYTES, LatencyTable, latency_rule
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.language.elaboration.locals import latency_confidence, latency_file
from archir.utils.files import reading


class _Kind(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: str | None = None


def read(path: str | Path, shown: str = "") -> LatencyTable | LatencyModel:
    """The table or the model of a file, which messages call `shown`. Raises ArchError (A1501) for what is neither."""
    shown = shown or str(path)
    try:
        with reading(Path(path)) as stream:
            text = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        hint = f"make one: archir bench --table {shown} FILE, or --fit {shown} FILE"
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("A1501", f"{shown} cannot be read: {reason}", None, hint) from None
    if len(text) > MOST_BYTES:
        raise fail("A1501", f"{shown} is no latency table: it has more than {MOST_BYTES:,} bytes")
    kind: type[LatencyTable] | type[LatencyModel] = LatencyTable
    try:
        kind = LatencyModel if _Kind.model_validate_json(text).model is not None else LatencyTable
        return kind.model_validate_json(text)
    except ValidationError as error:
        wrong = [f"`{'.'.join(map(str, one['loc'])) or '$'}`: {one['msg']}" for one in error.errors()]
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        what = "model" if kind is LatencyModel else "table"
        raise fail("A1501", f"{shown} is no latency {what}: {'; '.join(wrong[:3])}{more}") from None


def table(path: str | Path) -> LatencyTable:
    """The table of a file. Raises ArchError (A1501)."""
    found = read(path)
    if isinstance(found, LatencyModel):
        raise fail("A1501", f"{path} is a latency model, and no table of operations")
    return found


def model(path: str | Path) -> LatencyModel:
    """The model of a file. Raises ArchError (A1501)."""
    found = read(path)
    if isinstance(found, LatencyTable):
        hint = f"fit one: archir bench --fit MODEL.json --operations {path} FILE"
        raise fail("A1501", f"{path} is a table of operations, and no latency model", None, hint)
    return found


def latency_of(graph: Graph, name: str, file: Path | None = None) -> Rule:
    """The latency of a space's networks in nanoseconds, by a table or model in the file that the name of the cost says,
    or here.

    Raises ArchError (A1501, A1502; A1509 for a confidence that a table cannot give).
    """
    shown, confidence = latency_file(name) or "", latency_confidence(name)
    found = read(file or shown, shown)
    if isinstance(found, LatencyTable):
        if confidence is not None:
            hint = f"fit a model to measured networks: archir bench --fit MODEL.json --operations {shown} FILE"
            raise fail("A1509", f"{shown} is a table of operations, which does not say how wrong it is", None, hint)
        found.covers(graph)
        return Rule(latency_rule(found), found.base)
    found.covers(graph)
    return found.rule(confidence)
