"""Layout rules of the language: converts a bracket tree to a layout document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archir.language.formatter.doc import Braces, Comment, Doc, Group, IfBroken, Indent, Line, Newline, Row, is_tall
from archir.language.formatter.tokens import Bracket, Part, Piece, Word, first


@dataclass(frozen=True)
class Gap:
    """Trivia between two words: the trailing comment of the line, then comment lines; blank lines are empty strings."""

    comment: str = ""
    lines: tuple[str, ...] = ()
    has_newline: bool = False
    """True if the two words are on different lines."""

    @property
    def has_comments(self) -> bool:
        """True if the gap contains a comment."""
        return bool(self.comment) or any(self.lines)

    @property
    def comments(self) -> tuple[str, ...]:
        """Comments that have a line of their own."""
        return tuple(line for line in self.lines if line)


def gap(text: str) -> Gap:
    """Parse trivia text (spaces, newlines and comments) to a `Gap`; runs of blank lines are reduced to one."""
    if not text.strip(" "):
        return Gap()
    comment, *lines = (line.strip() for line in text.split("\n"))
    lines = lines[:-1]  # the last line is the indentation of the next word
    return Gap(comment, tuple(line for i, line in enumerate(lines) if line or i == 0 or lines[i - 1]), "\n" in text)


_DEFINITIONS = {"own", "block", "cell", "net"}
_BREAK_OPERATORS = [{"|>"}, {"if", "else"}, {"or"}, {"and"}, {"+", "-"}, {"*", "/", "//", "%"}]
"""Sets of operators before which a line inside brackets may break, loosest binding first.

