"""Apache Spark: two columns as keys, and what narwhals has no word for."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from dptopk.sources import labels
from dptopk.sources.bounds import SPARK, rank_sql
from dptopk.sources.keys import Keyed, codes, find, in_engine, integers, named, no_labels
from dptopk.sources.labels import Kind

if TYPE_CHECKING:
    from dptopk.sources.groups import Listed

__all__ = ["among", "in_groups", "of_frame", "ranked", "rows", "with_column"]

_KINDS = {
    "string": labels.TEXT,
    "char": labels.TEXT,
    "varchar": labels.TEXT,
    "byte": labels.INTEGER._replace(limits=integers("Int8")),
    "short": labels.INTEGER._replace(limits=integers("Int16")),
    "integer": labels.INTEGER._replace(limits=integers("Int32")),
    "long": labels.INTEGER._replace(limits=integers("Int64")),
    "boolean": labels.BOOLEAN,
    "float": labels.FLOAT._replace(single=True),
    "double": labels.FLOAT,
    "binary": labels.BYTES,
    "date": labels.DATE,
    "timestamp": labels.ZONED._replace(unit="us"),
    "timestamp_ntz": labels.TIMESTAMP._replace(unit="us"),
}
_KEYS = {
    "float": "CASE WHEN {0} = 0 THEN 0.0D ELSE CAST({0} AS DOUBLE) END",
    "date": "unix_date({})",
    "timestamp with time zone": "unix_micros({})",
    # By its parts: as a moment it would be of the session's zone, and an hour may be missing.
    "timestamp": "unix_date(CAST({0} AS DATE)) * 86400000000L + hour({0}) * 3600000000L "
    "+ minute({0}) * 60000000L + CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT)",
}


def of_frame(frame: Any, *wanted: str) -> Keyed:
    """Return columns of a Spark DataFrame as keys."""
    import narwhals as nw

    fields = in_engine(lambda: list(frame.schema.fields))
    names = [field.name for field in fields]
    # By place: Spark's own look-up ignores case, and takes a name apart at its dots.
    places = [find(names, name) for name in wanted]
    kinds = [
        _kind_of(name, fields[place].dataType) for name, place in zip(wanted, places, strict=True)
    ]
    keys, nulls = [], {1: "FALSE", 2: "FALSE", 4: "FALSE"}
    for place, kind, as_key, code in zip(
        places, kinds, named(len(wanted)), codes(len(wanted)), strict=True
    ):
        column = f"c{place}"
        if kind is None:
            key, null = "0", "TRUE"
        else:
            key, null = _KEYS.get(kind.name, "{}").format(column), f"{column} IS NULL"
        if kind is not None and kind.name == "float":
            null += f" OR isnan({column})"
        if getattr(fields[place].dataType, "collation", "UTF8_BINARY") != "UTF8_BINARY":
            key = f"{column} COLLATE UTF8_BINARY"  # or the rows decide how a label is shown
        keys.append(f"{key} AS `{as_key}`")
        nulls[code] += f" OR {null}"
    bad = " + ".join(f"{code} * CAST(({null}) AS TINYINT)" for code, null in nulls.items())
    renamed = in_engine(lambda: frame.toDF(*(f"c{place}" for place in range(len(names)))))
    query = in_engine(renamed.selectExpr, *keys, f"CAST({bad} AS TINYINT) AS `bad`")
    return Keyed.of(nw.from_native(query).lazy(), kinds)


def _kind_of(name: str, dtype: Any) -> Kind | None:
    form = dtype.typeName()
    if form == "void":
        return None
    if form == "decimal":
        return labels.DECIMAL._replace(limits=(dtype.precision, dtype.scale))
    if form not in _KINDS:
        raise no_labels(name, form)
    return _KINDS[form]


def among(pairs: Any, only: list[Any]) -> Any:
    """Keep the rows of these items, and those with nulls: by a join, which can be long."""
    from pyspark.sql.types import StructField, StructType

    form = StructType([StructField("wanted", pairs.schema["item"].dataType)])
    wanted = pairs.sparkSession.createDataFrame([(key,) for key in only], form)
    kept = pairs.join(wanted.hint("broadcast"), pairs["item"] == wanted["wanted"], "left")
    return kept.filter("wanted IS NOT NULL OR `bad` > 0").drop("wanted")


def in_groups(events: Any, listed: Listed) -> Any:
    """Return the rows of listed groups, and those with nulls, with `group` and `name`."""
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    fields = [
        StructField(f"k{place}", events.schema[listed.column(place)].dataType)
        for place in range(len(listed.keys))
    ]
    fields += [StructField("place", IntegerType()), StructField("name", StringType())]
    rows = list(zip(*listed.keys, listed.places, listed.names, strict=True))
    table = events.sparkSession.createDataFrame(rows, StructType(fields))
    keys = [(events[listed.column(place)], table[f"k{place}"]) for place in range(len(fields) - 2)]
    if listed.periods:
        (column, first), (_, past) = keys
        tests = [column >= first, column < past]
    else:
        tests = [column == key for column, key in keys]
    joined = events.join(table.hint("broadcast"), reduce(and_, tests), "left")
    return joined.filter("place IS NOT NULL OR `bad` > 0").selectExpr(
        "`user`",
        "`item`",
        "`bad`",
        "coalesce(place, -1) AS `group`",
        "coalesce(name, '') AS `name`",
    )


def with_column(rows: Any, expression: str) -> Any:
    """Add a column that is said in SQL."""
    return rows.selectExpr("*", expression)


def ranked(pairs: Any, kinds: tuple[Kind | None, Kind | None], hash_key: str) -> Any:
    """Add a column `rank`; see `dptopk.sources.bounds`."""
    rank = rank_sql(SPARK, kinds, "`user`", "`item`", hash_key)
    return pairs.selectExpr("*", f"{rank} AS `rank`")


def rows(query: Any) -> tuple[list[Any], ...]:
    """Run a query and return its columns."""
    fetched = query.collect()
    columns = zip(*fetched, strict=True) if fetched else ((),) * len(query.columns)
    return tuple([bytes(x) if isinstance(x, bytearray) else x for x in c] for c in columns)
