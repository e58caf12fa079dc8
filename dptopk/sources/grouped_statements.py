"""The statement that has a database count in each of many groups, in one query.

As `dptopk.sources.statements` for one histogram, and `dptopk.sources.grouped` for tables:
nulls, then items of a domain, then rows of enough events in a listed group; then each
user's groups, and each user's items in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dptopk.sources.bounds import rank_sql, text_sql
from dptopk.sources.dialects import DIALECTS, Dialect, text_literal
from dptopk.sources.groups import Groups, Listed
from dptopk.sources.labels import TEXT
from dptopk.sources.rules import Rules
from dptopk.sources.statements import (
    Kinds,
    Source,
    among,
    code_of,
    cut,
    events,
    key_literal,
    select,
    shown,
    step_name,
    weighed,
    whole,
    wrong_rows,
)

__all__ = ["counting_in_groups"]


def counting_in_groups(
    source: Source,
    kinds: Kinds,
    rules: Rules,
    groups: Groups,
    listed: Listed | None,
    *,
    only: Sequence[Any] | None = None,
    limit: int | None = None,
) -> str:
    """Return the statement, whose rows are groups, items, what they count, and `refused`.

    Parameters
    ----------
    source, kinds, rules, only, limit
        As in `dptopk.sources.statements.counting`; `limit` holds in each group.
    groups : Groups
    listed : Listed or None
        The groups there are, which come as their places; None where they are read off
        the data, and come as their keys.

    Returns
    -------
    str
        Its rows stand group by group, as those of one histogram in each; but refused
        ones come first.
    """
    dialect = DIALECTS[source.dialect]
    wrong = wrong_rows(source, kinds, rules)
    bad = ["bad"] if wrong else []
    of_group = source.keys[2:] if listed is None else ["g"]
    rows = ["u", "i", *of_group]
    steps = [("events", events(dialect, source, kinds))]
    if listed is not None and listed.places:
        names = [*(f"k{place}" for place in range(len(listed.keys))), "g", "name"]
        steps.append((f"listed ({', '.join(names)})", _values(dialect, kinds, listed)))
    steps.append(("placed", _placed(dialect, source, kinds, wrong, listed, rules)))
    steps.append(("rows", _rows([*rows, "name"], dialect, kinds, only, rules, bad)))
    columns, last = [*rows, "name", *bad], "rows"
    for step, nth, most in _bounds(dialect, kinds, groups, rules, of_group):
        steps += cut(step, columns, last, nth, most)
        last = step
    total = "count(*)"
    if rules.weighting is not None:
        steps += weighed(dialect, *rules.weighting, last, [*of_group, "i", *bad])
        total, last = "sum(weight)", "weighed"
    top = [*of_group, "i"]
    sums = [f"CAST({total} AS {dialect.integer}) AS n", *["max(bad) AS bad"] * bool(bad)]
    steps.append(("tops", select([*top, *sums], step_name(last), f"GROUP BY {', '.join(top)}")))
    order = [*of_group, *["n DESC"] * (limit is not None), "i"]
    if limit is not None:
        nth = f"row_number() OVER (PARTITION BY {', '.join(of_group)} ORDER BY n DESC, i)"
        steps += cut("top", [*top, "n", *bad], "tops", nth, limit)
    shape = [shown(dialect, kind, key) for kind, key in zip(kinds[2:], of_group, strict=False)]
    keys = of_group if listed is not None else shape
    asked = [f"{key} AS by_{place}" for place, key in enumerate(keys)]
    asked += [f"{shown(dialect, kinds[1])} AS item"]
    asked += ["n AS users" if rules.weighting is None else "n AS weights"]
    asked += ["bad AS refused"] * bool(bad)
    order = ["bad DESC"] * bool(bad) + order
    return whole(dialect, steps, asked, [f"ORDER BY {', '.join(order)}"])


def _values(dialect: Dialect, kinds: Kinds, listed: Listed) -> str:
    """Return the groups' keys, as they are shown, with their places and names."""
    columns = []
    for place, keys in enumerate(listed.keys):
        kind = kinds[2] if listed.periods else kinds[2 + place]
        assert kind is not None  # or no group could be placed
        columns.append([key_literal(dialect, kind, key) for key in keys])
    columns.append(list(map(str, listed.places)))
    columns.append([text_literal(dialect, name) for name in listed.names])
    return "  VALUES " + ", ".join(f"({', '.join(row)})" for row in zip(*columns, strict=True))


