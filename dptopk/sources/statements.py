"""The statement that has a database count: distinct users per item, in one query.

`dptopk sql` prints it, `Histogram.from_sql` runs it. Each rule is a step of its own, in
the order of `dptopk.sources.rules`, and only rows of the result leave the database.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from dptopk.accounting.weights import ONE
from dptopk.sources.bounds import rank_sql
from dptopk.sources.bounds import text as text_of
from dptopk.sources.column_types import storage
from dptopk.sources.dialects import DIALECTS, Dialect, name_of, packed, text_literal
from dptopk.sources.labels import Kind, is_unicode
from dptopk.sources.on_duckdb import form_of, listed
from dptopk.sources.rules import Rules

__all__ = ["Kinds", "Source", "counting", "refused_for", "source_of"]

Kinds = Sequence[Kind | None]


class Source(NamedTuple):
    """Where rows come from, and how the columns are named there.

    Attributes
    ----------
    dialect : str
    text : str
        What stands behind FROM.
    names : tuple of str
        Of the columns: user and item, and those of groups.
    """

    dialect: str
    text: str
    names: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns in SQL."""
        return [f"source.{name_of(DIALECTS[self.dialect], name)}" for name in self.names]

    @property
    def keys(self) -> list[str]:
        """What the keys of these columns are called in a statement."""
        return ["u", "i", *(f"g{place}" for place in range(len(self.names) - 2))]


def source_of(
    dialect: str, query_or_table: str | Sequence[str], user: str, item: str, *by: str
) -> Source:
    """Return a table, or a query that the user wrote, as a source.

    A table's name has no white space and no bracket, and dots part it; as a sequence of its
    parts it may have any. All else is a query.

    Raises
    ------
    ImportError
        It is a query, and sqlglot is not installed.
    TypeError, ValueError
        Neither a name nor one query.

    Examples
    --------
    >>> print(source_of("postgres", "shop.visits", "who", "what").text)
    "shop"."visits"
    >>> print(source_of("postgres", "SELECT 1 AS a, 2 AS b;  -- all", "a", "b").text)
    (
    SELECT 1 AS a, 2 AS b
    )
    """
    for column, name in (("user", user), ("item", item)):
        if not isinstance(name, str):
            raise TypeError(f"{column} must be the name of a column, got {type(name).__name__}")
    names = (user, item, *by)
    if user == item:
        raise ValueError("user and item must be two different columns")
    if len(set(names)) < len(names):
        raise ValueError("user, item and by must be different columns")
    if isinstance(query_or_table, str):
        if any(c.isspace() or c in "();" for c in query_or_table):
            query = _one_query(dialect, query_or_table)
            return Source(dialect, f"(\n{query}\n)", names)
        parts = query_or_table.split(".")
    elif isinstance(query_or_table, Sequence) and not isinstance(query_or_table, bytes):
        parts = list(query_or_table)
    else:
        raise TypeError(
            "query_or_table must be the text of a query, the name of a table or a sequence of "
            f"its parts, got {type(query_or_table).__name__}"
        )
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise ValueError("the name of a table must not be empty")
    return Source(dialect, name_of(DIALECTS[dialect], *parts), names)


def _one_query(dialect: str, text: str) -> str:
    """Return the query without what follows its end."""
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
        from sqlglot.tokens import TokenType
    except ImportError:
        raise ImportError(
            "a query of your own is checked by sqlglot: pip install 'dptopk[sql]'; "
            "the name of a table needs none"
        ) from None
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except SqlglotError:
        tokens = None
    if tokens is None:
        raise ValueError("the query can't be read: a quote or a comment has no end")
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    depth = 0
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.SEMICOLON:
            raise ValueError("the query must be one statement, and a ; parts it")
        if depth < 0:
            break
    if depth:
        raise ValueError("the brackets of the query don't match")
    if not tokens:
        raise ValueError("the query is empty")
    return text[: tokens[-1].end + 1].strip()


# ---- the whole


