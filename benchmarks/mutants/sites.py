"""Where a source file can be changed by one token, and to what.

Constants move by one or a quarter, comparisons move their edge or turn round, signs and
arithmetic change, "and" becomes "or". Text, comments, annotations and messages stay.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Site:
    """A place in a text, and what could stand there instead."""

    start: int
    end: int
    choices: tuple[str, ...]


OPERATORS = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"),
    "==": ("!=",), "!=": ("==",), "is": ("is not",), "is not": ("is",), "in": ("not in",),
    "not in": ("in",), "and": ("or",), "or": ("and",), "&&": ("||",), "||": ("&&",),
    "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "//": ("*",), "%": ("*",), "**": ("*",),
    "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "<<": (">>",), ">>": ("<<",),
    "<<=": (">>=",), ">>=": ("<<=",), "++": ("--",), "--": ("++",), "&": ("|",), "|": ("&",),
    "^": ("|",), "&=": ("|=",), "|=": ("&=",), "^=": ("|=",),
}  # fmt: skip


def sites(path: Path | str, text: str) -> list[Site]:
    """Return the places of a file, in order."""
    found = of_python(text) if str(path).endswith(".py") else of_c(text, str(path))
    return sorted(found, key=lambda site: site.start)


# ---- Python, by its syntax tree


def of_python(text: str) -> Iterator[Site]:
    """Yield the places of a Python file."""
    starts = [0]  # of lines, in bytes, as the tree counts columns
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for start, end, choices in _of_node(ast.parse(text), text.encode(), starts):
        before = text.encode()[:start].decode()
        inside = text.encode()[start:end].decode()
        yield Site(len(before), len(before) + len(inside), choices)


Found = Iterator[tuple[int, int, tuple[str, ...]]]


def _of_node(node: ast.AST, text: bytes, starts: list[int]) -> Found:
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.FunctionDef) and any(
        isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list
    ):
        return  # it never runs

    def begin(n: ast.expr) -> int:
        return starts[n.lineno - 1] + n.col_offset

    def end(n: ast.expr) -> int:
        assert n.end_lineno is not None
        assert n.end_col_offset is not None
        return starts[n.end_lineno - 1] + n.end_col_offset

    def between(left: ast.expr, right: ast.expr) -> Found:
        gap = re.sub(rb"#[^\n]*", lambda m: b" " * len(m[0]), text[end(left) : begin(right)])
        operator = re.search(rb"\b(?:is\s+not|not\s+in|is|in|and|or)\b|[-+*/%<>=!]+", gap)
        name = " ".join(operator[0].decode().split()) if operator else ""
        if operator and name in OPERATORS:
            yield end(left) + operator.start(), end(left) + operator.end(), OPERATORS[name]

    if isinstance(node, ast.Compare):
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            yield from between(left, right)
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from between(left, right)
    elif isinstance(node, ast.BinOp):
        yield from between(node.left, node.right)
    elif isinstance(node, ast.AugAssign):
        yield from between(node.target, node.value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield begin(node), begin(node) + (3 if isinstance(node.op, ast.Not) else 1), ("",)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        literal = text[begin(node) : end(node)].decode()
        yield begin(node), end(node), _other_number(literal)
    for child in _children(node):
        yield from _of_node(child, text, starts)


def _children(node: ast.AST) -> Iterable[ast.AST]:
    """Return what may be changed below: no annotation, no decorator, no `TYPE_CHECKING`."""
    skipped = {"annotation", "returns", "decorator_list"}
    for name, value in ast.iter_fields(node):
        if name not in skipped:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child


def _other_number(literal: str) -> tuple[str, ...]:
    if literal in ("True", "False"):
        return ("False" if literal == "True" else "True",)
    return _other_literal(literal.replace("_", ""))


def _other_literal(literal: str) -> tuple[str, ...]:
    """Return neighbours of a number of either language: n + 1, n - 1; a quarter more or less."""
    digits, suffix = re.fullmatch(r"(.*?)([uUlL]*)", literal).groups()  # type: ignore[union-attr]
    hexadecimal = re.fullmatch(r"(0x[0-9a-fA-F.]+p)([+-]?\d+)", digits)
    if hexadecimal:  # of bounds of errors, mostly: a factor of 2 hides in their slack
        mantissa, exponent = hexadecimal.groups()
        return tuple(f"{mantissa}{int(exponent) + step}" for step in (8, -8))
    if re.fullmatch(r"0[xo][0-9a-fA-F]+|\d+", digits):
        n = int(digits, 0)
        return tuple(f"{m}{suffix}" for m in (n + 1, n - 1) if m >= 0)
    x = float(digits)
    return (repr(x * 1.25), repr(x * 0.75)) if x else ("1.0",)


# ---- C and Cython, by tokens

_COMMON = r"""
  | (?P<number> 0x[0-9a-fA-F.]+(?:p[+-]?\d+)?[uUlL]* | \d[\d.]*(?:[eE][+-]?\d+)?[uUlL]* )
  | (?P<word> [A-Za-z_]\w* )
  | (?P<operator> <<= | >>= | -> | \+\+ | -- | && | \|\| | << | >> | [-+*/%&|^<>=!]= | // | \*\*
      | [-+*/%<>=!&|^~?:;,.(){}\[\]] )
