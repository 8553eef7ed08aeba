"""Settings of runs by key, from their recipes and overrides, and differences between runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archir.diagnostics.errors import ArchError
from archir.runs.run import RECIPE, Run
from archir.utils import toml

OVERRIDES = "overrides.json"
"""Name of the file with the settings that override those of the recipe."""


def overrides(run: Run) -> dict[str, str]:
    """Return the settings that override those of the recipe, by key."""
    values = _json(run, OVERRIDES)
    return {str(key): str(value) for key, value in values.items()} if isinstance(values, dict) else {}


def settings(run: Run) -> dict[str, str]:
    """Return all settings of a run, by the keys that `--set` uses; {} if the recipe cannot be parsed."""
    try:
        document = toml.parse_toml(run.content(RECIPE).decode("utf-8", "replace"), RECIPE, "A2201")
        return dict(_flatten(toml.apply_overrides(document, overrides(run), "A1109").data))
    except ArchError:
        return {}


def network_size(run: Run) -> tuple[int | None, int | None]:
    """Return the parameters and multiply-accumulates of the resulting network of a run; None for unknown ones."""
    summary = _json(run, "summary.json")
    network = summary.get("network") if isinstance(summary, dict) else None
    facts = network if isinstance(network, dict) else {}
    params, macs = (facts.get(name) for name in ("params", "macs"))
    return params if isinstance(params, int) else None, macs if isinstance(macs, int) else None


def differences(settings_of_runs: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the settings in which runs differ: by key, the value in each run, "" where a run lacks the setting."""
    keys = dict.fromkeys(key for settings_of_run in settings_of_runs for key in settings_of_run)
    rows = {key: [settings_of_run.get(key, "") for settings_of_run in settings_of_runs] for key in keys}
    return {key: row for key, row in rows.items() if len({*row}) > 1}


def _flatten(data: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings in nested tables with dotted keys. Tables in a list are identified by their `name`, as in
    `search.training.epochs`."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(table, dict) and "name" in table for table in value):
            for table in value:
                yield from _flatten({k: v for k, v in table.items() if k != "name"}, f"{prefix}{table['name']}.")
        else:
            yield f"{prefix}{key}", json.dumps(value, default=str)


def _json(run: Run, name: str) -> Any:
    """Return the parsed content of a JSON file of the run; None if it is missing or invalid."""
    if name not in run.files.manifest.files:
        return None
    try:
        return json.loads(run.content(name))
    except (ValueError, RecursionError):
        return None