def counting(
    source: Source,
    kinds: Kinds,
    rules: Rules,
    *,
    only: Sequence[Any] | None = None,
    limit: int | None = None,
) -> str:
    """Return the statement: items, what they count, and whether rows had to be refused.

    Parameters
    ----------
    source : Source
    kinds : pair of Kind or None
        Of users and items.
    rules : Rules
    only : sequence of keys, optional
        Items to count; the others are ignored, before any bound.
    limit : int, optional
        How many rows are to come: those of the largest counts, then of the first items.
        Without it all come, by item.

    Returns
    -------
    str
        Its rows are `item`, `users` (`weights` under a soft cap) and, unless no row can
        be refused, `refused`: 0, or a code (`refused_for`). Those that are not 0 come first.
    """
    dialect = DIALECTS[source.dialect]
    wrong = wrong_rows(source, kinds, rules)
    bad = ["bad"] if wrong else []
    steps = [("events", events(dialect, source, kinds))]
    steps.append(("pairs", _pairs(dialect, kinds, rules, wrong, only)))
    if rules.max_items_per_user is not None:
        steps += _bounded(dialect, kinds, rules, bad)
    if rules.weighting is not None:
        steps += weighed(dialect, *rules.weighting, steps[-1][0], ["i", *bad])
    total = "count(*)" if rules.weighting is None else "sum(weight)"
    name = "users" if rules.weighting is None else "weights"
    columns = [
        f"{shown(dialect, kinds[1])} AS item",
        f"CAST({total} AS {dialect.integer}) AS {name}",
    ]
    order = ["i"] if limit is None else [f"{total} DESC", "i"]
    if wrong:
        columns.append("max(bad) AS refused")
        order.insert(0, "max(bad) DESC")
    return whole(
        dialect,
        steps,
        columns,
        ["GROUP BY i", f"ORDER BY {', '.join(order)}"] + [f"LIMIT {limit}"] * (limit is not None),
    )


def whole(
    dialect: Dialect, steps: Sequence[tuple[str, str]], columns: Sequence[str], rest: Sequence[str]
) -> str:
    """Return a statement of steps, and what is asked of the last one."""
    tables = ",\n".join(f"{step_name(step)} AS (\n{text}\n)" for step, text in steps)
    asked = [f"SELECT {', '.join(columns)}", f"FROM {step_name(steps[-1][0])}", *rest]
    return "\n".join([f"WITH {tables}", *asked, *[dialect.end] * bool(dialect.end)])


def step_name(step: str) -> str:
    """Return a name that no table of the user's query has."""
    return f"dptopk_{step}"


def select(columns: Sequence[str], source: str, *rest: str) -> str:
    """Return a step, indented."""
    lines = [f"SELECT {', '.join(columns)}", f"FROM {source}", *rest]
    return "\n".join(f"  {line}" for line in lines)


def shown(dialect: Dialect, kind: Kind | None, key: str = "i") -> str:
    """Return a key in the form in which it comes out."""
    return dialect.shown.get(kind.name if kind else "", "{}").format(key)


# ---- its steps


def events(dialect: Dialect, source: Source, kinds: Kinds) -> str:
    """Return the step that makes columns keys."""
    forms = [dialect.keys.get(form_of(kind), "{}") if kind else "{}" for kind in kinds]
    columns = zip(forms, source.columns, source.keys, strict=True)
    keys = ",\n    ".join(f"{form.format(column)} AS {key}" for form, column, key in columns)
    # As it was written: it may have texts of several lines.
    return f"  SELECT\n    {keys}\n  FROM {source.text} AS source"


def wrong_rows(source: Source, kinds: Kinds, rules: Rules) -> list[tuple[str, int]]:
    """Return what rows are refused for, each with its code; see `refused_for`."""
    other, wrong = DIALECTS[source.dialect].other, []
    for place, (kind, key) in enumerate(zip(kinds, source.keys, strict=True)):
        if rules.nulls == "error":
            wrong.append((f"{key} IS NULL", 1 << place))
        if other and kind is not None:
            wrong.append((other.format(key, storage(kind)), 1 << place + len(kinds)))
    return wrong


def code_of(wrong: Sequence[tuple[str, int]]) -> str:
    """Return the code of a row."""
    return " + ".join(f"CASE WHEN {test} THEN {code} ELSE 0 END" for test, code in wrong)


def refused_for(code: int, source: Source) -> tuple[str, bool]:
    """Return the first column that a code of `refused` blames, and whether for a null.

    The code is the sum of a power of two for each column that has a null; then, in SQLite,
    of one for each that has values of another type than the column.
    """
    first = (code & -code).bit_length() - 1
    return source.names[first % len(source.names)], first < len(source.names)


def _pairs(
    dialect: Dialect,
    kinds: Kinds,
    rules: Rules,
    wrong: list[tuple[str, int]],
    only: Sequence[Any] | None,
) -> str:
    """Return distinct pairs, or those of enough rows; refused ones always."""
    tests = [test for test, _ in wrong]
    code = code_of(wrong)
    columns = ["u", "i"] + [f"max({code}) AS bad"] * bool(wrong)
    where = []
    if rules.nulls == "drop":
        where.append("u IS NOT NULL AND i IS NOT NULL")
    if only is not None:
        where.append("(" + " OR ".join([among(dialect, kinds[1], only), *tests]) + ")")
    rest = ["WHERE " + " AND ".join(where)] if where else []
    rest.append("GROUP BY u, i")
    if rules.min_events > 1:
        enough = [f"count(*) >= {rules.min_events}"] + [f"max({code}) > 0"] * bool(wrong)
        rest.append("HAVING " + " OR ".join(enough))
    return select(columns, step_name("events"), *rest)


