"""What runs were told: the settings of their recipes, by key, and where those of several runs differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archir.diagnostics.errors import ArchError
from archir.runs.run import RECIPE, Run
from archir.utils import toml

OVERRIDES = "overrides.json"


def overrides(run: Run) -> dict[str, str]:
    """What was set instead of what the recipe says."""
    found = _json(run, OVERRIDES)
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def settings(run: Run) -> dict[str, str]:
    """All that was set, by the keys that `--set` has for it; nothing of a recipe that cannot be read."""
    try:
        document = toml.read(run.content(RECIPE).decode("utf-8", "replace"), RECIPE, "A2201")
        return dict(_flat(toml.overridden(document, overrides(run), "A1109").data))
    except ArchError:
        return {}


def size(run: Run) -> tuple[int | None, int | None]:
    """Parameters and multiply-accumulates of the network that a run came to."""
    summary = _json(run, "summary.json")
    network = summary.get("network") if isinstance(summary, dict) else None
    known = network if isinstance(network, dict) else {}
    params, macs = (known.get(name) for name in ("params", "macs"))
    return params if isinstance(params, int) else None, macs if isinstance(macs, int) else None


def differences(told: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """The settings in which runs differ, by key; of a run that says nothing, an empty text."""
    keys = dict.fromkeys(key for one in told for key in one)
    rows = {key: [one.get(key, "") for one in told] for key in keys}
    return {key: row for key, row in rows.items() if len({*row}) > 1}


def _flat(data: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Tables in lists, which have names, are those: `search.training.epochs`."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(one, dict) and "name" in one for one in value):
            for one in value:
                yield from _flat({k: v for k, v in one.items() if k != "name"}, f"{prefix}{one['name']}.")
        else:
            yield f"{prefix}{key}", json.dumps(value, default=str)


def _json(run: Run, name: str) -> Any:
    if name not in run.files.manifest.files:
        return None
    try:
        return json.loads(run.content(name))
    except (ValueError, RecursionError):
        return None
