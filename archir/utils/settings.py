"""Validated settings (pydantic models); errors give the setting's name, the problem and its location."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from archir.diagnostics.errors import ArchError, Diagnostic, Span
from archir.diagnostics.hints import normalize_name, suggest
from archir.diagnostics.work import MAX_COUNT, MAX_SEED

ListAsTuple = Field(strict=False)
"""Annotation of settings that are tuples: also accepts a list, since TOML and JSON have no tuples."""

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
"""A seed: an integer from 0 to 2^62."""
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
"""An integer from 1 to 10^6."""
Amount = Annotated[int, Field(ge=0, le=MAX_COUNT)]
"""An integer from 0 to 10^6."""
Positive = Annotated[float, Field(gt=0, le=MAX_COUNT)]
"""A float above 0, at most 10^6."""
NonNegative = Annotated[float, Field(ge=0, le=MAX_COUNT)]
"""A float from 0 to 10^6."""
Finite = Annotated[float, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
"""A float from -10^6 to 10^6."""

Path = tuple[int | str, ...]
"""Path of a setting: keys of tables and indices of lists."""
SpanOf = Callable[[Path], Span | None]
"""Function that returns the source span of the setting at a path, or None."""
PrefixOf = Callable[[Path], tuple[str, Path]]
"""Function that splits a setting's path into a message prefix and the remaining path shown in the message."""


class Settings(BaseModel):
    """Base class of settings, which are immutable.

    Unknown keys, values of the wrong type and infinite or NaN numbers are errors.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


S = TypeVar("S", bound=BaseModel)


def no_span(_: Path) -> None:
    """Return None: the `SpanOf` for settings that have no source text."""
    return


def parse_settings(
    model: type[S], data: Mapping[str, Any], prefix: str | PrefixOf = "", span_of: SpanOf = no_span
) -> S:
    """Validate `data` and return the settings. Raises ArchError (A1109) with a diagnostic for each invalid setting.

    `prefix` is prepended to the messages: a text, or a function of the setting's path (`PrefixOf`).
    """
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    problems = []
    for path, path_errors in _by_path(data, errors).items():
        start, remaining = (prefix, path) if isinstance(prefix, str) else prefix(path)
        first = path_errors[0]
        problems.append(
            Diagnostic(
                "A1109", start + _describe_error(path_errors, remaining), span_of(path), _hint(model, first, path)
            )
        )
    raise ArchError(*problems)


def _by_path(data: Mapping[str, Any], errors: Iterable[ErrorDetails]) -> dict[Path, list[ErrorDetails]]:
    """Group pydantic's errors by the path of the setting.

    Errors of a table are dropped if a setting in it has errors, and so is the error that a list is too short if its
    items have errors: pydantic does not count these items. For a setting that may have one of several types, pydantic
    reports one error per type, with the name of the type in `loc`; `_path_of` removes that name.
    """
    groups: dict[Path, list[ErrorDetails]] = {}
    for error in errors:
        groups.setdefault(_path_of(data, error), []).append(error)
    return {
        path: group
        for path, group in groups.items()
        if (len(group[0]["loc"]) == len(path) and group[0]["type"] != "too_short")
        or not any(other != path and other[: len(path)] == path for other in groups)
    }


def _path_of(data: Any, error: ErrorDetails) -> Path:
    """Return the path of the setting that an error is about, without type names that pydantic adds to `loc`."""
    *parents, last = error["loc"] or ("",)
    path: list[int | str] = []
    for part in parents:
        is_key = (
            part in data if isinstance(data, Mapping) else isinstance(data, list | tuple) and part in range(len(data))
        )
        if is_key:
            path.append(part)
            data = data[part]
    is_table_key = isinstance(data, Mapping) and (last in data or error["type"] == "missing")
    is_index = isinstance(data, list | tuple) and last in range(len(data))
    return (*path, last) if error["loc"] and (is_table_key or is_index) else tuple(path)


_TOML_TYPES = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list `[ ... ]`",
    "list_type": "a list `[ ... ]`",
    "dict_type": "a table `{ ... }`",
    "model_type": "a table `{ ... }`",
    "model_attributes_type": "a table `{ ... }`",
    "dataclass_type": "a table `{ ... }`",
}
"""Expected types in TOML's terms, by pydantic's error type; pydantic's own messages use Python's terms."""


def _describe_error(errors: Sequence[ErrorDetails], path: Path) -> str:
    error = errors[0]
    name, message = ".".join(map(str, path)), error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            return f"there is no `{name}`"
        case "missing":
            return f"`{name}` is missing"
    text = f"{message[:1].lower()}{message[1:]}"
    if not name or not text.startswith("input should "):
        return f"`{name}`: {text}" if name else text
    expected = dict.fromkeys(map(_expected_type, errors))
    return f"`{name}` is {_shorten(error['input'])}: it should be {' or '.join(expected)}"


def _expected_type(error: ErrorDetails) -> str:
    """Return a description of the type or value that a setting should have, such as `a list` or `a valid integer`."""
    return _TOML_TYPES.get(error["type"]) or error["msg"].removeprefix("Input should be ")


def _shorten(value: Any) -> str:
    """Return a value in TOML syntax, truncated to 40 characters."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very large number"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _hint(model: type[BaseModel], error: ErrorDetails, path: Path) -> str | None:
    """Return a hint that names the setting, or the value of a setting, that the user probably meant, or None."""
    if error["type"] == "extra_forbidden":
        *parents, name = path
        names = {field for table in _models_at(model, parents) for field in table.model_fields}
        if (current := RENAMED.get(str(name))) in names:
            return f"`{name}` is `{current}` now"
        return suggest_table(model, parents, str(name)) or suggest(str(name), names)
    if error["type"] == "literal_error" and isinstance(error["input"], str):
        return suggest_setting(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]))
    return None


