"""What a keystroke costs in an editor: words and names of a file of 300 lines, and the shapes of its net.

    python benchmarks/typing_speed.py

A character is typed, or taken away, at random places; after each, the text is read and its names are checked, as
`archir lsp` does. Shapes are proved after every twentieth.
"""

from __future__ import annotations

import random
import time
from statistics import median, quantiles

from archir.api.editor import nets
from archir.api.editor.checking import Place
from archir.api.editor.view import View

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
    place, text = Place("many.arch"), right
    typed, shaped = [], []
    for stroke in range(strokes):
        at = chance.randrange(len(text))
        text = right if stroke % 5 == 4 else text[:at] + chance.choice(["", "a", "(", "8", "|"]) + text[at + 1 :]
        begin = time.perf_counter()
        place.check_names(text)
        typed.append(1e3 * (time.perf_counter() - begin))
        if stroke % 20 == 19:
            begin = time.perf_counter()
            view = View(right, "many.arch")
            nets.shapes(view, nets.nets(view))
            shaped.append(1e3 * (time.perf_counter() - begin))
    print(f"{right.count(chr(10))} lines, {strokes} keystrokes")
    print(f"words and names: median {median(typed):.0f} ms, 99% within {quantiles(typed, n=100)[98]:.0f} ms")
    print(f"shapes: median {median(shaped):.0f} ms, at most {max(shaped):.0f} ms")


if __name__ == "__main__":
    main()