Only the first set of which an operator occurs in the line is used.
"""


def file(content: Bracket) -> Doc:
    """Return the layout document of a file; it starts with line breaks, which the caller strips."""
    docs: list[Doc] = []
    for i, part in enumerate(content.parts):
        between = gap(part.before if i else "\n" + part.before)
        blank_before = i > 0 and (_defines(part) or _defines(content.parts[i - 1]))
        docs += [_comment(between), _lead(between, first=i == 0, blank_before=blank_before), _statement(part.pieces)]
    end = gap(content.end + "\n" if content.parts else "\n" + content.end + "\n")
    return [docs, _comment(end), _comments(end, first=not content.parts)]


def _defines(part: Part) -> bool:
    return first(part.pieces[0]).kind in _DEFINITIONS


def _statement(pieces: Sequence[Piece]) -> Doc:
    """Return the document of a statement; text between two bodies gets its own line, as in `if a {body} else
    {body}`."""
    docs: list[Doc] = []
    line: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Bracket) and piece.role == "body":
            docs += [_line(line), " ", _body(piece), " "]
            line = []
        else:
            line.append(piece)
    return [docs, _line(line)] if line else docs[:-1]


def _body(body: Bracket) -> Doc:
    docs: list[Doc] = []
    for i, part in enumerate(body.parts):
        between = gap(part.before)
        docs += [_comment(between), _lead(between, first=i == 0), _statement(part.pieces)]
    end = gap(body.end)
    docs += [_comment(end), _comments(end, first=not body.parts)]
    return ["{", Indent(docs), Newline(), "}"] if body.parts or end.has_comments else "{}"


def _line(pieces: Sequence[Piece], inside: bool = False, indented: bool = True) -> Doc:
    """Lay out pieces on one line, or broken before the loosest operators (outside of brackets, only `|>`).

    A `|>` chain that the author broke stays broken; other lines break only if they are too long. An unbroken chain that
    does not fit breaks before each `|>`. However, if the chain has a single `|>`, or if its author broke the brackets
    of its last call, the chain breaks in these brackets instead.
    """
    breaks = _break_positions(pieces, inside)
    if not breaks:
        return _unbroken(pieces)
    between = [gap(first(pieces[i]).before) for i in breaks]
    is_pipe = first(pieces[breaks[0]]).kind == "|>"
    by_author = is_pipe and any(break_gap.has_newline for break_gap in between)
    last = pieces[-1]
    hug = not inside and not by_author and isinstance(last, Bracket) and (len(breaks) == 1 or last.has_newline)
    tail: list[Doc] = []
    for break_gap, start, end in zip(between, breaks, [*breaks[1:], len(pieces)], strict=True):
        words = _unbroken(pieces[start:end], hug and end == len(pieces))
        if break_gap.has_comments:
            tail += [_comment(break_gap), _comments(break_gap), Newline(), words]
        elif by_author and not break_gap.has_newline:
            tail.append(Group([Line(" "), words], chain=True))
        else:
            tail += [Line(" "), words]
    return Group([_unbroken(pieces[: breaks[0]]), Indent(tail) if indented else tail], by_author, chain=True)


def _unbroken(pieces: Sequence[Piece], hug: bool = False) -> Doc:
    """Lay out pieces on one line, except where comments force breaks; with `hug`, a final bracket may break."""
    docs: list[Doc] = []
    for i, piece in enumerate(pieces):
        word = first(piece)
        between = gap(word.before)
        if i > 0 and between.has_comments:
            docs.append(Indent([_comment(between), _comments(between), Newline()]))
        elif i > 0 and word.spaced:
            docs.append(" ")
        docs.append(_bracket(piece, hug and i == len(pieces) - 1) if isinstance(piece, Bracket) else piece.text)
    return docs


def _break_positions(pieces: Sequence[Piece], inside: bool) -> list[int]:
    """Return the indices of the pieces before which the line may break."""
    kinds = [piece.kind if isinstance(piece, Word) and piece.spaced and not piece.unary else "" for piece in pieces]
    if "for" in kinds and inside:
        start = kinds.index("for")
        return [i for i, kind in enumerate(kinds) if kind == "for" or (kind == "if" and i > start)]
    allowed = _BREAK_OPERATORS if inside else _BREAK_OPERATORS[:1]
    words: set[str] = next((words for words in allowed if words & set(kinds)), set())
    return [i for i, kind in enumerate(kinds) if kind in words and i > 0]


def _bracket(bracket: Bracket, hug: bool = False) -> Doc:
    """Lay out a bracket: on one line, with its content on a line of its own, or with one element per line.

    If the author put several elements on each of several lines, the author's lines are kept instead of one element per
    line.
    """
    if bracket.role == "alternatives":
        return _alternatives(bracket)
    start, close = bracket.opened_by.text, bracket.closed_by
    end = gap(bracket.end)
    if not bracket.parts:
        return Group([start, _comment(end), Indent(_comments(end)), Line() if end.has_comments else "", close])
    if _holds_bracket(bracket):
        return [start, _line(bracket.parts[0].pieces), close]
    begin = gap(bracket.parts[0].before)
    inner = Group([_elements(bracket), _comment(end), *([Newline(), comment] for comment in end.comments)])
    above: list[Doc] = [[comment, Newline()] for comment in begin.comments]
    return Group([start, _comment(begin), Indent([Line(), above, inner]), Line(), close], hug=hug)


def _elements(bracket: Bracket) -> Doc:
    between = [gap(part.before) for part in bracket.parts[1:]]
    is_single = not between
    by_author = any(part_gap.has_newline for part_gap in between)
    docs: list[Doc] = [_line(bracket.parts[0].pieces, inside=True, indented=not is_single)]
    for part_gap, part in zip(between, bracket.parts[1:], strict=True):
        line = _line(part.pieces, inside=True)
        docs += [",", _comment(part_gap)]
        if by_author and not part_gap.has_newline:
            docs.append(Group([Line(" "), line]))
        else:
            docs += [Line(" "), [[comment, Newline()] for comment in part_gap.comments], line]
    if is_single and bracket.trailing_comma and bracket.role == "group" and bracket.closed_by == ")":
        return [docs, ","]
    if bracket.trailing_comma or not (is_single or by_author):
        docs.append(IfBroken(","))
    return Group(docs, broken=bracket.trailing_comma)


def _holds_bracket(bracket: Bracket) -> bool:
    """Return True if the content ends with a bracket that may open and close on the outer bracket's lines.

    Examples: `sum([...])`, `(x |> choose op {...})`.
    """
    if len(bracket.parts) > 1 or bracket.trailing_comma or gap(bracket.parts[0].before + bracket.end).has_comments:
        return False
    pieces = bracket.parts[0].pieces
    last = pieces[-1]
    return isinstance(last, Bracket) and (len(pieces) == 1 or last.role == "alternatives")


def _alternatives(bracket: Bracket) -> Doc:
    begin = gap(bracket.parts[0].before if bracket.parts else bracket.end)
    end = gap(bracket.end)
    after = [*(gap(part.before) for part in bracket.parts[1:]), end]
    rows = [
        _row(part, follows, first=i == 0)
        for i, (part, follows) in enumerate(zip(bracket.parts, after if bracket.parts else [], strict=True))
    ]
    tall = any(is_tall([row.key, row.value]) for row in rows)
    broken = bracket.has_newline or tall
    return Braces(rows, broken, [_comment(begin)], [_comments(end, first=not rows)])


def _row(part: Part, follows: Gap, first: bool) -> Row:
    words = [piece.kind if isinstance(piece, Word) else "" for piece in part.pieces]
    arrow = next(i for i, word in enumerate(words) if word in {":", "=>"})
    key, value = part.pieces[:arrow], part.pieces[arrow + 1 :]
    sign = ":" if words[arrow] == ":" else " =>"
    above = gap(part.before)
    return Row("" in above.lines, [_lead(above, first)], [_line(key), sign], _line(value), [_comment(follows)])


def _comment(between: Gap) -> Doc:
    """Return the trailing comment of the line before a gap; "" if there is none."""
    return Comment(between.comment) if between.comment else ""


def _comments(between: Gap, first: bool = False) -> Doc:
    """Return the comment lines of a gap, each after a line break; if `first`, without a blank line before them."""
    docs: list[Doc] = []
    blank = False
    for line in between.lines:
        if line:
            docs += [Newline(blank and not (first and not docs)), line]
        blank = not line
    return docs


def _lead(between: Gap, first: bool, blank_before: bool = False) -> Doc:
    """Return the comment lines and the line break before a statement.

    A blank line is included if `blank_before` is set or the author left one.
    """
    lines = ("", *between.lines) if blank_before and "" not in between.lines else between.lines
    blank = bool(lines) and not lines[-1] and not (first and not any(lines))
    return [_comments(Gap("", lines), first), Newline(blank)]
