"""Mistakes planted over the examples: where, what instead of what, and words of what must be said there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import archir
from archir.errors import ArchError, Diagnostic
from tests.conftest import EXAMPLES


@dataclass(frozen=True)
class Mistake:
    """`old` becomes `new` in `file`; `by` is the file that is checked, if not that one itself.

    The line to be found is that of the first character which differs, or that of `at` in the new text.
    """

    file: str
    old: str
    new: str
    words: str = ""
    by: str = ""
    at: str = ""

    @property
    def text(self) -> str:
        """The file with the mistake in it."""
        text = (EXAMPLES / self.file).read_text("utf-8")
        assert self.old in text, f"{self.file} has no {self.old!r}"
        return text.replace(self.old, self.new, 1)

    @property
    def line(self) -> int:
        """Where the mistake is."""
        before, after = (EXAMPLES / self.file).read_text("utf-8"), self.text
        if self.at:
            return after[: after.index(self.at)].count("\n") + 1
        same = next(i for i, (a, b) in enumerate(zip(before, f"{after}\0", strict=False)) if a != b)
        return after[:same].count("\n") + 1

    def found(self, folder: Path) -> tuple[bool, str]:
        """Whether `archir check --lint` points to the line and says the words; and all that it says."""
        said = self.said(folder)
        right = any(
            problem.span is not None
            and Path(problem.span.source.name).name == Path(self.file).name
            and problem.span.line == self.line
            and self.words in str(problem)
            for problem in said
        )
        return right, "\n".join(map(str, said))

    def said(self, folder: Path) -> list[Diagnostic]:
        """What `archir check --lint` says of the example with the mistake, in a copy of its folder."""
        source = EXAMPLES / self.file
        copy = folder / f"{abs(hash(self))}"
        copy.mkdir()
        for path in source.parent.glob("*.arch"):
            shutil.copy(path, copy)
        (copy / source.name).write_text(self.text, "utf-8")
        try:
            return archir.lint(copy / Path(self.by or self.file).name)
        except ArchError as error:
            return list(error.diagnostics)


V2, V3, OFA = (
    "mobilenet_v2.arch", "mobilenet_v3_ofa/mobilenet_v3_large.arch", "mobilenet_v3_ofa/mobilenet_v3_ofa.arch",
)  # fmt: skip
R50, DEIT, NB, DARTS = "resnet50.arch", "deit_tiny.arch", "nas_bench_201/nas_bench_201.arch", "darts/darts.arch"
FULL, LAYERS, TIED = "full_attention/full_attention.arch", "full_attention/layers.arch", "full_attention/tied.arch"
GLIT, LAYER, SEARCH, HOGA = "glit/glit.arch", "glit/layer.arch", "glit/search.arch", "autola/hoga.arch"
AUTOLA, BASE = "autola/autola.arch", "autola/baselines.arch"
TRIO, OPERATORS, PLAIN = "trionet/trionet.arch", "trionet/operators.arch", "trionet/baselines.arch"
AUTO, NOS, TEACHER, PRE = "autoformer/autoformer.arch", "nos/nos.arch", "nos/teacher.arch", "nos/preliminary.arch"

MISTAKES = [
    # brackets
    Mistake(V2, "            x = x |> inverted_residual(channels, expansion * x.channels, stride=stride if i == 0 else 1)\n        }\n", "            x = x |> inverted_residual(channels, expansion * x.channels, stride=stride if i == 0 else 1)\n", "is not closed", at="        for i in"),
    Mistake(NB, "    return x |> relu |> conv(channels, kernel, stride) |> batch_norm\n}", "    return x |> relu |> conv(channels, kernel, stride) |> batch_norm\n", "is not closed", at="block relu_conv_bn"),
    Mistake(NB, "        avg_pool_3x3: avg_pool(kernel=3)\n    }\n", "        avg_pool_3x3: avg_pool(kernel=3)\n", "is not closed", at="    return x |> choose op {"),
    Mistake(OFA, "        x = x |> searched(channels, stride if i == 0 else 1, act, excite, expansions)\n    }", "        x = x |> searched(channels, stride if i == 0 else 1, act, excite, expansions)", "is not closed", at="    repeat depth as i {"),
    Mistake(GLIT, "        x = x |> layer(globals, heads, key, kernel, expansion, ratio, drop * i / max(depth - 1, 1))", "        x = x |> layer(globals, heads, key, kernel, expansion, ratio, drop * i / max(depth - 1, 1)", "is not closed"),
    Mistake(DARTS, "    return concat(nodes[2:])", "    return concat(nodes[2:)", "is not closed"),
    Mistake(V3, "(960, 160, 5, 1, true, hard_swish), (960, 160, 5, 1, true, hard_swish)\n]", "(960, 160, 5, 1, true, hard_swish), (960, 160, 5, 1, true, hard_swish)\n", "is not closed", at="const STAGES = ["),
    Mistake(AUTO, "    output logits = x |> layer_norm |> slice(1, axis=0) |> global_avg_pool |> linear(classes)\n}", "    output logits = x |> layer_norm |> slice(1, axis=0) |> global_avg_pool |> linear(classes)\n", "is not closed", at="net autoformer_tiny"),
    Mistake(PLAIN, "    return x |> global_avg_pool |> linear(classes)\n}", "    return x |> global_avg_pool |> linear(classes)\n    }\n}", "closes no", at="    }\n}\n\nconst DEPTHS"),
    Mistake(R50, "linear(classes)\n", "linear(classes))\n", "closes no"),
    # libraries and names
    Mistake(V2, "import std.mobile\n", "\n", "import std.mobile", at="conv_norm(32"),
    Mistake(R50, "import std.resnet", "import std.resnets", "did you mean `std.resnet`?"),
    Mistake(HOGA, "import std.gates\n", "\n", "import std.gates", at='"norm_d1" =>'),
    Mistake(FULL, 'import "layers.arch"', 'import "layer.arch"', "layers.arch"),
    Mistake(DEIT, "import std.transformer", "import transformer", "std.transformer"),
    Mistake(GLIT, 'import "layer.arch"\n', "\n", 'import "layer.arch"', at="embedding(width"),
    Mistake(AUTOLA, "import std.resnet\n", "import std.resnet as resnets\n", "resnets.padded", at="shortcut = match"),
    Mistake(TRIO, 'import "operators.arch"\n', "", "operators.arch", at="conv_bn(expansion"),
    Mistake(V3, "x |> conv_norm(960, 1)", "x |> mobile.conv_norm(960, 1)", "drop `mobile.`"),
    Mistake(NB, "|> batch_norm |> relu |> global_avg_pool", "|> BatchNorm2d |> relu |> global_avg_pool", "batch_norm"),
    Mistake(NB, "x |> relu |> conv(channels", "x |> ReLU |> conv(channels", "relu"),
    Mistake(OPERATORS, "|> max_pool(kernel=3, stride=2)", "|> MaxPool2d(kernel=3, stride=2)", "max_pool", by=TRIO),
    Mistake(TEACHER, "|> linear(classes)", "|> nn.Linear(classes)", "linear"),
    Mistake(LAYERS, "batch_norm if affine", "norm2d if affine", "there is no"),
    Mistake(V2, "|> dropout(dropout_rate)", "|> Dropout(dropout_rate)", "dropout"),
    Mistake(PRE, "global_avg_pool", "AdaptiveAvgPool2d", "global_avg_pool"),
    Mistake(NOS, "|> sigmoid |> as_gate", "|> sigmoid |> gate", "as_gate"),
    Mistake(TRIO, "choose depth @depth(depths)", "choose depth @depth(depth)", "depths"),
    # habits of other languages
    Mistake(NB, "x = image |> conv(channels, kernel=3) |> batch_norm", "x = image.conv(channels, kernel=3) |> batch_norm", "x |> conv"),
    Mistake(V2, "conv_norm(1280, 1) |> relu6", "conv_norm(1280, 1) | relu6", "|>"),
    Mistake(R50, "import std.resnet", "// ResNets\nimport std.resnet", "#"),
    Mistake(DEIT, "    input image: f32[3, size, size]", "    input image: f32[3, size, size]  // the image", "#"),
    Mistake(V2, "for i in 0..depth {", "for i in range(depth) {", "0..n"),
    Mistake(V2, "for i in 0..depth {", "for i in 0..depth:", "braces"),
    Mistake(NB, "for stage in 0..3 {", "for stage in 0:3 {", "0..3"),
    Mistake(V3, "false, relu), (64", "False, relu), (64", "false"),
    Mistake(NB, "if stage > 0 {", "if stage = 1 {", "=="),
    Mistake(LAYERS, "(shortcuts == \"stage\" and i == 0)", "(shortcuts == \"stage\" && i == 0)", "and"),
    Mistake(LAYERS, "step != 1 or x.channels", "step != 1 || x.channels", "or"),
    Mistake(LAYERS, "padding=\"valid\"", "padding='valid'", "strings"),
    Mistake(TEACHER, "stages = stages + [x]", "stages += [x]", "x = x + 1"),
    Mistake(TEACHER, "stages = stages + [x]", "stages.append(x)", "in place"),
    Mistake(NB, "block reduction(x, channels) {", "def reduction(x, channels) {", "block"),
    Mistake(NB, "cell searched(x) {", "cell searched(x: tensor) {", "types"),
    Mistake(OPERATORS, "    return x |> conv_bn(x.channels, kernel, stride) |> relu", "    return x |> conv_bn(x.channels, kernel, stride) |> relu;", "line"),
    Mistake(HOGA, "\"cbam\" => cbam(reduction=4)", "\"cbam\": cbam(reduction=4)", "=>"),
    Mistake(NB, "none:         zero", "none => zero", "name: value"),
    Mistake(DARTS, "if auxiliary {\n        output auxiliary = side |> auxiliary_tower(classes)\n", "if auxiliary\n        output auxiliary = side |> auxiliary_tower(classes)\n", "braces", at="    if auxiliary"),
    Mistake(PRE, "    output logits = x |>", "    return x |>", "output"),
    Mistake(AUTO, "choose width @width(3 * head,", "choose width @width[3 * head,", "", at="    width = choose"),
    Mistake(OFA, "    kernel = choose kernel @kernel(3, 5, 7)\n", "    kernel = choose @kernel kernel(3, 5, 7)\n", "tags"),
    Mistake(V2, "dropout_rate = 0.2)", "dropout_rate: float = 0.2)", "types"),
    Mistake(LAYER, "        3 => x |>", "        case 3 => x |>", "value => result", by=GLIT),
    Mistake(V2, "conv_norm(32, 3, stride=2)", "conv_norm(32 3, stride=2)", "comma"),
    Mistake(V3, "dropout(dropout_rate) |> linear(classes)", "dropout(p=dropout_rate) |> linear(classes)", "rate"),
    Mistake(NB, "avg_pool(kernel=3)", "avg_pool(kernel_size=3)", "kernel"),
    Mistake(NB, "conv(channels, kernel=3) |> batch_norm", "conv(out_channels=channels, kernel=3) |> batch_norm", "channels"),
    Mistake(TEACHER, "f32[channels, size, size]", "float32[channels, size, size]", "f32"),
    Mistake(R50, "input image: f32[3, size, size]", "input image", "input image: f32"),
    Mistake(NB, "shortcut = x |> avg_pool", "/* shortcut */ shortcut = x |> avg_pool", "#"),
    # shapes
    Mistake(NB, "    return shortcut + y", "    return x + y", "shapes differ"),
    Mistake(NB, "y = x |> relu_conv_bn(channels, kernel=3, stride=2)", "y = x |> relu_conv_bn(channels, kernel=3)", "shapes differ", at="    return shortcut + y"),
    Mistake(NB, "shortcut = x |> avg_pool(kernel=2, stride=2) |> conv(channels, kernel=1)", "shortcut = x |> avg_pool(kernel=2, stride=2)", "shapes differ", at="    return shortcut + y"),
    Mistake(LAYERS, "heads=8, channels=channels", "heads=7, channels=channels", "heads", by=FULL),
    Mistake(LAYERS, "kernel=3, heads=4)", "kernel=3, heads=3)", "heads", by=FULL, at="y |> local_self_attention(kernel, heads)"),
    Mistake(LAYERS, "local_k5_h4: bottleneck(width, stride, ratio, affine, kernel=5", "local_k5_h4: bottleneck(width, stride, ratio, affine, kernel=4", "odd", by=FULL, at="y |> local_self_attention(kernel, heads)"),
    Mistake(DEIT, "heads = 3)", "heads = 5)", "heads", at="output logits"),
    Mistake(V2, "|> global_avg_pool |> dropout(dropout_rate) |> linear(classes)", "|> dropout(dropout_rate) |> conv(classes) |> to_map(7)", "to_map"),
    Mistake(OPERATORS, "return y + shortcut |> relu", "return y + x |> relu", "shapes differ", by=TRIO),
    Mistake(V2, "conv_norm(1280, 1)", "conv_norm(1280, 4)", "even"),
    Mistake(TEACHER, "conv_bn(16, 3)", "conv_bn(16, 2)", "even"),
    Mistake(R50, "imagenet_stem(64)", 'imagenet_stem("64")', "integer"),
    Mistake(HOGA, "nodes + [groups[k]]", "nodes + [groups[k + 1]]", "index", by=AUTOLA),
    Mistake(AUTO, "|> slice(1, axis=0) |> global_avg_pool", "|> slice(1, axis=2) |> global_avg_pool", "axis"),
    Mistake(GLIT, "token_classifier(classes)", "token_classifier(classes) |> conv(3)", "map"),
    Mistake(NB, "avg_pool_3x3: avg_pool(kernel=3)", "avg_pool_3x3: avg_pool(kernel=3, stride=2)", "", at="sum([source |> edge"),
    # arguments
    Mistake(V2, "stride=stride if i == 0 else 1)", "strides=stride if i == 0 else 1)", "stride"),
    Mistake(R50, "residual_stages(stage_depths(50), 256, bottleneck)", "residual_stages(256, stage_depths(50), bottleneck)", ""),
    Mistake(PLAIN, "convolution(stride, kernel=3)", "convolution(stride)", "kernel"),
    Mistake(PLAIN, "local(stride, kernel=7, heads=8, query=1, value=1)", "local(stride, kernel=7, heads=8, query=1, values=1)", "value"),
    Mistake(DEIT, "deit(width, heads, depth, classes, patch)", "deit(width, heads, depth, classes, patch, 4, 0, 7)", "arguments"),
    Mistake(TRIO, "join(x, channels, stride)", "join(channels, x, stride)", "", at="    return y |> conv(channels, kernel=1) |> batch_norm(zero_init=true)"),
    Mistake(TIED, "stem(channels, form)", "stem(form, channels)", ""),
    Mistake(OFA, "dropout(dropout_rate) |> linear(classes)", "dropout(dropout_rate, 3) |> linear(classes)", "at the most"),
    # what is never read, and what is read too early
    Mistake(NB, "    for stage in 0..3 {\n", "    z = x |> conv(8)\n    for stage in 0..3 {\n", "never read"),
    Mistake(V2, "    x = x |> conv_norm(1280, 1) |> relu6", "    y = x |> conv_norm(1280, 1) |> relu6", "never read"),
    Mistake(NB, "block edge(x) {", "block skip(x) {\n    return x\n}\n\nblock edge(x) {", "nothing uses"),
    Mistake(AUTO, "import std.attention\n", "import std.attention\nimport std.gates\n", "is used"),
    Mistake(DEIT, "deit(width, heads, depth, classes, patch)", "deit(width, heads, depth, classes, 16)", "does not read", at="net deit_tiny"),
    Mistake(V2, "size = 224, dropout_rate = 0.2)", "size = 224, dropout_rate = 0.2, width = 1)", "does not read"),
    Mistake(TEACHER, "    x = image |> conv_bn(16, 3)\n", "", "", at="x = x |> pyramid_bottleneck"),
    Mistake(NB, "    return nodes[3]\n", "", "returns nothing", at="cell searched"),
    Mistake(R50, "    output logits =", "    logits =", "no output", at="net resnet50"),
    # choices
    Mistake(GLIT, "expansion = choose expansion @low(1, 2, 4)", "expansion = choose kernel @low(1, 2, 4)", "two choices"),
    Mistake(GLIT, "choose ratio @low(2, 4, 6)", "choose ratio @loww(2, 4, 6)", "@low"),
    Mistake(TRIO, '"axial" => choose axial_expansion', '"axal" => choose axial_expansion', "no arm matches", at="expansion = match operator"),
    Mistake(OFA, "choose kernel @kernel(3, 5, 7)", "choose kernel @kernel(3, 5, 5)", "twice"),
    Mistake(AUTO, "    repeat depth as i {", "    require depth > 14\n    repeat depth as i {", "no architecture"),
    Mistake(NB, "nor_conv_3x3: relu_conv_bn(x.channels, kernel=3)", "nor_conv_3x3: relu_conv_bn(x.channels, kernel=1)", "compute the same", at="return x |> choose op {"),
    Mistake(NOS, "nodes = nodes + [heterogeneous(nodes, stride, affine, settings)]", "nodes = nodes + [heterogeneous(a, stride, affine, settings)]", "", at="enumerate(nodes)"),
]  # fmt: skip
