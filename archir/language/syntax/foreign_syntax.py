"""Hints for syntax errors caused by syntax of other languages: what to write instead."""

from __future__ import annotations

import re
from collections.abc import Set

_COMMENT = "comments begin with `#`"
_DIVISION = f"{_COMMENT}; `//` divides and rounds down"
_STRING = 'strings are written "like this"'
_PIPE = "write `|>` for a pipe, `or` between conditions"
_IMPORT = 'write `import std.gates` or `import "layers.arch"`'
_LINES = "a line goes on inside of brackets, or with `|>` at the start of the next one"
_OUTSIDE = "blocks stand at the top of the file, outside of nets"
_TOP = "imports and constants stand at the top of the file"
_ELSE_IF = "write `} else if ... {`"
_INPUT = "write `input image: f32[3, 32, 32]`"
_COMPARISON = "comparison is `==`"

HintRule = tuple[str, str, str]
"""Hint for an error, and two regular expressions that must both match for the hint to apply.

The first expression is matched with the line before the error, the second with the line from the error on.
"""

_GENERAL_RULES: list[HintRule] = [
    ("//", "", _DIVISION),
    ("", "//", _DIVISION),
    ("/$", r"\*", _COMMENT),
    ("", r"/\*", _COMMENT),
    ('"?"?$', '"""?', _COMMENT),
    ("", "'", _STRING),
    (r"\b[frb]$", '"', "strings are plain: `+` joins them, `str` makes them of numbers"),
    ("", "[\u2018-\u201f]", _STRING),
    ("", "[\u2010-\u2015\u2212]", "this is a dash: write `-`"),
    ("", "&&?", "write `and`"),
    (r"\|$", r"\|", "write `or`"),
    ("", r"\|\|", "write `or`"),
    (r"\|$", "", _PIPE),
    ("", r"\|(?!>)", _PIPE),
    ("", "!(?!=)", "write `not`"),
    ("<$", ">", "write `!=`"),
    ("[=!]=$", "=", "comparison is `==` or `!=`"),
    (r"\)\s*-?$", "->?", "what a block returns is not declared: drop this"),
    ("[->]$", ">", "write `|>` for a pipe"),
    ("", "->", "write `|>` for a pipe"),
    (r"\}$", r"(elif|elsif|elseif)\b", _ELSE_IF),
    ("", ";", "statements end with the line"),
    ("", r"\^", "a power is `2 ** 3`"),
    ("", r"\?", "write `a if condition else b`"),
    ("", r"\\", _LINES),
    ("", "@", "tags follow the label of a choice; tensors are multiplied by `matmul(a, b)`"),
    (r"\.\.$", "[.=<]", "`0..3` is 0, 1, 2"),
    (r"(^|[^\w)\].])$", r"\.\d", "write `0.5`"),
    (r"\d\.$", r"[),\]]|$", "write `5.0`"),
    (r"\d$", r"\.(?!\.)", "write `5.0`, or `0..5` for a range"),
    (r"\bchoose(\s+\w+)?(\s+in)?\s*$", r"[\[(]", "write `choose width(8, 16)`, or `choose parts 2 of [a, b, c]`"),
    (r"\bchoose\s+@\w+(\s+\w+)?$", r"\w|[({]", "tags follow the label: `choose width @small(8, 16)`"),
    (r"\blambda$", "", "there are no functions inside of expressions: write a `block`"),
]
"""Rules tried first, independent of what the parser expects."""

_RULES_BY_PLACE: dict[str, list[HintRule]] = {
    "item": [
        ("^$", r"(def|func|fn|fun|function|class|module|model|layer)\b", "did you mean `block`?"),
        ("^$", r"(from|using|include|use|require)\b", _IMPORT),
        ("^$", r"(let|var|val|static|final)\b", "write `const NAME = 8`"),
        ("^$", r"(input|output|for|if|repeat|return|\w+\s*=)", "statements stand in a net or block; `const NAME = 8`"),
    ],
    "statement": [
        ("^$", r"(import|const)\b", _TOP),
        ("^$", r"(block|cell|net|own)\b", _OUTSIDE),
        ("^$", r"[+*/.%=<(-]", _LINES),
    ],
    "name": [
        (r"^\w+$", r"(\*\*?|//?|[+%-])=|\+\+|--", "write `x = x + 1`"),
        (r"^\w+\s*[+*/%-]$", r"[=+-]", "write `x = x + 1`"),
        (r"^(def|func|fn|fun|function|class|block|cell|net|own)$", "", _OUTSIDE),
        (r"^(import|const)$", "", _TOP),
        (r"^from$", "", _IMPORT),
        (r"^(let|var|val|auto|mut|set)$", "", "write `x = ...`"),
        (r"^(while|loop|do|until|foreach)$", "", "loops are `for i in 0..3 { ... }` and `repeat 3 { ... }`"),
        (r"^assert$", "", "write `require condition`: it leaves out the architectures that break it"),
        (r"^(print|echo|puts)$", "", "there is nothing to print while a net is made: `archir show` draws it"),
        (r"^(pass|break|continue|del|with|try|raise|yield|global)$", "", "the language has no such statement"),
        (r"^(elif|elsif|elseif)$", "", _ELSE_IF),
        (r"^else$", "", "`else` stands on the line of the closing brace: `} else {`"),
        (r"^\w+$", r"[.\[]", "nothing is changed in place: make a new value, such as `xs = xs + [y]`"),
        (r"^\w+$", ":=", "write `=` alone: `y = x |> relu`"),
        (r"^\w+$", ":", "values have no types: write `x = ...`"),
        ("", "", "a statement gives a value a name: `y = x |> relu`"),
    ],
    "in": [
        (r"^for\b", "", "write `for i in 0..3 { ... }`"),
        ("", "", "write `[f(x) for x in list]`"),
    ],
    "alternatives": [("", r"[\d\"]", "alternatives are written `name: value`, and names begin with a letter")],
    "alternative": [
        (r"^input\b", "", _INPUT),
        ("", "", "alternatives are written `name: value`"),
    ],
    "arm": [("", "", "arms are written `value => result`, the last one `else => result`")],
    "branch": [
        ("", "=(?!=)", _COMPARISON),
        ("", "$|:", "write both: `a if condition else b`"),
    ],
    "body": [
        (r"^(own\s+)?(block|cell|net)\b", "[:=]", "bodies stand in braces: `{` at the end of this line"),
        ("", "=(?!=)", _COMPARISON),
        ("^for", r":\s*\S|to\b|,", "a range is `0..3`"),
        ("^repeat", r"\w|,", "write `repeat 3 as i { ... }`"),
        (r"\belse$", r"\w", _ELSE_IF),
        ("", "$|:", "bodies stand in braces: `{` at the end of this line, `}` on one of its own"),
    ],
}  # fmt: skip
"""Rules tried second, by the grammar position in which the error occurs, as named by `_place`."""

