"""Hints for undefined names: a similar name, the library that defines the name, or what `.arch` programs write instead
of a name from PyTorch, Keras or Python."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from archir.diagnostics.errors import Diagnostic, join_names
from archir.diagnostics.hints import closest_name, suggest
from archir.ir.op import OPS, op_name
from archir.language.elaboration.cost_names import BITS, COSTS, LATENCY, LATENCY_HINT
from archir.language.elaboration.name_analysis import assigned
from archir.language.syntax import ast
from archir.plugins.registry import plugin_hint

if TYPE_CHECKING:
    from archir.language.elaboration.module import Module

_DEFINED = re.compile(r"^(?:own[ \t]+)?(?:block|cell|const)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_CHOICES = re.compile(r"\bchoose[ \t]+([A-Za-z_]\w*)")
_CLASS = re.compile(r"^class[ \t]+([A-Za-z_]\w*)\(", re.MULTILINE)
_DIMENSIONS = re.compile(r"[123]d$")


@cache
def libraries() -> dict[str, tuple[str, ...]]:
    """Map each of archir's own libraries to the names that it defines."""
    entries = sorted((files("archir.language") / "std").iterdir(), key=lambda entry: entry.name)
    texts = {f"std.{entry.name[:-5]}": entry.read_text("utf-8") for entry in entries if entry.name.endswith(".arch")}
    return {name: tuple(_DEFINED.findall(text)) for name, text in texts.items()}


def unknown_name(tree: ast.Name, visible: Iterable[str], module: Module) -> Diagnostic:
    """Return the diagnostic (A0201) for an undefined name; `visible` are the names that could be used instead."""
    return Diagnostic("A0201", f"there is no `{tree}`", tree.span, _name_hint(tree, visible, module))


def _name_hint(tree: ast.Name, visible: Iterable[str], module: Module) -> str | None:
    """Return a hint for an undefined name; `visible` are the names that could be used instead."""
    name, visible = tree.text, set(visible)
    if tree.span.source.text[: tree.span.start].rstrip(" \t").endswith("//"):
        return "comments begin with `#`; `//` divides and rounds down"
    if re.search(rf"\b{LATENCY}\([^()\"\n]*$", tree.span.source.text[: tree.span.start][-256:]):
        return LATENCY_HINT
    member = re.match(r"\.([A-Za-z_]\w*)", tree.span.source.text[tree.span.end : tree.span.end + 64])
    if member is not None and name in NAMES:
        name = member[1]
    if name in visible:
        return f"{NAMES[tree.text]}: write `{name}`"
    if name in NAMES:
        return NAMES[name]
    if name in BITS:
        return f'element types are texts: write `"{name}"`'
    near = same_spelling(name, visible)
    if near is not None:
        return f"did you mean `{near}`?"
    choice = closest_name(name, _CHOICES.findall(tree.span.source.text), 0.8)
    if choice is not None and closest_name(name, visible, 0.8) is None:
        return f"a choice is called `{choice}`; its value needs a name too: `{choice} = choose {choice} ...`"
    if name in COSTS or name == LATENCY:
        return "only complete networks have costs: `archir cost` prints them, `require macs <= 600M` bounds them"
    hint = NAMES.get(tree.text) or _library_hint(name, module) or _plugin_hint(name, module)
    return hint or _other_scope_hint(tree, module) or _similar_hint(name, visible) or plugin_hint()


def tensor_attribute_hint(name: str, names: Iterable[str], module: Module) -> str | None:
    """Return a hint for an attribute that tensors do not have.

    The attribute may be an operation of this language, or a tensor method in other libraries.
    """
    if name in METHODS:
        return METHODS[name]
    if name in NAMES and name not in OPS:
        return NAMES[name]
    operation = name if module.lookup(name) is not None or (name in OPS and not OPS[name].internal) else None
    operation = operation or same_spelling(name, [op for op in OPS if not OPS[op].internal])
    return f"operations and blocks are applied by a pipe: `x |> {operation}`" if operation else suggest(name, names)


def same_spelling(name: str, names: Iterable[str]) -> str | None:
    """Return the name that equals `name` except for capitals, underscores and a suffix such as `2d`; None if there
    is none."""
    for normalize in (_normalized, _without_dimensions):
        wanted = normalize(name)
        matches = [candidate for candidate in names if normalize(candidate) == wanted]
        if matches:
            return min(matches)
    return None