RENAMED = {"hold": "alpha_warmup_epochs", "seen": "allow_validation_overlap", "use": "min_budget_fraction"}
"""Maps the former name of each renamed setting to its current name; entries are kept for one release."""
SYNONYMS = {
    normalize_name(other): names
    for names, others in {
        ("lr",): "rate learning_rate base_lr initial_lr max_lr",
        ("lr_min",): "min_lr eta_min end_lr",
        ("batch",): "bs batch_size minibatch",
        ("accumulate",): "accumulation_steps grad_accum gradient_accumulation_steps",
        ("weight_decay",): "wd l2 decay",
        ("epochs",): "num_epochs n_epochs max_epochs iterations steps",
        ("warmup_epochs",): "warmup warmup_steps",
        ("clip",): "grad_clip clip_grad clip_norm max_grad_norm gradient_clip_val",
        ("schedule",): "scheduler lr_schedule lr_scheduler",
        ("ema",): "ema_decay model_ema",
        ("precision",): "amp mixed_precision autocast",
        ("compile",): "torch_compile",
        ("kind",): "optimizer optim type",
        ("shift",): "random_crop translate padding",
        ("flip",): "hflip horizontal_flip random_flip mirror",
        ("crop",): "random_resized_crop resized_crop",
        ("jitter",): "color_jitter colour_jitter",
        ("auto_augment",): "autoaugment",
        ("rand_augment",): "randaugment",
        ("erase",): "erasing random_erasing reprob",
        ("repeat",): "repeated_augmentation repeated_aug",
        ("center_crop",): "crop_pct centre_crop",
        ("label_smoothing",): "smoothing",
        ("source",): "dataset name path root data_dir",
        ("limit",): "max_samples num_samples subset",
        ("seed",): "random_seed random_state",
        ("threads",): "num_threads num_workers",
        ("trials", "generations"): "budget n_trials max_trials num_trials evaluations",
        ("population",): "pop_size population_size",
        ("cosine",): "cosineannealing cosine_annealing cosineannealinglr",
        ("step",): "multistep multisteplr steplr",
        ("constant",): "none fixed",
        ("bf16",): "bfloat16",
        ("fp16",): "float16 half",
        ("float32",): "fp32 full single",
        ("cuda",): "gpu nvidia",
    }.items()
    for other in others.split()
}
"""archir's names of settings and values, by the names that other libraries use (normalized by `normalize_name`)."""


def suggest_setting(name: str, names: Iterable[str]) -> str | None:
    """Return the hint "did you mean `x`?" with the name in `names` that is a synonym of `name` or spelled similarly.

    Synonyms are those in `SYNONYMS`. Returns None if there is no such name.
    """
    candidates = {*names}
    synonym = next((candidate for candidate in SYNONYMS.get(normalize_name(name), ()) if candidate in candidates), None)
    return suggest(name, candidates) if synonym is None else f"did you mean `{synonym}`?"


def suggest_table(model: type[BaseModel], parents: list[int | str], name: str) -> str | None:
    """Return a hint that gives the path of the setting called `name`, or a synonym of it, in another table; or None.

    Tables are searched from the position of the unknown setting outward: first that table and the tables inside it,
    then the tables around it.
    """
    for level in range(len(parents), -1, -1):
        for candidate in (name, *SYNONYMS.get(normalize_name(name), ())):
            for table in _models_at(model, parents[:level]):
                path = _path_to(table, normalize_name(candidate))
                if path is not None:
                    is_outside = level < len(parents) and "." not in path
                    return f"`{path}` belongs outside `{parents[level]}`" if is_outside else f"did you mean `{path}`?"
    return None


def _path_to(model: type[BaseModel], name: str) -> str | None:
    """Return the shortest dotted path to a setting whose normalized name is `name`; None if there is none."""
    tables = [("", model)]
    for path, table in tables:  # the loop appends to this list
        for field, info in table.model_fields.items():
            if normalize_name(field) == name:
                return path + field
            if path.count(".") < _MAX_DEPTH:
                tables += [(f"{path}{field}.", inner) for inner in _models_at(info.annotation, [])]
    return None


_MAX_DEPTH = 2
"""Maximum nesting of tables that is searched for a setting."""


def _models_at(model: Any, path: list[int | str]) -> Iterator[type[BaseModel]]:
    """Yield the pydantic models of the tables that may be at a path below `model`."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        if not path:
            yield model
        elif path[0] in model.model_fields:
            yield from _models_at(model.model_fields[str(path[0])].annotation, path[1:])
    else:
        remaining = path[1:] if path and isinstance(path[0], int) else path
        for option in get_args(model):
            yield from _models_at(option, remaining)