_FALLBACK_RULES: list[HintRule] = [
    (r"^import\b", "", _IMPORT),
    (r"^(own\s+)?(block|cell)\s+\w+$", "", "write `block name(x, width = 8) { ... }`"),
    (r"^((own\s+)?(block|cell|net)\b.*)?\w$", ":", "only inputs have types: write `name` or `name = 8`"),
    (r"^for$", r"\(\w+\s*,", "write `for i, j in pairs { ... }`"),
    (r"^for$", r"\(", "write `for i in 0..3 { ... }`"),
    (r"^input(\s+\w+(\s*:\s*\w*)?)?\s*$", "", _INPUT),
    (r"^output(\s+\w+)?\s*$", "", "write `output logits = x`"),
    (r"^require\b|\b(if|where|and|or|not)\b[^=]*$", "=(?!=)", _COMPARISON),
    (r"^\w+\s*=$", "=", "comparisons stand in conditions: `require a == b`; a statement gives a value a name"),
    ("=", "=(?!=)", "a line gives one value: write two"),
    ("", r"(is|eq|equals)\b", _COMPARISON),
    (r"\[[^\]]*$", ",", "one index at a time: `x.shape[0]`; of other axes `slice(0, 8, axis=1)`"),
    (r"\[[^\]]*:[^\]]*$", ":", "slices have no steps"),
    (r"[(,]\s*\w+$", ":", "arguments are written `name=value`"),
    (r"[(,]\s*$", r"\*\*?", "lists are not spread into arguments: write each"),
    (r"([=(,]|return)\s*$", r"\{", "there are no dictionaries: `match key { ... }` tells cases apart"),
    (r"([+*/%<=>-]|\b(and|or|not|in)|\|>)$", "$", _LINES),
    (r"\|>.*[\w)]$", r"[+*/%<>-]|[=!]=", "a pipe within an expression stands in brackets: `(x |> relu) + y`"),
    (r"\|>\s*\w+$", r"[\d\"]", "arguments stand in brackets: `conv(8)`"),
    (r"[\w)\]}]$", r"[A-Za-z_]\w*\s*=(?!=)", "statements end with the line, arguments with a comma"),
]
"""Rules tried last; most of them look at the whole line."""

_MAX_LINE = 400
"""Maximum number of characters matched before and after the error; only generated code has longer lines."""


def foreign_syntax_hint(expected: Set[str], before: str, here: str) -> str | None:
    """Return the hint for a syntax error; None if no rule matches.

    `before` is the line up to the error, `here` the line from the error on. `expected` are the terminals that the
    parser accepts at the error. A terminal is given by its spelling, or by its name if it has several spellings.
    """
    before, here = before.strip(), here.strip()
    if len(before) > _MAX_LINE:
        before = f" {before[-_MAX_LINE:]}"
    rows = [*_GENERAL_RULES, *_RULES_BY_PLACE.get(_place(expected), []), *_FALLBACK_RULES]
    for before_pattern, here_pattern, hint in rows:
        if re.match(here_pattern, here[:_MAX_LINE]) and re.search(before_pattern, before):
            return hint
    return None


_PLACES_BY_WORDS = {"name": {"=", ","}, "alternative": {":"}, "alternatives": {"NAME", "}", ","}, "in": {"in", ","}}
"""Grammar positions at which the parser accepts exactly these terminals; the comma is optional."""


def _place(expected: Set[str]) -> str:
    """Return the grammar position (a key of `_RULES_BY_PLACE`) at which these terminals are expected; "" if unknown."""
    for place, words in _PLACES_BY_WORDS.items():
        if expected <= words and words - {","} <= expected:
            return place
    if "else" in expected and "}" not in expected:
        return "branch"
    words_of = {"block": "item", "return": "statement", "=>": "arm", "{": "body"}
    return next((place for word, place in words_of.items() if word in expected), "")