def _normalized(name: str) -> str:
    return name.lower().replace("_", "")


def _without_dimensions(name: str) -> str:
    return _DIMENSIONS.sub("", _normalized(name))


def _library_hint(name: str, module: Module) -> str | None:
    imports = [item for item in module.tree.items if isinstance(item, ast.Import)]
    library = f"std.{name}"
    if library in {item.path for item in imports}:
        return f"`import {library}` brings its names as they are: drop `{name}.`"
    if library in libraries() or name == "std":
        return f"`import {library} as {name}`" if name != "std" else "`import std.gates`, and drop the prefix"
    for item in imports:
        if item.alias is not None and name in libraries().get(item.path, ()):
            return f"write `{item.alias}.{name}`"
    imports_found = [f"import {library}" for library, names in libraries().items() if name in names]
    imports_found += [
        f'import "{file}"' for file, text in module.sibling_programs.items() if name in _DEFINED.findall(text)
    ]
    return f"{join_names(imports_found, 3).replace(' and ', ' or ')} makes it known" if imports_found else None


def _plugin_hint(name: str, module: Module) -> str | None:
    for file, text in module.sibling_python.items():
        if name in map(op_name, _CLASS.findall(text)):
            return f"`{file}` defines it: name the plugin, `--plugin {file.removesuffix('.py')}`"
    return None


def _other_scope_hint(tree: ast.Name, module: Module) -> str | None:
    """Return a hint for a name that is defined only inside another definition of the file, or None."""
    name = tree.text
    for definition in module.definitions():
        inside = (
            definition.span.source is tree.span.source
            and definition.span.start <= tree.span.start < definition.span.end
        )
        if not inside and name in {*(param.name.text for param in definition.params), *assigned(definition.body)}:
            remedy = "pass it as an argument" if definition.word == "net" else "return it from there"
            return f"`{name}` is only known in `{definition.word} {definition.name.text}`: {remedy}"
    return None


def _similar_hint(name: str, visible: set[str]) -> str | None:
    """Return a hint that suggests a similar name, visible here or defined by a library."""
    where = {defined: library for library, names in libraries().items() for defined in names if defined not in visible}
    hint = suggest(name, visible | where.keys())
    similar = hint and hint.split("`")[1]
    return f"did you mean `{similar}`, of `import {where[similar]}`?" if similar in where else hint


_PIPE = "operations follow one another by `|>`: `x |> conv(8) |> relu`"
_BY_NAME = "operations are called by their own names"
_NO_RECURRENCE = "`import std.recurrent` has `rnn`, `lstm` and `gru`: `x |> lstm(width)`"
_TRANSPOSED = "write `conv_transpose(channels, kernel, stride)`"
_LIST = "lists are written `[a, b]`, and gone through by `for`"

