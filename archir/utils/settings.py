"""Settings that are checked when they are read, and say what is wrong with them, and where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from archir.diagnostics.errors import ArchError, Diagnostic, Span, suggest, unspelled
from archir.diagnostics.work import MOST, MOST_SEED

Many = Field(strict=False)
"""TOML and JSON have lists where these settings have tuples."""

Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Amount = Annotated[int, Field(ge=0, le=MOST)]
"""A count that may be 0."""
Positive = Annotated[float, Field(gt=0, le=MOST)]
NonNegative = Annotated[float, Field(ge=0, le=MOST)]
Finite = Annotated[float, Field(ge=-MOST, le=MOST)]

Path = tuple[int | str, ...]
Where = Callable[[Path], Span | None]
"""Where the setting of a path was written."""
Whose = Callable[[Path], tuple[str, Path]]
"""What messages begin with that are about the setting of a path, and what is left of the path to be named."""


class Settings(BaseModel):
    """Settings that say nothing unknown and are of the types they should be: no text for a number, and finite ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


S = TypeVar("S", bound=BaseModel)


def nowhere(_: Path) -> None:
    """Where what was not written is."""
    return


def parsed(kind: type[S], given: Mapping[str, Any], whose: str | Whose = "", where: Where = nowhere) -> S:
    """Settings of a kind. Raises ArchError (A1109) with everything that is wrong with them."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        found = error.errors(include_url=False)
    problems = []
    for place, several in _by_place(given, found).items():
        begin, rest = (whose, place) if isinstance(whose, str) else whose(place)
        one = several[0]
        problems.append(Diagnostic("A1109", begin + _said(several, rest), where(place), _hint(kind, one, place)))
    raise ArchError(*problems)


def _by_place(given: Mapping[str, Any], errors: Iterable[ErrorDetails]) -> dict[Path, list[ErrorDetails]]:
    """What is wrong with each setting. What may be one kind of thing or another has an error for each kind, whose name
    stands in its path; of a table, what is wrong inside of it is enough."""
    found: dict[Path, list[ErrorDetails]] = {}
    for error in errors:
        found.setdefault(_written(given, error), []).append(error)
    return {
        place: several
        for place, several in found.items()
        if len(several[0]["loc"]) == len(place)
        or not any(other != place and other[: len(place)] == place for other in found)
    }


def _written(given: Any, error: ErrorDetails) -> Path:
    """The path of a setting as it was written, or would have been."""
    *parents, last = error["loc"] or ("",)
    place: list[int | str] = []
    for part in parents:
        inside = (
            part in given
            if isinstance(given, Mapping)
            else isinstance(given, list | tuple) and part in range(len(given))
        )
        if inside:
            place.append(part)
            given = given[part]
    named = isinstance(given, Mapping) and (last in given or error["type"] == "missing")
    counted = isinstance(given, list | tuple) and last in range(len(given))
    return (*place, last) if error["loc"] and (named or counted) else tuple(place)


_WANTED = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list `[ ... ]`",
    "list_type": "a list `[ ... ]`",
    "dict_type": "a table `{ ... }`",
    "model_type": "a table `{ ... }`",
    "model_attributes_type": "a table `{ ... }`",
    "dataclass_type": "a table `{ ... }`",
}
"""What settings should be, in words of TOML, where pydantic's are of Python."""


def _said(errors: Sequence[ErrorDetails], path: Path) -> str:
    error = errors[0]
    place, message = ".".join(map(str, path)), error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            return f"there is no `{place}`"
        case "missing":
            return f"`{place}` is missing"
    text = f"{message[:1].lower()}{message[1:]}"
    if not place or not text.startswith("input should "):
        return f"`{place}`: {text}" if place else text
    wanted = dict.fromkeys(map(_wanted, errors))
    return f"`{place}` is {_shown(error['input'])}: it should be {' or '.join(wanted)}"


def _wanted(error: ErrorDetails) -> str:
    """What a setting should be."""
    return _WANTED.get(error["type"]) or error["msg"].removeprefix("Input should be ")


def _shown(value: Any) -> str:
    """A value as TOML writes it, and not all of it if it is long."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very large number"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _hint(kind: type[BaseModel], error: ErrorDetails, place: Path) -> str | None:
    """The name that may have been meant: of a setting, or of what it may be."""
    if error["type"] == "extra_forbidden":
        *parents, name = place
        known = {one for model in _models(kind, parents) for one in model.model_fields}
        return elsewhere(kind, parents, str(name)) or suggest(str(name), known)
    if error["type"] == "literal_error" and isinstance(error["input"], str):
        return meant(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]))
    return None


OTHER_NAMES = {
    unspelled(other): names
    for names, others in {
        ("lr",): "learning_rate base_lr initial_lr max_lr",
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
        ("shift",): "crop random_crop translate padding",
        ("flip",): "hflip horizontal_flip random_flip mirror",
        ("cutout",): "erasing random_erasing",
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
"""What other libraries call settings and their values, as `unspelled` gives it, and what archir calls them."""


def meant(name: str, known: Iterable[str]) -> str | None:
    """`did you mean ...?` for a known name that other libraries call `name`, or that is spelled nearly like it."""
    several = {*known}
    other = next((one for one in OTHER_NAMES.get(unspelled(name), ()) if one in several), None)
    return suggest(name, several) if other is None else f"did you mean `{other}`?"


def elsewhere(kind: type[BaseModel], parents: list[int | str], name: str) -> str | None:
    """A hint to the setting of this name, or of archir's name for it, in the nearest table: at the place, inside it or
    around it."""
    for level in range(len(parents), -1, -1):
        for wanted in (name, *OTHER_NAMES.get(unspelled(name), ())):
            for model in _models(kind, parents[:level]):
                found = _inside(model, unspelled(wanted))
                if found is not None:
                    around = level < len(parents) and "." not in found
                    return f"`{found}` belongs outside `{parents[level]}`" if around else f"did you mean `{found}`?"
    return None


def _inside(kind: type[BaseModel], name: str) -> str | None:
    """The shortest path to a setting of a name, as `unspelled` gives it."""
    tables = [("", kind)]
    for path, model in tables:  # which grows
        for field, info in model.model_fields.items():
            if unspelled(field) == name:
                return path + field
            if path.count(".") < _MOST_DEPTH:
                tables += [(f"{path}{field}.", one) for one in _models(info.annotation, [])]
    return None


_MOST_DEPTH = 2
"""Tables inside each other in which a setting is looked for."""


def _models(kind: Any, place: list[int | str]) -> Iterator[type[BaseModel]]:
    """The kinds of settings that a place holds."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if not place:
            yield kind
        elif place[0] in kind.model_fields:
            yield from _models(kind.model_fields[str(place[0])].annotation, place[1:])
    else:
        rest = place[1:] if place and isinstance(place[0], int) else place
        for one in get_args(kind):
            yield from _models(one, rest)
