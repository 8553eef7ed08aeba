"""The nets of the examples, with parameters that make them small: all blocks and kinds of choices, repeated less."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import archir
from archir.diagnostics.errors import Diagnostic
from archir.ir.graph import Graph
from archir.language.elaboration.elaborate import elaborate
from tests.conftest import EXAMPLES

CELLS = {"channels": 16, "cells": 3, "size": 16}
TRANSFORMER = {"width": 24, "size": 32, "patch": 8, "classes": 4}
ATTENTION = {"size": 8}
NETS: dict[str, dict[str, Any]] = {
    "deit_tiny.arch:deit_tiny": {"size": 32, "classes": 4},
    "mobilenet_v2.arch:mobilenet_v2": {"size": 32},
    "resnet50.arch:resnet50": {"size": 32},
    "autoformer/autoformer.arch:autoformer_tiny": {"head": 16, "size": 16, "patch": 8, "classes": 4},
    "autola/autola.arch:autola": {"depth": 8, "size": 8},
    "autola/baselines.arch:cifar": {"depth": 8, "size": 8, "attention": "cbam"},
    "autola/baselines.arch:imagenet": {"depth": 18, "size": 32, "attention": "se"},
    "autola/imagenet.arch:autola_imagenet": {"depth": 18, "size": 32},
    "crepe/space.arch:space": {"first": 128, "widths": ((16, 16, 16), (32, 64))},
    "darts/darts.arch:darts": {**CELLS, "auxiliary": True, "size": 32},
    "darts/darts.arch:imagenet": {**CELLS, "size": 32},
    "full_attention/deep.arch:full_attention_deep": ATTENTION,
    "full_attention/full_attention.arch:full_attention": ATTENTION,
    "full_attention/handmade.arch:handmade": {**ATTENTION, "attention": "cbam"},
    "full_attention/tied.arch:full_attention_tied": ATTENTION,
    "glit/glit.arch:glit": TRANSFORMER,
    "glit/search.arch:high": TRANSFORMER,
    "glit/search.arch:low": TRANSFORMER,
    "glit/search.arch:levels": {**TRANSFORMER, "depth": 4},
    "llama/llama3.arch:llama3": {
        "vocabulary": 50,
        "context": 8,
        "width": 16,
        "depth": 2,
        "heads": 16,
        "each": 2,
        "hidden": 32,
        "window": 4,
    },
    "mobilenet_v3_ofa/mobilenet_v3_large.arch:mobilenet_v3_large": {"size": 32},
    "mobilenet_v3_ofa/mobilenet_v3_ofa.arch:mobilenet_v3_ofa": {"width": 0.25, "resolution": 32, "classes": 4},
    "grammar/grammar.arch:grammar": {"channels": 8, "size": 16, "stages": 2},
    "nas_bench_101/nas_bench_101.arch:nas_bench_101": {"channels": 16, "size": 16, "stacks": 2, "modules": 1},
    "nas_bert/nas_bert.arch:nas_bert": {"layers": 3, "tokens": 8, "vocabulary": 50},
    "nas_fpn/nas_fpn.arch:nas_fpn": {"channels": 8, "size": 128},
    "nas_bench_201/nas_bench_201.arch:nas_bench_201": {"channels": 4, "cells": 2, "size": 16},
    "nos/handmade.arch:handmade": {**CELLS, "attention": "se"},
    "nos/nos.arch:nos": CELLS,
    "nos/nos.arch:mobile": {**CELLS, "size": 32},
    "nos/preliminary.arch:resnet18": {"size": 32},
    "nos/teacher.arch:pyramidnet": {"depth": 20, "size": 8},
    "tasks/labels/marks.arch:marks": {},
    "tasks/language/gpt.arch:gpt": {},
    "tasks/own/angles.arch:angles": {},
    "tasks/series/series.arch:series": {},
    "tasks/shapes/shapes.arch:shapes": {},
    "tasks/sounds/words.arch:words": {},
    "tasks/table/houses.arch:houses": {},
    "shrink/cifar.arch:full": {},
    "shrink/cifar.arch:space": {},
    "trionet/baselines.arch:resnet": {"size": 32},
    "trionet/baselines.arch:local_net": {"size": 32},
    "trionet/baselines.arch:axial_net": {"size": 32},
    "zoo/darts_rnn.arch:darts_rnn": {"vocabulary": 20, "width": 6, "tokens": 3, "nodes": 3},
    "zoo/enas_rnn.arch:enas_rnn": {"vocabulary": 20, "width": 6, "tokens": 2, "nodes": 3},
    "zoo/mamba_hybrid.arch:mamba_hybrid": {
        "vocabulary": 30,
        "context": 4,
        "width": 16,
        "depth": 2,
        "heads": 4,
        "groups": 2,
    },
    "zoo/primer.arch:primer": {"vocabulary": 30, "context": 6, "width": 16, "depth": 2, "heads": 2, "each": 4},
    "zoo/pythia.arch:pythia": {"vocabulary": 30, "context": 6, "width": 24, "depth": 6, "heads": 6, "each": 8},
    "zoo/switch.arch:switch": {
        "vocabulary": 30,
        "source": 5,
        "target": 4,
        "width": 8,
        "layers": 2,
        "heads": 2,
        "each": 4,
        "hidden": 8,
        "most": 16,
    },
    "zoo/qwen3.arch:qwen3": {
        "vocabulary": 30,
        "context": 6,
        "width": 12,
        "depth": 4,
        "hidden": 24,
        "each": 4,
        "groups": 2,
    },
    "zoo/gemma.arch:gemma": {
        "vocabulary": 30,
        "context": 6,
        "width": 12,
        "depth": 3,
        "hidden": 16,
        "heads": 2,
        "each": 4,
        "window": 3,
        "every": 3,
    },
    "zoo/mixtral.arch:mixtral": {
        "vocabulary": 30,
        "context": 6,
        "width": 16,
        "depth": 2,
        "heads": 4,
        "groups": 2,
        "each": 4,
        "hidden": 24,
    },
    "zoo/hw_gpt.arch:hw_gpt": {
        "vocabulary": 30,
        "context": 6,
        "width": 16,
        "depth": 3,
        "heads": 4,
        "few": 2,
        "some": 3,
        "each": 4,
    },
    "zoo/gpt.arch:gpt": {"vocabulary": 50, "context": 8, "width": 24, "depth": 6, "heads": 6, "each": 4},
    "zoo/hat.arch:hat": {"vocabulary": 50, "source": 5, "target": 4, "layers": 3, "unit": 8},
    "zoo/llama.arch:llama": {
        "vocabulary": 50,
        "context": 8,
        "width": 32,
        "depth": 4,
        "hidden": 64,
        "each": 4,
        "groups": 2,
    },
    "zoo/accel_mnasnet.arch:accel_mnasnet": {"scale": 8, "classes": 4, "size": 64},
    "zoo/amoebanet.arch:amoebanet": {"channels": 4, "cells": 3, "size": 16},
    "zoo/attentive_nas.arch:attentive_nas": {"resolutions": (32, 64), "scale": 8, "classes": 4},
    "zoo/auto_deeplab.arch:auto_deeplab": {"layers": 3, "blocks": 2, "classes": 4, "size": 64},
    "zoo/bossnas.arch:bossnas": {"base": 32, "layers": 4, "head": 8, "classes": 4, "size": 64},
    "zoo/einspace.arch:einspace": {"channels": 8, "modules": 1, "size": 16},
    "zoo/enas_micro.arch:enas_micro": {"channels": 4, "cells": 3, "size": 16},
    "zoo/enas_macro.arch:enas_macro": {"layers": 4, "channels": 8, "size": 16},
    "zoo/fbnet.arch:fbnet": {"scale": 4, "classes": 4, "size": 64},
    "zoo/hnas.arch:hnas": {"stages": ("three",), "channels": 4, "size": 16},
    "zoo/hr_nas.arch:hr_nas": {
        "widths": (4, 8, 12, 16),
        "stages": (1, 2, 3),
        "blocks": 1,
        "stem": 8,
        "classes": 4,
        "size": 64,
    },
    "zoo/metaformer.arch:metaformer": {"scale": 4, "classes": 4, "size": 64},
    "zoo/mnasnet.arch:mnasnet": {"scale": 4, "classes": 4, "size": 64},
    "zoo/nas_unet.arch:nas_unet": {"channels": 4, "depth": 2, "count": 2, "classes": 4, "size": 32},
    "zoo/nasnet.arch:nasnet": {"channels": 4, "cells": 3, "size": 16},
    "zoo/ofa_resnet50.arch:ofa_resnet50": {"scale": 16, "classes": 4, "size": 64},
    "zoo/proxylessnas.arch:proxylessnas": {"scale": 8, "classes": 4, "size": 64},
    "zoo/vitas.arch:vitas": {"width": 40, "blocks": 2, "patches": (8, 16), "classes": 4, "size": 32},
    "zoo/nas_bench_asr.arch:nas_bench_asr": {"scale": 25, "cells": (1, 1, 1, 2), "frames": 24, "phonemes": 7},
    "zoo/nas_bench_macro.arch:nas_bench_macro": {"stem": 8, "scale": 8, "size": 16},
    "zoo/nats_size.arch:nats_size": {"size": 16},
    "zoo/pnas.arch:pnas": {"channels": 4, "cells": 3, "size": 16},
    "zoo/spos.arch:spos": {"scale": 4, "classes": 4, "size": 64},
    "zoo/transnas_macro.arch:transnas_macro": {"channels": 4, "classes": 4, "size": 128},
    "zoo/transnas_micro.arch:transnas_micro": {"channels": 4, "classes": 4, "size": 64},
    "trionet/trionet.arch:trionet": {"channels": 64, "size": 32},
}


@cache
def elaborated(net: str, **parameters: Any) -> archir.Space:
    """Return the space of a net, elaborated once for all tests, which must not change it."""
    return archir.load(EXAMPLES / net, **parameters)


@cache
def linted(path: Path) -> tuple[Diagnostic, ...]:
    """Return the warnings about a file of the examples, computed once."""
    return tuple(archir.lint(path))


_GRAPHS: dict[tuple[str, ...], Graph] = {}


def elaborate_once(text: str, name: str, **options: Any) -> Graph:
    """Return the graph of a text, elaborated once: for tests of later steps."""
    key = text, name, repr(sorted(options.items()))
    if key not in _GRAPHS:
        _GRAPHS[key] = elaborate(text, name, **options)
    return _GRAPHS[key]


@cache
def small_graph(net: str) -> Graph:
    """Return the small graph of one of `NETS`."""
    return elaborated(net, **NETS[net]).graph