NAMES = {
    "True": "write `true`",
    "False": "write `false`",
    "None": "write `none`",
    "null": "write `none`",
    "nil": "write `none`",
    "_": "the last arm of a `match` is `else => ...`; loops without a variable are `repeat 3 { ... }`",
    "range": "a range is `0..n`",
    "print": "there is nothing to print while a net is made: `archir show` draws it",
    "int": "write `floor(x)`, `round(x)` or `a // b`",
    "float": "numbers are not converted: drop this",
    "map": "write `[f(x) for x in list]`",
    "filter": "write `[x for x in list if condition]`",
    "pow": "a power is `2 ** 3`, also of a tensor: `x ** 2`",
    "gate": "write `as_gate`",
    "square": "write `x ** 2`",
    "reciprocal": "write `1 / x`",
    "rsqrt": "write `x ** -0.5`",
    "neg": "write `-x`",
    "gt": "write `greater(a, b)`",
    "lt": "write `less(a, b)`",
    "InstanceNorm1d": "write `instance_norm`",
    "PReLU": "write `prelu`",
    "prod": "multiply with `*`",
    "default": "the last arm of a `match` is `else => ...`",
    "self": _BY_NAME,
    "nn": _BY_NAME,
    "torch": _BY_NAME,
    "np": "there are `sqrt`, `log2`, `floor`, `ceil`, `round`, `min`, `max` and `sum`",
    "math": "there are `sqrt`, `log2`, `floor`, `ceil`, `round`, `min`, `max` and `sum`",
    "F": _BY_NAME,
    "tf": _BY_NAME,
    "keras": _BY_NAME,
    "layers": _BY_NAME,
    "super": "blocks are functions: they take a tensor and return one",
    "Sequential": _PIPE,
    "ModuleList": _LIST,
    "ModuleDict": "`match key { ... }` tells cases apart",
    "Dense": "write `linear(channels)`",
    "fc": "write `linear(channels)`",
    "Swish": "write `silu`",
    "swish": "write `silu`",
    "Conv3d": "write `conv3d(channels)`",
    "ConvTranspose1d": "`conv_transpose` is of maps [C, H, W]: give series a height of 1",
    "ConvTranspose2d": _TRANSPOSED,
    "conv_transpose2d": _TRANSPOSED,
    "deconv": _TRANSPOSED,
    "DepthwiseConv2d": "write `conv(x.channels, groups=x.channels)`",
    "depthwise_conv": "write `conv(x.channels, groups=x.channels)`",
    "InstanceNorm2d": "write `instance_norm`",
    "l2_normalize": "write `normalize(axis)`",
    "AdaptiveAvgPool2d": "write `global_avg_pool`, or `adaptive_avg_pool(size)` for more than one pixel",
    "adaptive_avg_pool2d": "write `global_avg_pool`, or `adaptive_avg_pool(size)` for more than one pixel",
    "AdaptiveMaxPool2d": "write `global_max_pool`, or `adaptive_max_pool(size)` for more than one pixel",
    "adaptive_max_pool2d": "write `global_max_pool`, or `adaptive_max_pool(size)` for more than one pixel",
    "gap": "write `global_avg_pool`",
    "StochasticDepth": "write `drop_path(rate)`",
    "interpolate": 'write `resize(size, mode="bilinear")` or `upsample(factor)`',
    "cat": "write `concat(a, b)`",
    "concatenate": "write `concat(a, b)`",
    "stack": "write `concat(a, b)`, after `reshape` where an axis is new",
    "split": "parts of the channels are `x[0:8]` and `x[8:]`",
    "chunk": "parts of the channels are `x[0:8]` and `x[8:]`",
    "view": "write `reshape(shape)`",
    "permute": "write `transpose(axes)`",
    "squeeze": "write `reshape(shape)`",
    "unsqueeze": "write `reshape(shape)`",
    "expand": "tensors are not broadcast to a shape: write `reshape(shape)`, or multiply by a gate",
    "contiguous": "drop it: the backend chooses the memory layout of tensors",
    "mean": "write `mean_over(axis)` or `global_avg_pool`",
    "amax": "write `max_over(axis)` or `global_max_pool`",
    "bmm": "write `matmul(a, b)`",
    "mm": "write `matmul(a, b)`",
    "einsum": "write `matmul(a, b)` and `transpose`",
    "Softmax2d": "write `softmax(axis=0)`",
    "PixelShuffle": "write `pixel_shuffle(factor)`",
    "Embedding": "write `embedding(vocabulary, channels)`; patches are embedded by `import std.transformer`",
    "take_along_dim": "write `gather(x, positions)`",
    "index_select": "write `gather(x, positions)`",
    "LSTM": _NO_RECURRENCE,
    "GRU": _NO_RECURRENCE,
    "RNN": _NO_RECURRENCE,
    "zeros": "write `parameter(shape)`, or `x |> zero`",
    "ones": "write `parameter(shape)`",
    "randn": "write `parameter(shape)`",
    "Tensor": "write `parameter(shape)` for what is trained, `input` for what comes from outside",
    "append": "make a new list: `xs + [y]`",
    "forward": "blocks are called as they are: `x |> block`",
    "same": 'texts stand in quotes: `"same"`',
    "valid": 'texts stand in quotes: `"valid"`',
    "bilinear": 'texts stand in quotes: `"bilinear"`',
    "nearest": 'texts stand in quotes: `"nearest"`',
}
"""Hints for undefined names that exist in other languages and libraries."""

