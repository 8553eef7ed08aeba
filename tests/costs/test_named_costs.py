"""Costs asked for by name equal a slow count, other tools' counts and published figures."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import archir
from archir.costs.resized import Resized
from archir.costs.rules import rule_of
from archir.costs.symbolic import SymbolicCosts
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph, Node
from archir.ir.verify import checked_types
from archir.language.elaboration.elaborate import elaborate
from archir.ops.activation import Relu
from archir.ops.attention import Attention
from archir.ops.conv import Linear
from archir.ops.lookup import Embedding
from archir.passes.cost import live_bytes
from archir.passes.resize import resize
from archir.spaces.space import Space
from archir_torch import BACKEND as TORCH
from tests.architectures import inputs_of
from tests.conftest import EXAMPLES
from tests.examples import NETS, elaborated

DECODERS = [
    "llama/llama3.arch:llama3",
    "tasks/language/gpt.arch:gpt",
    *(f"zoo/{name}.arch:{name}" for name in ("gemma", "mixtral", "qwen3")),
]
LONGEST = 9


def small(net: str) -> Space:
    return elaborated(net, **NETS[net])


def space_of(text: str) -> Space:
    return Space(elaborate(text, "test.arch"))


def steps(graph: Graph, context: int) -> tuple[int, int]:
    """What a cache holds, and what the last of so many tokens costs: the network at one token, node by node."""
    one, cache, macs = resize(graph, 1), 0, 0
    types = checked_types(one)
    for number in one:
        op, operands = one[number].op, [types[x] for x in one.operands(number)]
        if isinstance(op, Attention):
            seen = sum(1 for other in range(context) if op.window is None or context - 1 - other < op.window)
            wide = operands[1].channels // (op.kv_heads or op.heads)
            cache += sum(2 * wide for _ in range(seen) for _ in range(op.kv_heads or op.heads))
            macs += sum(2 * wide for _ in range(seen) for _ in range(op.heads))
        elif not isinstance(op, Embedding):
            macs += op.macs(*operands)
    return cache, macs


@pytest.mark.parametrize("net", DECODERS)
def test_decoder_costs_equal_slow_count(net: str) -> None:
    space, rng = small(net), random.Random(0)
    several = [space.sample(rng) for _ in range(3)]
    names = [f"{name}(context={n})" for name in ("kv_bytes", "decode_macs") for n in (1, 5, LONGEST)]
    found = space.cost(several, [*names, f'kv_bytes(batch=3, context={LONGEST}, dtype="f32")'])
    for i, architecture in enumerate(several):
        graph = space.specialize(architecture)
        for context in (1, 5, LONGEST):
            cache, macs = steps(graph, context)
            assert found[f"kv_bytes(context={context})"][i] == 2 * cache
            assert found[f"decode_macs(context={context})"][i] == macs
        assert found[f'kv_bytes(batch=3, context={LONGEST}, dtype="f32")'][i] == 3 * 4 * cache


@pytest.mark.parametrize("net", DECODERS)
def test_decode_macs_sum_to_prefill_macs(net: str) -> None:
    space = small(net)
    architecture = space.sample(1)
    each = space.cost([architecture], [f"decode_macs(context={n})" for n in range(1, LONGEST + 1)])
    whole = space.cost([architecture], [f"prefill_macs(context={LONGEST})"])
    assert sum(int(values[0]) for values in each.values()) == int(whole[f"prefill_macs(context={LONGEST})"][0])


@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (False, 3), (True, 3), (False, 20)])
def test_attention_macs_count_only_unmasked_pairs(causal: bool, window: int | None) -> None:
    text = f"""net tiny {{
        input tokens: i64[7]
        x = tokens |> embedding(5, 4)
        output y = attention(x, x, x, causal={str(causal).lower()}, window={window or "none"})
    }}"""
    near = [(i, j) for i in range(7) for j in range(7) if window is None or abs(i - j) < window]
    pairs = [(i, j) for i, j in near if j <= i or not causal]
    assert space_of(text).account.extremes("prefill_macs")[0].value == 8 * len(pairs)


def test_llama_kv_cache_matches_published_size() -> None:
    """131,072 bytes a token in 16 bits: 15.62 GiB at 128,000 tokens."""
    space = archir.load(EXAMPLES / "llama" / "llama3.arch")
    name = "kv_bytes(context=128K)"
    assert space.account.extremes(name)[1].value == 131_072 * 128_000
    assert space.account.extremes('weight_bytes("bf16")')[1].value == 2 * 8_030_261_248


def test_decoding_a_token_uses_every_weight_once() -> None:
    """All but norms and the table of words; and the attention to itself."""
    space = archir.load(EXAMPLES / "llama" / "llama3.arch", depth=1)
    params = space.account.extremes("params")[1].value
    whole = space.account.extremes("decode_macs(context=1)")[1].value
    assert whole == params - 128_256 * 4_096 - 3 * 4_096 + 2 * 4_096


def test_caches_that_layers_share_count_once() -> None:
    text = """net tiny {
        input tokens: i64[7]
        x = tokens |> embedding(5, 4)
        y = attention(x, x, x, causal=true) if choose first(1, 0) == 1 else x
        output z = attention(y, x, x, causal=true) + attention(y, y, y, causal=true)
    }"""
    space = space_of(text)
    several = [space.architecture({"first": first}) for first in (1, 0)]
    assert space.cost(several, ['kv_bytes(dtype="int8")'])['kv_bytes(dtype="int8")'].tolist() == [2 * 56, 56]


def test_conv_and_linear_macs_match_other_tools() -> None:
    """fvcore's way, of the networks' tables: convolutions and linear maps of ResNet-50 and DeiT-Tiny."""
    resnet = archir.load(EXAMPLES / "resnet50.arch")
    assert resnet.account.extremes("macs_conv_linear")[0].value == 4_089_184_256
    deit = archir.load(EXAMPLES / "deit_tiny.arch")
    blocks = 12 * 197 * (4 + 8) * 192**2
    assert deit.account.extremes("macs_conv_linear")[0].value == 196 * 768 * 192 + blocks + 192 * 1000


CONV = """net tiny {
    input image: f32[3, 8, 8]
    x = image |> conv(8, bias=true) |> batch_norm |> relu
    x = x |> choose op {
        wide: conv(16, kernel=1, bias=true) |> relu |> conv(16, kernel=1, bias=true)
        skip: conv(16, kernel=1)
    }
    output y = x |> global_avg_pool |> linear(10)
}"""


@pytest.mark.parametrize("name", ["peak_bytes", "sram_bytes", "nonsense", 'latency("table.json")', "1 + 1"])
def test_costs_without_a_rule_are_refused(name: str) -> None:
    with pytest.raises(ArchError, match="A1604"):
        rule_of(space_of(CONV).graph, name)


def test_flops_equal_torch_flop_counter() -> None:
    space = space_of(CONV)
    for op in ("wide", "skip"):
        architecture = space.architecture({"op": op})
        graph = space.specialize(architecture)
        module = TORCH.lower(graph).eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(*inputs_of(graph, batch=1))
        assert counter.get_total_flops() == space.cost([architecture], ["flops"])["flops"][0]


def test_sram_and_flash_bytes_count_8_bit_weights_and_results() -> None:
    space = space_of(CONV)
    several = [space.architecture({"op": op}) for op in ("wide", "skip")]
    found = space.cost(several, ["sram_bytes", "flash_bytes", 'weight_bytes("int8")', 'weight_bytes("int4")'])
    first, last = 8 * 3 * 9 + 4 * 8 + 4 * 8 + 4 * 8, 16 * 10 + 4 * 10 + 4 * 10  # numbers, scales, biases; the norm
    wide = (8 * 16 + 16 * 16) + 2 * (4 * 16 + 4 * 16)
    assert found["flash_bytes"].tolist() == [first + wide + last, first + (8 * 16 + 4 * 16) + last]
    assert found["sram_bytes"].tolist() == [16 * 64 + 16 * 64, 8 * 64 + 16 * 64]
    assert (found['weight_bytes("int8")'] == space.cost(several)["params"]).all()
    assert (found['weight_bytes("int4")'] == space.cost(several)["params"] // 2).all()
    for i, architecture in enumerate(several):
        graph = space.specialize(architecture)
        assert max(live_bytes(graph, checked_types(graph), eight_bit=True).values()) == found["sram_bytes"][i]


def test_bytes_of_shared_weights_count_once() -> None:
    text = """net tiny {
        input tokens: i64[4]
        x = tokens |> embedding(100, 6, weights="words")
        x = x |> linear(6) if choose more(1, 0) == 1 else x
        output next = x |> linear(100, bias=false, weights="words")
    }"""
    space = space_of(text)
    several = [space.architecture({"more": more}) for more in (1, 0)]
    assert space.cost(several, ["weight_bytes"])["weight_bytes"].tolist() == [4 * 642, 4 * 600]


def test_named_costs_work_in_bounds_and_tables() -> None:
    space = small(DECODERS[0])
    names = ["kv_bytes(context=64, batch=2)", "decode_macs(context=64)"]
    few = space.where(f"{names[0]} <= 0.5x and {names[1]} <= 4K")
    assert few.count()[0] > 0
    costs = few.cost([few.sample(seed) for seed in range(5)], names)
    assert costs[names[0]].max() <= space.account.extremes(names[0])[1].value // 2
    assert costs[names[1]].max() <= 4_000
    space.account.add_cost("sram_bytes")
    low, high = space.account.limits("sram_bytes")
    assert low <= space.cost([space.sample(0)], ["sram_bytes"])["sram_bytes"][0] <= high


def test_named_costs_work_in_requirements() -> None:
    text = """net tiny {
        input x: f32[8]
        require weight_bytes("int8") <= BYTES and flops > 0
        output y = x |> linear(choose width(4, 8))
    }"""
    assert space_of(text.replace("BYTES", "50")).count() == (1, 1)
    assert space_of(text.replace("BYTES", "1K")).count() == (2, 2)


@pytest.mark.parametrize(
    ("net", "name", "said"),
    [
        ("zoo/switch.arch:switch", "kv_bytes", "A3320.*sees later tokens"),
        ("resnet50.arch:resnet50", "decode_macs(context=4)", "A3320.*has none"),
        ("resnet50.arch:resnet50", "prefill_macs(context=4)", "A3320.*takes no tokens"),
        ("zoo/gpt.arch:gpt", "prefill_macs(context=9)", "A3320.*does not take 9 tokens: `embedding` has 8 rows"),
        ("zoo/nas_bert.arch", "prefill_macs(contexts=9)", "A3321.*did you mean `context`"),
        ("zoo/gpt.arch:gpt", "kv_bytes(1, 2, \"f64\")", "A3321.*`f64` is not an element type"),
        ("zoo/gpt.arch:gpt", "latency(cpu.json)", r"A3321.*\n.*put the path in quotes"),
        ("zoo/gpt.arch:gpt", "kv_bytes(batch=1.5)", "A3321.*cannot read `batch=1.5`"),
        ("zoo/gpt.arch:gpt", "flop", "A1604.*did you mean `flops`"),
        ("zoo/gpt.arch:gpt", "latency", r"A1604.*did you mean `latency\(\"FILE\"\)`"),
    ],
)  # fmt: skip
def test_rejects_inapplicable_named_costs_with_reason(net: str, name: str, said: str) -> None:
    space: Any = small(net if net in NETS else "zoo/gpt.arch:gpt")
    with pytest.raises(ArchError, match=f"(?s){said}"):
        space.cost([space.sample(0)], [name])


@pytest.mark.soak
def test_entangled_choices_are_costed_per_architecture() -> None:
    space = small("nas_fpn/nas_fpn.arch:nas_fpn")
    several = [space.sample(seed) for seed in range(2)]
    found = space.cost(several, ["weight_bytes", "flops", "params", "macs"])
    assert (found["weight_bytes"] == 4 * found["params"]).all()
    assert (found["flops"] == 2 * found["macs"]).all()


def test_rejects_summed_peak_costs_and_unquoted_element_types() -> None:
    space = archir.loads("net n {\n input x: f32[4, 8, 8]\n output y = x |> conv(choose width(4, 8))\n}")
    for name in ("peak_bytes", "sram_bytes"):
        with pytest.raises(ArchError, match=f"A1604.*`{name}` is a maximum over the operations"):
            space.account.check_cost(name, summed=True)
    with pytest.raises(ArchError) as refusal:
        space.where("weight_bytes(int8) < 1000")
    assert refusal.value.diagnostics[0].hint == 'element types are texts: write `"int8"`'
    assert space.where('weight_bytes("int8") < 200').satisfying


TEXTS = """net n {
    input tokens: i64[8]
    x = tokens |> embedding(10, 4)
    BODY
}"""


def test_embedding_table_counts_one_scale_in_flash() -> None:
    space = archir.loads(TEXTS.replace("BODY", "output y = x |> linear(3)"))
    assert space.cost([space.sample(0)], ["flash_bytes"])["flash_bytes"] == [10 * 4 + 4 + 4 * 3 + 4 * 3 + 4 * 3]


def test_rejects_context_that_changes_weight_shapes() -> None:
    space = archir.loads(TEXTS.replace("BODY", "output y = x |> flatten |> linear(choose w(2, 3))"))
    assert space.cost([space.architecture({"w": 3})], ["prefill_macs(context=8)"])["prefill_macs(context=8)"] == [96]
    with pytest.raises(ArchError, match=r"A3320.*9 tokens: `linear` would have other weights"):
        space.cost([space.sample(0)], ["prefill_macs(context=9)"])


def test_unused_nodes_do_not_prevent_resizing() -> None:
    graph = archir.loads(TEXTS.replace("BODY", "output y = x |> linear(3)")).graph
    graph.add(Node(Relu()), graph.add(Node(Linear(5)), graph.outputs["y"]))
    assert Resized(SymbolicCosts(graph), 9).symbolic.types[graph.outputs["y"]].shape == (9, 3)


def test_only_attentions_have_caches() -> None:
    """What reads the same three values before them has none."""
    values = "q = x |> linear(4)\nk = x |> linear(4)\nv = x |> linear(4)\n"
    read = "\ny = attention(q, k, v, heads=2, causal=true)\noutput z = "
    for before, after in (("", "y"), ("r = concat(q, k, v)", "concat(y, r)")):
        space = archir.loads(TEXTS.replace("BODY", values + before + read + after))
        assert space.cost([space.sample(0)], ["kv_bytes"])["kv_bytes"] == [8 * (4 + 4) * 2]