def _placed(
    dialect: Dialect,
    source: Source,
    kinds: Kinds,
    wrong: Sequence[tuple[str, int]],
    listed: Listed | None,
    rules: Rules,
) -> str:
    """Return the step that gives each row its group; rows of no listed one go."""
    keys = source.keys[2:]
    code = [f"{code_of(wrong)} AS bad"] * bool(wrong)
    there = [f"{key} IS NOT NULL" for key in source.keys] if rules.nulls == "drop" else []
    if listed is None:
        name = _name_of_group(dialect, kinds[2:], keys)
        where = ["WHERE " + " AND ".join(there)] if there else []
        return select(["u", "i", *keys, f"{name} AS name", *code], step_name("events"), *where)
    if not listed.places:
        columns, join, placed = ["u", "i", "-1 AS g", "'' AS name"], [], "1 = 0"
    else:
        columns, placed = ["u", "i", "coalesce(g, -1) AS g", "coalesce(name, '') AS name"], "g >= 0"
        if listed.periods:
            at = f"{keys[0]} >= k0 AND {keys[0]} < k1"
        else:
            forms = [shown(dialect, kind, key) for kind, key in zip(kinds[2:], keys, strict=True)]
            at = " AND ".join(f"{form} = k{place}" for place, form in enumerate(forms))
        join = [f"LEFT JOIN {step_name('listed')} ON {at}"]
    kept = "(" + " OR ".join([placed, *(test for test, _ in wrong)]) + ")"
    where = ["WHERE " + " AND ".join([kept, *there])]
    return select([*columns, *code], step_name("events"), *join, *where)


def _name_of_group(dialect: Dialect, kinds: Kinds, keys: list[str]) -> str:
    """Return the text of a group that is not listed; as `bounds.text` of its label."""
    texts = [text_sql(dialect.words, kind, key) for kind, key in zip(kinds, keys, strict=True)]
    return texts[0] if len(texts) == 1 else "'(' || " + " || ',' || ".join(texts) + " || ',)'"


def _rows(
    columns: list[str],
    dialect: Dialect,
    kinds: Kinds,
    only: Sequence[Any] | None,
    rules: Rules,
    bad: list[str],
) -> str:
    """Return distinct rows, or those of enough events; refused ones always."""
    flags, refused = ["max(bad) AS bad"] * bool(bad), ["bad > 0"] * bool(bad)
    rest = []
    if only is not None:
        rest.append("WHERE " + " OR ".join([among(dialect, kinds[1], only), *refused]))
    rest.append(f"GROUP BY {', '.join(columns)}")
    if rules.min_events > 1:
        enough = [f"count(*) >= {rules.min_events}"] + ["max(bad) > 0"] * bool(bad)
        rest.append("HAVING " + " OR ".join(enough))
    return select([*columns, *flags], step_name("placed"), *rest)


def _bounds(
    dialect: Dialect, kinds: Kinds, groups: Groups, rules: Rules, of_group: list[str]
) -> list[tuple[str, str, int]]:
    """Return how many of which numbers are kept: of a user's groups, and of the items."""
    of_user, group, found = (kinds[0], TEXT), ", ".join(of_group), []
    if groups.cut_to is not None:
        rank = rank_sql(dialect.words, of_user, "u", "name", rules.hash_key)
        nth = f"dense_rank() OVER (PARTITION BY u ORDER BY {rank}, {group})"
        found.append(("in_groups", nth, groups.cut_to))
    if rules.max_items_per_user is not None:
        both = f"name || ':' || {text_sql(dialect.words, kinds[1], 'i')}"
        rank = rank_sql(dialect.words, of_user, "u", both, rules.hash_key)
        of = "u" if rules.weighting is not None else f"u, {group}"
        nth = f"row_number() OVER (PARTITION BY {of} ORDER BY {rank}, {group}, i)"
        found.append(("kept", nth, rules.max_items_per_user))
    return found