"""
_STRING = r""" "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' """
C_TOKEN = re.compile(
    rf"""(?P<skip> //[^\n]* | /\*.*?\*/ | {_STRING} | ^[ \t]*\#(?:[^\\\n]|\\.)* )""" + _COMMON,
    re.S | re.M | re.X,
)
CYTHON_TOKEN = re.compile(
    rf'''(?P<skip> \#[^\n]* | """.*?""" | {_STRING} | <[\w ]+\**> | \[[:1, ]+\] | except[ ]-?\d+
      | ^[ \t]*(?:from|c?import|raise|ctypedef|include)\b[^\n]* )'''
    + _COMMON,
    re.S | re.M | re.X,
)
TYPES = re.compile(r"\w+_t|dptk_\w+|const|void|char|int|long|double|float|struct|unsigned|object")
BINARY = {"<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "//", "**"}


def of_c(text: str, path: str) -> Iterator[Site]:
    """Yield the places of a C or Cython file; a few of them don't compile when changed."""
    pattern = CYTHON_TOKEN if path.endswith(".pyx") else C_TOKEN
    tokens = [m for m in pattern.finditer(text) if m.lastgroup != "skip" or m[0][0] in "\"'<["]
    for at, token in enumerate(tokens):
        before, after = (tokens[i] if 0 <= i < len(tokens) else None for i in (at - 1, at + 1))
        choices: tuple[str, ...] = ()
        if token.lastgroup == "number":
            choices = _other_literal(token[0])
        elif token.lastgroup == "word":
            choices = _word(token[0]) if path.endswith(".pyx") else ()
        elif token.lastgroup == "operator":
            choices = _operator(token[0], before, after)
        if choices:
            yield Site(token.start(), token.end(), choices)


def _word(word: str) -> tuple[str, ...]:
    if word in ("True", "False"):
        return _other_number(word)
    return {"and": ("or",), "or": ("and",), "not": ("",)}.get(word, ())


def _operator(name: str, before: re.Match | None, after: re.Match | None) -> tuple[str, ...]:
    if name in BINARY and not (_operand(before, "])") and _operand(after, "([-!~*&")):
        negated = name == "-" and _operand(after, "(") and not _operand(before, "])")
        return ("",) if negated else ()
    return ("",) if name == "!" else OPERATORS.get(name, ())


def _operand(token: re.Match | None, brackets: str) -> bool:
    """Tell whether a value can end, or begin, here."""
    if token is None:
        return False
    if token.lastgroup == "word":
        return not TYPES.fullmatch(token[0]) and token[0] not in ("return", "sizeof", "else")
    return token.lastgroup == "number" or token[0] in brackets
