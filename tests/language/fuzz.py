"""Nearly valid programs: examples and other programs with their words and brackets moved.

python -m tests.language.fuzz FIRST LAST runs the seeds from FIRST up to LAST and prints those that fail. Every seed
stands for one program, so seeds can be distributed over processes, and a run can be continued.
"""

from __future__ import annotations

import random
import resource
import sys
import time
import traceback
from functools import cache
from pathlib import Path

from lark import Token

import archir.ops  # noqa: F401  (declares the operations)
from archir.api import analysis
from archir.costs.extremes.witnesses import Extreme
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import work_budget
from archir.ir.op import OPS
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate, survey
from archir.language.formatter import canonical
from archir.language.syntax.parse import tokens
from archir.spaces.space import Space
from tests.conftest import EXAMPLES, ROOT
from tests.language.bombs import BOMBS

LIMITS = Limits(nodes=2_000, work=100_000)
MAX_SECONDS, MAX_MEBIBYTES = 5.0, 1024
NUMBERS = [
    "0", "1", "2", "-1", "3", "7", "8", "1/2", "0.5", "1e300", "1e-300", "10 ** 400", "2 ** 63", "2 ** 62",
    "-(2 ** 64)", "1/10 ** 400", "1K", "5ms", "100_000", "99999999999999999999", "[1, 2]", "0..3", "0..10 ** 12",
    "none", "true", '"a"',
]  # fmt: skip
WORDS = [
    "+", "-", "*", "/", "//", "%", "**", "==", "<", "in", "not", "and", "or", "if", "else", "for", "choose", "match",
    "own", "of", "where", "require", "repeat", "return", "..", "|>", "=", ",", ":", ".", "=>", "|", "\n", "len", "sum",
    "sorted", "zip", "str", "list", "round_to", "log2", "sqrt", "min", "enumerate", "params", "macs", "peak_bytes",
    "x", "image",
]  # fmt: skip
NOISE = [
    "\r\n",
    "\r",
    "\t",
    "\f",
    "\0",
    "\ufeff",
    "\u00e9",
    "\U0001f600",
    "# } |>\r\n",
    "#\n",
    '"',
    "\u2028",
    "\x1b[31m",
]
PAIRS = {"(": ")", "[": "]", "{": "}"}


@cache
def originals() -> list[tuple[str, Path | None]]:
    """Return programs to mutate, and their folders; a bomb is as frequent as an example."""
    files = sorted(EXAMPLES.rglob("*.arch")) + sorted((ROOT / "archir" / "language" / "std").glob("*.arch"))
    wrong = sorted((ROOT / "tests" / "language").glob("*/*.arch"))
    small = [(text, None) for text in BOMBS.values() if len(text) < 2_000]
    return [(f.read_text("utf-8", "replace"), f.parent) for f in files + wrong] + small


@cache
def words(text: str) -> list[str]:
    """Return the words of a program, including line breaks; a text that cannot be tokenised is split at blanks."""
    try:
        token_list: list[Token] = tokens(text)
    except Exception:  # no program yet, but something to mutate
        return text.split(" ")
    return ["\n" if token.type == "_NL" else str(token) for token in token_list]


def program(seed: int) -> tuple[str, Path | None]:
    """Return the program of a seed, and its folder."""
    rng = random.Random(seed)
    text, folder = rng.choice(originals())
    word_list = list(words(text))
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        _mutate(word_list, rng)
    text = " ".join(word_list)
    if rng.random() < 0.1:
        text = text.replace("\n", rng.choice(("\r\n", "\n\r\n", " # c }\r\n")))
    if rng.random() < 0.1:
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(NOISE) + text[place:]
    return text, folder


def _mutate(word_list: list[str], rng: random.Random) -> None:
    """Change a list of words in place."""
    if not word_list:
        return
    i, j = rng.randrange(len(word_list)), rng.randrange(len(word_list))
    a, b = _subtree(word_list, i), _subtree(word_list, j)
    match rng.randrange(9):
        case 0:
            del word_list[a]
        case 1:
            word_list[i:i] = word_list[b]
        case 2:
            word_list[a] = word_list[b]
        case 3:
            word_list[i], word_list[j] = word_list[j], word_list[i]
        case 4 | 5:
            places = [k for k, word in enumerate(word_list) if word[:1].isdigit()] or [i]
            word_list[rng.choice(places)] = f"({rng.choice(NUMBERS)})"
        case 6:
            names = [k for k, word in enumerate(word_list) if word.isidentifier()] or [i]
            word_list[rng.choice(names)] = word_list[rng.choice(names)]
        case 7:
            names = [k for k, word in enumerate(word_list) if word in OPS] or [i]
            word_list[rng.choice(names)] = rng.choice(sorted(OPS))
        case _:
            word_list[i] = rng.choice(WORDS + NUMBERS)


def _subtree(word_list: list[str], start: int) -> slice:
    """Return the range of a word, or of a bracket with its content."""
    closing = PAIRS.get(word_list[start])
    depth = 0
    for end in range(start, len(word_list)):
        depth += (word_list[end] == word_list[start]) - (word_list[end] == closing)
        if closing is None or depth == 0:
            return slice(start, end + 1)
    return slice(start, start + 1)


def survives(text: str, folder: Path | None) -> str:
    """Parse, infer, count, sample, cost, print and format a program, and return the stage that it reached."""
    try:
        with work_budget(LIMITS.work):
            nets, said = survey(text, "fuzz.arch", folder=folder)
            str(said)
            laid_out = canonical(text)
            assert canonical(laid_out) == laid_out, "formatting a formatted program changes it"
    except ArchError as error:
        str(error)
        return "refused"
    stage = "library"
    for net in nets[:2]:
        with work_budget(LIMITS.work):
            try:
                graph = elaborate(text, "fuzz.arch", folder=folder, net=net, limits=LIMITS)
                stage = "net"
                analysis.print_graph(graph)
                space = Space(graph)
                architecture = space.sample(random.Random(0))
                assert architecture.to_json(graph.parameters)
                analysis.cost(space.specialize(architecture))
                for name in space.account.summed:
                    bound: tuple[Extreme, ...] = tuple(space.account.extremes(name))
                    str([extreme.value for extreme in bound])
                stage = "space"
            except ArchError as error:
                str(error)
    return stage


def failure(seed: int) -> str | None:
    """Return the error of the program of a seed, None if it is handled correctly."""
    text, folder = program(seed)
    begin = time.process_time()
    try:
        survives(text, folder)
    except Exception:
        return traceback.format_exc(limit=-6)
    seconds = time.process_time() - begin
    return f"{seconds:.1f} s of processor time" if seconds > MAX_SECONDS else None


def main(first: int, last: int) -> int:
    """Run seeds, and return the number of failures."""
    failures = 0
    for seed in range(first, last):
        before = _mebibytes()
        wrong = failure(seed)
        if wrong is None and _mebibytes() - before > MAX_MEBIBYTES:
            wrong = f"{_mebibytes() - before} MiB"
        if wrong is not None:
            failures += 1
            print(f"seed {seed}: {wrong}", flush=True)
        if seed % 1000 == 999:
            print(f"# {seed + 1}: {failures} failures, {_mebibytes()} MiB", file=sys.stderr, flush=True)
    return failures


def _mebibytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(min(1, main(int(sys.argv[1]), int(sys.argv[2]))))