def _bounded(dialect: Dialect, kinds: Kinds, rules: Rules, bad: list[str]) -> list[tuple[str, str]]:
    """Return the steps that keep so many items of each user; see `dptopk.sources.bounds`."""
    rank = rank_sql(dialect.words, (kinds[0], kinds[1]), "u", "i", rules.hash_key)
    nth = f"row_number() OVER (PARTITION BY u ORDER BY {rank}, i)"
    return cut("kept", ["u", "i", *bad], "pairs", nth, rules.max_items_per_user)


def cut(
    step: str, columns: list[str], source: str, nth: str, most: int | None
) -> list[tuple[str, str]]:
    """Return the steps that keep the first so many rows by a number; refused ones always."""
    kept = " OR ".join([f"nth <= {most}"] + ["bad > 0"] * ("bad" in columns))
    numbered = f"numbered_{step}"
    return [
        (numbered, select([*columns, f"{nth} AS nth"], step_name(source))),
        (step, select(columns, step_name(numbered), f"WHERE {kept}")),
    ]


def weighed(
    dialect: Dialect, soft_cap: int, norm: str, source: str, columns: list[str]
) -> list[tuple[str, str]]:
    """Return the steps that give each pair its weight; see `dptopk.sources.weighting`."""
    bound = ONE * ONE * soft_cap if norm == "l2" else ONE * soft_cap
    ratio = f"CAST({bound} AS {dialect.double}) / items"
    guess = f"CAST(round({f'sqrt({ratio})' if norm == 'l2' else ratio}) AS {dialect.integer})"
    power = "{0} * {0} * items" if norm == "l2" else "{0} * items"
    weight = (
        f"CASE WHEN items <= {soft_cap} THEN {ONE} "
        f"WHEN {power.format('(guess + 1)')} <= {bound} THEN guess + 1 "
        f"WHEN {power.format('guess')} > {bound} THEN guess - 1 ELSE guess END"
    )
    items = "count(*) OVER (PARTITION BY u) AS items"
    return [
        ("counted", select([*columns, items], step_name(source))),
        ("guessed", select([*columns, "items", f"{guess} AS guess"], step_name("counted"))),
        ("weighed", select([*columns, f"{weight} AS weight"], step_name("guessed"))),
    ]


# ---- a domain


def among(dialect: Dialect, kind: Kind | None, only: Sequence[Any]) -> str:
    """Return the test whether an item is one of these."""
    if kind is not None and kind.name == "text":  # what no text of theirs can be
        nul = dialect is DIALECTS["postgres"]
        only = [key for key in only if is_unicode(key) and not (nul and "\0" in key)]
    if not only or kind is None:
        return "1 = 0"
    if dialect is DIALECTS["duckdb"]:  # which takes minutes to plan so many values
        return f"i IN ({listed(list(only), _duckdb_type(kind))})"
    values = ", ".join(key_literal(dialect, kind, key) for key in only)
    return f"{shown(dialect, kind)} IN ({values})"


def _duckdb_type(kind: Kind) -> str:
    """Return a type of keys of this kind, wide enough for all."""
    if kind.name == "decimal":
        return DIALECTS["duckdb"].decimal.format(*kind.limits or ())
    if kind.name == "integer":
        return "UHUGEINT" if kind.limits and kind.limits[0] == 0 else "HUGEINT"
    return _DUCKDB_TYPES.get(kind.name, "BIGINT")


_DUCKDB_TYPES = {
    "text": "VARCHAR",
    "uuid": "VARCHAR",
    "float": "DOUBLE",
    "boolean": "BOOLEAN",
    "bytes": "BLOB",
}


def key_literal(dialect: Dialect, kind: Kind, key: Any) -> str:
    """Return a key as it is shown."""
    if isinstance(key, str):
        return text_literal(dialect, key)
    if isinstance(key, bytes):
        return dialect.bytes_of_hex.format(key.hex())
    if isinstance(key, Decimal):
        if kind.name in dialect.shown:  # as a text, without zeros that mean nothing
            return f"'{text_of(kind, key)}'"
        return f"CAST('{key:f}' AS {dialect.decimal.format(*kind.limits or ())})"
    if not isinstance(key, float):
        return str(key).upper()
    return f"'{packed(key)}'" if kind.name in dialect.shown else _exact(dialect, key)


def _exact(dialect: Dialect, value: float) -> str:
    """Return a float by exact steps.

    SQLite and ClickHouse are not sure of the last digit when they read one.
    """
    if math.isinf(value):
        text = "9e999" if dialect.other else f"CAST('inf' AS {dialect.double})"
        return text if value > 0 else f"-{text}"
    fraction, exponent = math.frexp(value)
    text, exponent = f"CAST({int(fraction * 2**53)} AS {dialect.double})", exponent - 53
    while exponent:
        step = min(abs(exponent), 62)
        text += f" {'*' if exponent > 0 else '/'} {2**step}"
        exponent -= step if exponent > 0 else -step
    return text
