"""Measure the cost of a keystroke in an editor: tokens and names of a file of 300 lines, and the shapes of its net.

    python benchmarks/typing_speed.py

A character is inserted, replaced or deleted at random places; after each change, the text is parsed and its names are
checked, as `archir lsp` does. Shapes are inferred after every twentieth change. Processor time is affected least by
other work on the machine.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median, quantiles

from archir.tools.lsp import nets
from archir.tools.lsp.checking import Checker
from archir.tools.lsp.view import View

BLOCK = """
block stage_{n}(x, width = 16) {{
    y = x |> conv(width, kernel=3) |> batch_norm |> relu
    z = y |> choose op_{n} {{
        small: conv(width, kernel=1)
        large: conv(width, kernel=3)
        skip:  identity
    }}
    return z |> batch_norm |> relu
}}
"""
STAGES = 27


def program() -> str:
    """Return a program of 300 lines."""
    blocks = "".join(BLOCK.format(n=n) for n in range(STAGES))
    calls = "".join(f"    x = x |> stage_{n}\n" for n in range(STAGES))
    head = "net many {\n    input image: f32[3, 32, 32]\n    x = image |> conv(16)\n"
    return f"{blocks}\n{head}{calls}    output y = x |> global_avg_pool |> linear(10)\n}}\n"


def main(strokes: int = 400) -> None:
    """Print medians and tails, in milliseconds."""
    rng, source = random.Random(0), program()
    checker, text = Checker("many.arch"), source
    typed: list[tuple[float, float]] = []
    shaped: list[tuple[float, float]] = []
    for stroke in range(strokes):
        offset = rng.randrange(len(text))
        text = source if stroke % 5 == 4 else text[:offset] + rng.choice(["", "a", "(", "8", "|"]) + text[offset + 1 :]
        typed.append(_milliseconds(lambda text=text: checker.check_names(text)))
        if stroke % 20 == 19:
            typed_net = View(source, "many.arch")
            shaped.append(_milliseconds(lambda view=typed_net: nets.shape_hints(view, nets.nets(view))))
    print(f"{source.count(chr(10))} lines, {strokes} keystrokes")
    for index, clock in enumerate(("", ", processor time")):
        times = [sample[index] for sample in typed]
        tail = quantiles(times, n=100)[98]
        print(f"words and names{clock}: median {median(times):.0f} ms, 99% within {tail:.0f} ms")
        times = [sample[index] for sample in shaped]
        print(f"shapes{clock}: median {median(times):.0f} ms, at most {max(times):.0f} ms")


def _milliseconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the milliseconds of a call: on the clock, and of the processor."""
    begin = time.perf_counter(), time.process_time()
    work()
    return 1e3 * (time.perf_counter() - begin[0]), 1e3 * (time.process_time() - begin[1])


if __name__ == "__main__":
    main()