NUMBER_HINTS = {
    "minimum": "of a tensor and a number, write `x |> clamp(high=2)`; of numbers, `min(a, b)`",
    "maximum": "of a tensor and a number, write `x |> clamp(low=2)`; of numbers, `max(a, b)`",
    "log": "of numbers there is `log2`",
    "add": "write `x + 2`",
    "sub": "write `x - 2`",
    "mul": "write `x * 2`",
    "div": "write `x / 2`",
}
"""Hints for operations that were applied to numbers instead of tensors."""

METHODS = {
    "size": "write `x.shape`",
    "dim": "write `x.rank`",
    "ndim": "write `x.rank`",
    "type": "write `x.dtype`",
    "C": "write `x.channels`",
    "H": "write `x.height`",
    "W": "write `x.width`",
    "c": "write `x.channels`",
    "h": "write `x.height`",
    "w": "write `x.width`",
    "in_channels": "write `x.channels`",
    "out_channels": "write `x.channels`",
    "in_features": "write `x.features`",
    "out_features": "write `x.features`",
    "to": "drop it: the backend moves tensors",
    "cuda": "drop it: the backend moves tensors",
    "detach": "the language cannot stop gradients",
    "append": "make a new list: `xs + [y]`",
    "extend": "make a new list: `xs + ys`",
}
"""Hints for attributes that tensors have in other libraries but not here."""

ATTRIBUTES = {
    "out_channels": "channels",
    "out_features": "channels",
    "filters": "channels",
    "units": "channels",
    "width": "channels",
    "features": "channels",
    "kernel_size": "kernel",
    "k": "kernel",
    "size": "kernel",
    "window": "kernel",
    "strides": "stride",
    "s": "stride",
    "pad": "padding",
    "dilation_rate": "dilation",
    "num_groups": "groups",
    "use_bias": "bias",
    "num_heads": "heads",
    "n_heads": "heads",
    "p": "rate",
    "prob": "rate",
    "drop": "rate",
    "dim": "axis",
    "dims": "axes",
    "scale_factor": "factor",
    "negative_slope": "slope",
    "alpha": "slope",
    "count_include_pad": "count_padding",
    "keepdim": "keep",
    "elementwise_affine": "affine",
    "epsilon": "eps",
    "upscale_factor": "factor",
}
"""Maps attribute names of other libraries to those of operations.

The hint is given only if the operation has the attribute.
"""

_ATTRIBUTE_HINTS = {
    "in_channels": "an operation sees what it is applied to: drop it",
    "in_features": "an operation sees what it is applied to: drop it",
    "num_features": "an operation sees what it is applied to: drop it",
    "normalized_shape": "an operation sees what it is applied to: drop it",
    "embed_dim": "an operation sees what it is applied to: drop it",
    "d_model": "an operation sees what it is applied to: drop it",
    "inplace": "tensors are values, and never change: drop it",
    "padding_mode": "padding is always with zeros: drop it",
    "activation": "an activation is an operation of its own: `|> relu`",
    "act": "an activation is an operation of its own: `|> relu`",
    "output_size": "`global_avg_pool` leaves one value of a channel, `avg_pool(kernel)` a map",
    "batch_first": "tensors have no axis for the batch: drop it",
    "start_dim": "tensors have no axis for the batch: drop it",
    "track_running_stats": "drop it",
    "device": "the backend chooses where tensors are: drop it",
    "dtype": "the input says the element type: drop it",
}
"""Hints for operation attributes of other libraries that have no counterpart here."""

DTYPES = {
    "float32": "f32",
    "float": "f32",
    "fp32": "f32",
    "float16": "f16",
    "half": "f16",
    "fp16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "long": "i64",
    "int32": "i32",
    "int": "i32",
    "Tensor": "f32",
    "tensor": "f32",
}
"""Maps element type names of other libraries to those of the language."""


def attribute_hint(name: str, names: Collection[str]) -> str | None:
    """Return a hint for an attribute that an operation lacks: a similar attribute, or a list of those it has."""
    if ATTRIBUTES.get(name) in names:
        return f"did you mean `{ATTRIBUTES[name]}`?"
    near = _ATTRIBUTE_HINTS.get(name) or suggest(name, names)
    return near or (f"it has {', '.join(names)}" if names else "it has none")


def dtype_hint(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown element type."""
    if name in DTYPES:
        return f"did you mean `{DTYPES[name]}`?"
    return suggest(name, names) or f"there are {', '.join(names)}"
