"""Zero-cost proxies against what they are by hand, and on every published space."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner, Result
from torch import Tensor

import archir
from archir.cli import main
from archir.cli.doctor import Finding, findings
from archir.diagnostics.errors import ArchError
from archir_torch import BACKEND
from archir_torch.data import Split, load, minibatch
from archir_torch.proxies import PROXIES
from archir_torch.proxies.untrained import Trial, make_trial
from tests.conftest import EXAMPLES
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

NAMES = ["fisher", "grad_norm", "grasp", "jacob_cov", "naswot", "snip", "synflow"]


def network(body: str, size: str = "f32[1, 2, 2]") -> archir.Graph:
    return archir.loads(f"net tiny {{\n    input x: {size}\n    output y = x |> {body}\n}}\n").graph


def batch(images: Any, labels: list[int], shape: tuple[int, ...] = (1, 2, 2)) -> Split:
    return Split.labelled(torch.tensor(images, dtype=torch.float32).reshape(-1, *shape), torch.tensor(labels))


def fixed(graph: archir.Graph, images: Split, **weights: Any) -> Trial:
    """A trial with weights that are given; `__` stands for the dot of their names."""
    made = make_trial(graph, images, 0)
    for name, value in weights.items():
        made.weights[name.replace("__", ".")].copy_(torch.tensor(value))
    return made


LINEAR = network("flatten |> linear(2, bias=false)")
IMAGES = batch([[1.0, 2.0, 0.0, -1.0], [0.5, -1.0, 3.0, 0.0]], [0, 1])
WEIGHT = [[0.5, -0.25, 0.0, 1.0], [-1.0, 0.5, 0.75, 0.25]]


def softmax_regression() -> tuple[Tensor, Tensor, Tensor]:
    """Images [n, d], weight [c, d] and dloss/dlogits [n, c], in float64."""
    x, w = IMAGES.images.flatten(1).double(), torch.tensor(WEIGHT, dtype=torch.float64)
    return x, w, ((x @ w.T).softmax(1) - F.one_hot(IMAGES.labels, 2)) / len(x)


@pytest.mark.parametrize("body", ["conv(4) |> zero |> global_avg_pool", "flatten"])
@pytest.mark.parametrize("name", ["fisher", "grad_norm", "grasp", "snip", "synflow"])
def test_networks_whose_output_depends_on_no_weights_have_the_score_zero(body: str, name: str) -> None:
    assert PROXIES[name](make_trial(network(body), IMAGES, 0)) == 0


def test_grad_norm_and_snip_equal_formulas_for_softmax_regression() -> None:
    x, w, slope = softmax_regression()
    gradient = slope.T @ x
    made = fixed(LINEAR, IMAGES, linear__weight=WEIGHT)
    assert PROXIES["grad_norm"](made) == pytest.approx(float(gradient.norm()), rel=1e-5)
    assert PROXIES["snip"](made) == pytest.approx(float((gradient * w).abs().sum()), rel=1e-5)


def test_grasp_equals_formula_for_softmax_regression() -> None:
    x, w, slope = softmax_regression()
    p, direction = (x @ w.T).softmax(1), slope.T @ x
    along = x @ direction.T  # how the logits change along the gradient; the Hessian is diag(p) - p p^T per sample
    product = ((p * along - p * (p * along).sum(1, keepdim=True)) / len(x)).T @ x
    expected = -float((product * w).sum())
    assert PROXIES["grasp"](fixed(LINEAR, IMAGES, linear__weight=WEIGHT)) == pytest.approx(expected, rel=1e-4)


def test_fisher_equals_formula_for_softmax_regression() -> None:
    x, w, slope = softmax_regression()
    expected = float(((x @ w.T) * slope).square().mean(0).sum()) / 2 * 4  # each channel has four weights
    assert PROXIES["fisher"](fixed(LINEAR, IMAGES, linear__weight=WEIGHT)) == pytest.approx(expected, rel=1e-5)


def test_fisher_sums_a_channel_over_its_positions() -> None:
    graph = network("conv(2, kernel=1) |> global_avg_pool")
    z = torch.stack([IMAGES.images[:, 0] * 2, IMAGES.images[:, 0] * -1], 1).double()
    slope = (z.mean((2, 3)).softmax(1) - F.one_hot(IMAGES.labels, 2)) / 2 / 4
    expected = float((z * slope[:, :, None, None]).sum((2, 3)).square().mean(0).sum()) / 2
    made = fixed(graph, IMAGES, conv__weight=[[[[2.0]]], [[[-1.0]]]])
    assert PROXIES["fisher"](made) == pytest.approx(expected, rel=1e-5)


def test_fisher_counts_a_channel_for_each_of_its_weights() -> None:
    graph = network("conv(4, kernel=1, groups=2) |> global_avg_pool", "f32[6, 1, 1]")
    images = batch([[1.0, 2.0, 0.5, -1.0, 0.25, 3.0], [0.5, -1.0, 3.0, 0.75, 1.0, -0.5]], [0, 1], (6, 1, 1))
    made = make_trial(graph, images, 5)
    z = F.conv2d(images.images, made.weights["conv.weight"], made.weights.get("conv.bias"), groups=2).flatten(1)
    slope = (z.softmax(1) - F.one_hot(images.labels, 4)) / 2
    expected = float((z * slope).square().mean(0).sum()) / 2 * 3
    assert PROXIES["fisher"](made) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("norm", ["", " |> batch_norm"])
def test_synflow_of_a_chain_is_its_flow_times_the_layers(norm: str) -> None:
    chain = f"flatten |> linear(3, bias=false){norm} |> linear(5, bias=false){norm} |> linear(2, bias=false)"
    made = make_trial(network(chain), IMAGES, 7)
    first, second, third = (made.weights[f"linear{i}.weight"].double().abs() for i in ("", "_2", "_3"))
    flow = float((third @ second @ first).sum())  # |weights| of all paths from ones to the sum of the outputs
    assert PROXIES["synflow"](made) == pytest.approx(3 * flow, rel=1e-12)


def test_naswot_of_two_samples_equals_log_determinant() -> None:
    made = fixed(network("flatten |> relu |> linear(2)"), batch([[1, -1, 1, 2], [1, 1, -1, 3]], [0, 1]))
    # Both samples turn on the first and the last unit and differ in two: K = [[4, 2], [2, 4]].
    assert PROXIES["naswot"](made) == pytest.approx(math.log(4 * 4 - 2 * 2))


@pytest.mark.parametrize("act", ["relu", "relu6", "leaky_relu", "elu", "gelu", "silu", "mish", "hard_swish"])
def test_naswot_reads_inputs_of_rectifiers(act: str) -> None:
    graph = network(f"conv(3) |> {act} |> conv(2) |> {act} |> sigmoid |> global_avg_pool")
    made = make_trial(graph, minibatch("digits", (1, 2, 2), 4), 3)
    module = archir.compile(graph, seed=3)
    images = made.batch.images
    hidden = module.conv(images)
    function: Callable[[Tensor], Tensor] = getattr(F, {"hard_swish": "hardswish"}.get(act, act))
    codes = torch.cat([one.flatten(1) > 0 for one in (hidden, module.conv_2(function(hidden)))], 1).int()
    kernel = torch.tensor([[float((a == b).sum()) for a in codes] for b in codes], dtype=torch.float64)
    assert PROXIES["naswot"](made) == pytest.approx(float(kernel.slogdet().logabsdet))


def test_naswot_counts_shared_input_once_per_rectifier() -> None:
    graph = archir.loads("""
        net tiny {
            input x: f32[1, 2, 2]
            h = x |> flatten
            output y = (h |> relu |> linear(3)) + (h |> relu |> linear(3)) + (h |> scale(-1) |> relu |> linear(3))
        }
    """).graph
    made = make_trial(graph, batch([[1, -1, 1, 2], [1, 1, -1, 3]], [0, 1]), 0)
    assert PROXIES["naswot"](made) == pytest.approx(math.log(12 * 12 - 6 * 6))


def test_naswot_of_indistinguishable_samples_is_minus_infinity() -> None:
    made = make_trial(network("flatten |> relu |> linear(2)"), batch([[1, 2, 3, 4], [4, 3, 2, 1]], [0, 1]), 0)
    assert PROXIES["naswot"](made) == -math.inf


def test_jacob_cov_of_uncorrelated_samples_equals_formula() -> None:
    made = fixed(network("flatten |> relu"), batch([[1, -1, 1, -1], [1, 1, -1, -1]], [0, 1]))
    # The gradients are 1 where a unit is on: [1, 0, 1, 0] and [1, 1, 0, 0] do not correlate, both eigenvalues are 1.
    one = 1 + 1e-5
    assert PROXIES["jacob_cov"](made) == pytest.approx(-2 * (math.log(one) + 1 / one))


def test_jacob_cov_of_a_linear_network_is_low() -> None:
    made = fixed(network("flatten |> linear(2)"), IMAGES)
    # All gradients are equal: the eigenvalues are 2 and 0.
    expected = -(math.log(2 + 1e-5) + 1 / (2 + 1e-5) + math.log(1e-5) + 1e5)
    assert PROXIES["jacob_cov"](made) == pytest.approx(expected, rel=1e-3)


def test_jacob_cov_of_input_independent_network_is_minus_infinity() -> None:
    made = make_trial(network("zero |> flatten"), IMAGES, 0)
    assert PROXIES["jacob_cov"](made) == -math.inf


NORMED = "conv(4) |> batch_norm |> relu |> dropout(0.5) |> conv(10) |> batch_norm |> drop_path(0.5) |> global_avg_pool"


@pytest.mark.parametrize("name", NAMES)
def test_scores_depend_on_the_seed_alone(name: str) -> None:
    graph = network(NORMED, "f32[1, 8, 8]")
    before = torch.get_rng_state()
    first = archir.score(graph, name, seed=1, batch=8)
    torch.rand(3)
    state = torch.get_rng_state()
    assert archir.score(graph, name, seed=1, batch=8) == first
    assert torch.equal(torch.get_rng_state(), state)
    torch.set_rng_state(before)
    assert archir.score(graph, name, seed=2, batch=8) != first


@pytest.mark.parametrize("name", NAMES)
def test_scoring_leaves_weights_and_statistics_unchanged(name: str) -> None:
    made = make_trial(network(NORMED, "f32[1, 8, 8]"), minibatch("digits", (1, 8, 8), 8), 0)
    kept = {key: value.clone() for key, value in made.weights.items()}
    score = PROXIES[name](made)
    assert all(torch.equal(made.weights[key], value) for key, value in kept.items())
    assert PROXIES[name](made) == score


def test_batch_norms_use_the_minibatch_and_dropout_is_off() -> None:
    made = make_trial(network(NORMED, "f32[1, 8, 8]"), minibatch("digits", (1, 8, 8), 8), 0)
    module = made.network()
    reference = archir.compile(network(NORMED.replace("0.5", "0"), "f32[1, 8, 8]"), seed=0).train()
    torch.testing.assert_close(module(made.batch.images), reference(made.batch.images))


@pytest.mark.parametrize("name", with_soak(SPACES, ["darts", "autoformer", "nas_bench_201"]))
def test_every_published_space_is_scored(name: str) -> None:
    small = SPACES[name].small
    space = space_of(name, **{**small, "classes": 10} if "classes" in small else small)
    proxies = [proxy for proxy in NAMES if (name, proxy) != ("trionet", "grasp")]  # its maps are large: see below
    scorer = BACKEND.scorer(proxies, batch=8)
    first, second = (scorer(space.specialize(space.sample(seed))) for seed in (0, 1))
    assert all(math.isfinite(score) for score in [*first.values(), *second.values()])
    assert all(first[proxy] != second[proxy] for proxy in proxies)


def test_score_uses_first_of_several_outputs() -> None:
    one = archir.loads(
        "net n {\n input x: f32[1, 8, 8]\n y = x |> conv(10) |> relu\n output a = y |> global_avg_pool\n}"
    )
    two = archir.loads(
        "net n {\n input x: f32[1, 8, 8]\n y = x |> conv(10) |> relu\n output a = y |> global_avg_pool\n"
        " output b = y |> scale(3)\n}"
    )
    scorer = archir.scorer(NAMES, batch=8)
    assert scorer(one.graph) == scorer(two.graph)


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output + result.stderr
    return result


FILE = str(EXAMPLES / "nas_bench_201" / "nas_bench_201.arch")
SMALL = [f"-p{name}={value}" for name, value in SPACES["nas_bench_201"].small.items()]


def test_archir_cost_prints_scores() -> None:
    command = ["cost", FILE, "--seed", "3", *SMALL, "--proxy", "naswot, snip", "--batch", "8", "--init-seed", "5"]
    space = space_of("nas_bench_201", **SPACES["nas_bench_201"].small)
    scores = archir.scorer(["naswot", "snip"], batch=8, seed=5)(space.specialize(space.sample(3)))
    assert json.loads(run(*command, "--json").stdout)["scores"] == scores
    assert all(f"{score:.6g}" in run(*command).stdout for score in scores.values())


def test_the_lowest_score_is_null_in_json(tmp_path: Path) -> None:
    file = tmp_path / "dead.arch"
    file.write_text("net dead {\n input x: f32[1, 8, 8]\n output y = x |> zero |> relu |> flatten\n}\n")
    assert json.loads(run("cost", str(file), "--proxy", "naswot", "--json").stdout)["scores"] == {"naswot": None}


def test_archir_sample_keeps_the_best() -> None:
    drawn = run("sample", FILE, "-n", "6", *SMALL).stdout.splitlines()
    kept = run("sample", FILE, "-n", "6", *SMALL, "--by", "naswot", "--best", "2", "--batch", "8").stdout.splitlines()
    space = space_of("nas_bench_201", **SPACES["nas_bench_201"].small)
    scorer = archir.scorer(["naswot"], batch=8)
    scores = {
        line: scorer(space.specialize(space.architecture(json.loads(line)["choices"])))["naswot"] for line in drawn
    }
    assert kept == sorted(scores, key=lambda line: -scores[line])[:2]
    one = run("sample", FILE, "-n", "6", *SMALL, "--by", "naswot", "--batch", "8").stdout
    assert json.loads(one) == json.loads(kept[0])
    assert "--best needs --by" in run("sample", FILE, "--best", "2", code=2).stderr


def test_archir_sample_at_least_filters_by_score() -> None:
    drawn = ("sample", FILE, "-n", "6", *SMALL, "--by", "naswot", "--batch", "8")
    ranked = run(*drawn, "--best", "6")
    scores = [float(line.rpartition(" ")[2]) for line in ranked.stderr.splitlines() if line.startswith("naswot of")]
    assert len(set(scores)) > 3
    limit = (scores[2] + scores[3]) / 2 if scores[2] > scores[3] else scores[2]
    wanted = sum(score >= limit for score in scores)
    assert 0 < wanted < len(scores)
    kept = run(*drawn, "--at-least", str(limit)).stdout.splitlines()
    assert kept == ranked.stdout.splitlines()[:wanted]
    assert run(*drawn, "--at-least", str(limit), "--best", "2").stdout.splitlines() == kept[:2]
    refused = run(*drawn, "--at-least", str(scores[0] + 1), code=1)
    assert "A1119" in refused.stderr
    assert f"the best one has {scores[0]:g}" in refused.stderr
    assert "--at-least needs --by" in run("sample", FILE, "--at-least", "2", code=2).stderr


def test_doctor_lists_proxies() -> None:
    assert Finding("proxies", ", ".join(NAMES), source="archir") in list(findings())


def test_anybody_can_add_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROXIES, "images", lambda trial: float(len(trial.batch.images)))
    assert archir.score(LINEAR, "images", batch=5) == 5
    assert "images" in BACKEND.proxies


def test_minibatch_is_resized_subset_of_training_data() -> None:
    drawn, whole = minibatch("digits", (1, 8, 8), 16, seed=3), load("digits", (1, 8, 8), seed=3).train
    assert all(((whole.images - image).abs().amax((1, 2, 3)) < 1e-5).any() for image in drawn.images)
    assert minibatch("digits", (3, 20, 30), 2).images.shape == (2, 3, 20, 30)


@pytest.mark.parametrize(
    ("body", "size", "proxy", "options", "message"),
    [
        ("conv(10) |> global_avg_pool", "f32[1, 8, 8]", "nasvot", {}, "A1110.*no proxy.*\n.*you mean `naswot`"),
        ("conv(10) |> global_avg_pool", "f32[1, 8, 8]", "zzz", {}, "A1110.*\n.*proxies are fisher, grad_norm"),
        ("conv(10) |> global_avg_pool", "f32[1, 8, 8]", "naswot", {}, "A1111.*`tiny` has none"),
        ("conv(4) |> global_avg_pool", "f32[1, 8, 8]", "snip", {}, r"A1108.*10 classes, but the output `y` is \[4\]"),
        ("conv(4)", "f32[1, 8, 8]", "fisher", {}, "A1108"),
        ("relu", "f32[5]", "naswot", {}, "A1103.*must take one image"),
        ("relu", "f32[2, 8, 8]", "naswot", {}, "A1103.*2 channels"),
        ("relu", "f32[1, 8, 8]", "naswot", {"batch": 1}, "A1111.*2 to 1438 samples, not 1"),
        ("relu", "f32[1, 8, 8]", "naswot", {"data": "none.npz"}, "A1101"),
        ("conv(10) |> scale(1e300) |> scale(1e300) |> global_avg_pool", "f32[1, 8, 8]", "synflow", {}, "A1111.*beyond"),
    ],
)  # fmt: skip
def test_rejects_invalid_proxies_networks_and_data(
    body: str, size: str, proxy: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArchError, match=message):
        archir.score(network(body, size), proxy, **options)


def test_grasp_rejects_local_attention_on_large_map() -> None:
    body = "conv(8) |> local_self_attention(7, 2) |> conv(10) |> global_avg_pool"
    text = f"import std.attention\nnet tiny {{\n    input x: f32[1, 16, 16]\n    output y = x |> {body}\n}}\n"
    with pytest.raises(ArchError, match=r"A1111.*second derivatives"):
        archir.score(archir.loads(text).graph, "grasp", batch=2)
