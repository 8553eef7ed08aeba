"""What a keystroke costs in an editor: words and names of a file of 300 lines, and the shapes of its net.

    python benchmarks/typing_speed.py

A character is typed, or taken away, at random places; after each, the text is read and its names are checked, as
`archir lsp` does. Shapes are proved after every twentieth. Processor time is what other work on the machine changes
least.
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
    """A net of 300 lines."""
    blocks = "".join(BLOCK.format(n=n) for n in range(STAGES))
    calls = "".join(f"    x = x |> stage_{n}\n" for n in range(STAGES))
    head = "net many {\n    input image: f32[3, 32, 32]\n    x = image |> conv(16)\n"
    return f"{blocks}\n{head}{calls}    output y = x |> global_avg_pool |> linear(10)\n}}\n"


def main(strokes: int = 400) -> None:
    """Print medians and tails, in milliseconds."""
    chance, right = random.Random(0), program()
    place, text = Checker("many.arch"), right
    typed: list[tuple[float, float]] = []
    shaped: list[tuple[float, float]] = []
    for stroke in range(strokes):
        at = chance.randrange(len(text))
        text = right if stroke % 5 == 4 else text[:at] + chance.choice(["", "a", "(", "8", "|"]) + text[at + 1 :]
        typed.append(_timed(lambda text=text: place.check_names(text)))
        if stroke % 20 == 19:
            typed_net = View(right, "many.arch")
            shaped.append(_timed(lambda view=typed_net: nets.shape_hints(view, nets.nets(view))))
    print(f"{right.count(chr(10))} lines, {strokes} keystrokes")
    for index, clock in enumerate(("", ", processor time")):
        times = [one[index] for one in typed]
        tail = quantiles(times, n=100)[98]
        print(f"words and names{clock}: median {median(times):.0f} ms, 99% within {tail:.0f} ms")
        times = [one[index] for one in shaped]
        print(f"shapes{clock}: median {median(times):.0f} ms, at most {max(times):.0f} ms")


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds that work takes: on the clock, and of the processor."""
    begin = time.perf_counter(), time.process_time()
    work()
    return 1e3 * (time.perf_counter() - begin[0]), 1e3 * (time.process_time() - begin[1])


if __name__ == "__main__":
    main()
