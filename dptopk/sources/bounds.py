"""Which items a user keeps where only so many may count: one rule for every engine.

Of each user's distinct items those of least **rank** are kept, equal ranks in the
order of the items. The rank of a user and an item is, in lowercase hexadecimal, ::

    md5( md5(hash_key) + ":" + text(user) + ":" + text(item) )

of texts in UTF-8; the inner md5, in hexadecimal too, is `salt(hash_key)`. It depends
on nothing but the two values and the key. So neither another user nor the order of
rows has a say in what a user keeps, one user more moves as many counts as are kept,
and all engines keep the same. (To keep everybody's most popular items would let one
user move as many counts as there are users.) md5 is there because every database has
it; privacy needs no more of it than that it is a function.

What `text` is, by the kind of label (`dptopk.sources.labels`):

================  ==================================================================
text, UUIDs       as it is; UUIDs in lower case
integers          decimal digits: -12
booleans          true, false
bytes             lowercase hexadecimal
dates             the integer of days since 1970
timestamps        the integer of microseconds since 1970 (in UTC, if with a zone);
                  where they are not whole the nanoseconds, and an "n" after them
decimals          1.5, without zeros that mean nothing: -0.01, 100
floats            as the integer where they are whole and below 1e16, else as Python
                  writes them: 0.1, 1e-05, 1e+300. By Java before 19 Spark writes a
                  few with a digit too many, and may keep other items of such
tuples            their parts' texts, in round brackets, a comma after each
================  ==================================================================

Where there are groups, of each user's groups those of least rank are kept, by the text of
the user and that of the group, and then items by the texts of the user, the group and the
item. `kept` is the rule in plain Python. In SQL it is ``row_number() OVER (PARTITION BY user
ORDER BY rank, item) <= most`` over distinct pairs, `rank_sql` being the rank.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from hashlib import md5
from typing import Any, NamedTuple

from dptopk.sources.labels import Kind

__all__ = ["DUCKDB", "SPARK", "Words", "kept", "rank", "rank_sql", "salt", "text", "text_sql"]

_PER_SECOND = {"s": 6, "ms": 3, "us": 0}  # zeros that make microseconds of a unit


def salt(hash_key: str) -> str:
    """Return what stands first in each text that is hashed."""
    return _md5(hash_key)


def rank(hash_key: str, user: str, item: str) -> str:
    """Return the rank of an item for a user, both as `text`.

    Examples
    --------
    >>> rank("", "ann", "tea")
    'cca5fd0c62c76753c053b819b0a18a1d'
    """
    return _md5(f"{salt(hash_key)}:{user}:{item}")


def _md5(text: str) -> str:
    return md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def kept(
    pairs: Iterable[tuple[Any, Any]],
    kinds: tuple[Kind | None, Kind | None],
    most: int,
    hash_key: str = "",
) -> set[tuple[Any, Any]]:
    """Return those of distinct (user, item) pairs of keys that count.

    Examples
    --------
    >>> from dptopk.sources.labels import TEXT
    >>> pairs = {("ann", "tea"), ("ann", "jam"), ("ann", "ink"), ("bob", "ink")}
    >>> sorted(kept(pairs, (TEXT, TEXT), 1))
    [('ann', 'jam'), ('bob', 'ink')]
    >>> sorted(kept(pairs, (TEXT, TEXT), 1, hash_key="2024"))
    [('ann', 'tea'), ('bob', 'ink')]
    """
    of_user, of_item = kinds
    items_of: defaultdict[Any, list[Any]] = defaultdict(list)
    for user, item in pairs:
        items_of[user].append(item)
    left: set[tuple[Any, Any]] = set()
    for user, items in items_of.items():
        if len(items) > most:
            name = text(of_user, user)
            ranked = [(rank(hash_key, name, text(of_item, item)), item) for item in items]
            items = [item for _, item in heapq.nsmallest(most, ranked)]
        left.update((user, item) for item in items)
    return left


def text(kind: Kind | None, key: Any) -> str:
    """Return the text of a key; see above."""
    if kind is None:
        return ""
    if kind.name == "tuple":
        parts = zip(kind.parts, key, strict=True)
        return f"({''.join(f'{text(part, value)},' for part, value in parts)})"
    if kind.name == "boolean":
        return "true" if key else "false"
    if kind.name == "bytes":
        return bytes(key).hex()
    if kind.name.startswith("timestamp"):
        return _instant(kind.unit, int(key))
    if kind.name == "float":
        return str(int(key)) if abs(key) < 1e16 and key == int(key) else repr(float(key))
    if kind.name == "decimal":
        return _decimal(key)
    return str(key)


def _instant(unit: str, key: int) -> str:
    if unit != "ns":
        return str(key * 10 ** _PER_SECOND[unit])
    microseconds, rest = divmod(key, 1000)
    return f"{key}n" if rest else str(microseconds)


def _decimal(key: Decimal) -> str:
    if not key.is_finite() or abs(key.adjusted()) > 1000:  # of plain Python
        return str(key)
    digits = format(key, "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


# ---- in SQL


class Words(NamedTuple):
    """How a dialect of SQL says what the rank is made of; ``{}`` is a value.

    Attributes
    ----------
    text : str
        The value as text.
    integer : str
        A whole double as a 64-bit integer.
    hex : str
        Bytes in lowercase hexadecimal.
    decimal : str
        The text of a decimal that has digits after its point, without needless zeros.
    md5 : str
        The md5 of a text, in lowercase hexadecimal.
    double : str
        The text of a double that is not whole or large, where that is not as `text`.
    """

    text: str
    integer: str
    hex: str
    decimal: str
    md5: str
    double: str = ""


DUCKDB = Words(
    text="CAST({} AS VARCHAR)",
    integer="CAST({} AS BIGINT)",
    hex="lower(hex({}))",
    # It writes .50 where all digits stand after the point.
    decimal=r"rtrim(rtrim(regexp_replace({}, '^(-?)\.', '\10.'), '0'), '.')",
    md5="md5({})",
)
# Java writes 1.0E300 for 1e+300, and 1.23456785E7 for 12345678.5.
_JAVA = "CAST({0} AS STRING)"
_TEN = f"CAST(substring_index({_JAVA}, 'E', -1) AS INT)"
_DIGITS = f"substring_index({_JAVA}, 'E', 1)"
_SPARK_DOUBLE = (
    f"CASE WHEN abs({{0}}) = double('inf') THEN IF({{0}} < 0, '-inf', 'inf') "
    f"WHEN NOT contains({_JAVA}, 'E') THEN {_JAVA} "
    f"WHEN {_TEN} BETWEEN -4 AND 15 THEN trim(TRAILING '0' FROM "
    f"CAST(try_cast({_JAVA} AS DECIMAL(38, 20)) AS STRING)) "
    f"ELSE IF(endswith({_DIGITS}, '.0'), substring_index({_DIGITS}, '.', 1), {_DIGITS}) || 'e' || "
    f"IF({_TEN} < 0, '-', '+') || IF(abs({_TEN}) < 10, '0', '') || CAST(abs({_TEN}) AS STRING) END"
)
SPARK = Words(
    double=_SPARK_DOUBLE,
    text="CAST({} AS STRING)",
    integer="CAST({} AS BIGINT)",
    hex="lower(hex({}))",
    decimal="trim(TRAILING '.' FROM trim(TRAILING '0' FROM {}))",
    md5="md5({})",
)


def rank_sql(
    words: Words, kinds: tuple[Kind | None, Kind | None], user: str, item: str, hash_key: str = ""
) -> str:
    """Return the rank as an expression of SQL over two columns of keys.

    Keys are as `dptopk.sources.labels` has them: dates are integers of days,
    timestamps integers of their unit.

    Examples
    --------
    >>> from dptopk.sources.labels import INTEGER, TEXT
    >>> rank_sql(DUCKDB, (INTEGER, TEXT), "u", "i")
    "md5('d41d8cd98f00b204e9800998ecf8427e:' || CAST(u AS VARCHAR) || ':' || i)"
    """
    texts = (text_sql(words, kind, key) for kind, key in zip(kinds, (user, item), strict=True))
    whole = " || ':' || ".join(texts)
    return words.md5.format(f"'{salt(hash_key)}:' || {whole}")


def text_sql(words: Words, kind: Kind | None, key: str) -> str:
    """Return the text of a key as an expression of SQL; see `text`."""
    if kind is None:
        return "''"
    if kind.name in ("text", "uuid"):
        return key
    if kind.name == "bytes":
        return words.hex.format(key)
    digits = words.text.format(key)
    if kind.name == "float":
        whole = words.text.format(words.integer.format(key))
        other = (words.double or words.text).format(key)
        return (
            f"CASE WHEN abs({key}) < 1e16 THEN CASE WHEN round({key}) = {key} THEN {whole} "
            f"ELSE {other} END ELSE {other} END"
        )
    if kind.name == "decimal" and (kind.limits is None or kind.limits[1] > 0):
        return words.decimal.format(digits)
    if kind.name.startswith("timestamp") and kind.unit != "us":
        zeros = "0" * _PER_SECOND.get(kind.unit, 0)
        other = f"{digits} || '{zeros}'"
        if kind.unit == "ns":
            micro = f"substr({digits}, 1, length({digits}) - 3)"
            other = f"CASE WHEN {key} % 1000 = 0 THEN {micro} ELSE {digits} || 'n' END"
        return f"CASE WHEN {key} = 0 THEN '0' ELSE {other} END"
    return digits
