"""All ways in: the same events as every kind of table, file and stream that is taken.

A door takes two columns as a PyArrow table and gives what
`dptopk.Histogram.from_events` or `from_files` is called with.
"""

import contextlib
import functools
import gzip
import os
import shutil
import threading
import warnings

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dptopk as dp


def pandas_arrow(table):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def pandas_of(table):
    return table.to_pandas()


def columns(table):
    return {name: table.column(name).to_pylist() for name in table.column_names}


def rows(table):
    return list(zip(*columns(table).values(), strict=True))


def numpy_columns(table):
    return {name: table.column(name).to_numpy() for name in table.column_names}


TABLES = {
    "pandas": pandas_of,
    "pandas on arrow": pandas_arrow,
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),
    "pyarrow": lambda table: table,
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
    "dict": columns,
    "rows": rows,
    "pair of lists": lambda table: tuple(columns(table).values()),
    "dict of arrays": numpy_columns,
    "pair of pandas Series": lambda table: (pandas_of(table).user, pandas_of(table).item),
    "pair of polars Series": lambda table: tuple(pl.from_arrow(table).get_columns()),
    "pair of pyarrow arrays": lambda table: tuple(table.columns),
    "dict of pandas Series": lambda table: dict(pandas_of(table).items()),
}


def ibis_of(table):
    ibis = pytest.importorskip("ibis", reason="Ibis is not tested: pip install 'dptopk[ibis]'")
    con = duckdb.connect()
    con.register("arrow", table)
    con.execute("CREATE TABLE events AS FROM arrow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls what DuckDB 2 advises against
        return ibis.duckdb.from_connection(con).table("events")


def dask_of(table):
    dd = pytest.importorskip(
        "dask.dataframe", reason="Dask is not tested: pip install 'dptopk[dask]'"
    )
    return dd.from_pandas(pandas_arrow(table), npartitions=2)


@functools.cache
def spark():
    """The one Spark session of a test process: two threads, no network but loopback."""
    sql = pytest.importorskip(
        "pyspark.sql", reason="Spark is not tested: pip install 'dptopk[spark]'"
    )
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark is not tested: no Java; Debian's package is default-jre-headless")
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "America/New_York",  # where some hours are missing
        "spark.sql.timestampType": "TIMESTAMP_NTZ",  # what PyArrow has without a zone
        "spark.log.level": "OFF",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of pyspark on pandas
        builder = sql.SparkSession.builder.master("local[2]")
        for name, value in options.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def spark_of(table):
    session = spark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session.createDataFrame(table)


# Engines of which `make test` tries less than the whole table, as each call takes long.
ENGINES = {
    "pyarrow dataset": ds.dataset,
    "ibis": ibis_of,
    "dask": dask_of,
    "spark": spark_of,
}
TEXT_FILES = ("csv", "tsv", "csv.gz", "jsonl", "json")


def write(table, path):
    """Write a table as its file's name says."""
    con = duckdb.connect()
    con.register("events", table)
    form = os.fspath(path).removesuffix(".gz").rpartition(".")[2]
    options = {
        "csv": "HEADER, DELIMITER ','",
        "tsv": "HEADER, DELIMITER '\t'",
        "json": "FORMAT json, ARRAY true",
        "jsonl": "FORMAT json",
    }
    if form == "parquet":
        pq.write_table(table, path)
        return
    literal = os.fspath(path).replace("'", "''")
    con.execute(f"COPY (FROM events) TO '{literal}' ({options[form]})")


@contextlib.contextmanager
def piped(data, fifo):
    """Make a FIFO and write to it from a thread, a byte first."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    os.mkfifo(fifo)

    def feed():
        with contextlib.suppress(BrokenPipeError), open(fifo, "wb", buffering=0) as pipe:
            pipe.write(data[:1])
            pipe.write(data[1:])

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    yield fifo
    thread.join(timeout=10)
    assert not thread.is_alive()


FILES = ("csv", "tsv", "csv.gz", "parquet", "jsonl", "json")
STREAMS = ("fifo csv", "fifo tsv", "fifo csv.gz", "fifo jsonl", "fifo json")
BATCHES = ("batches of pyarrow", "batches of rows")
DOORS = (*TABLES, *BATCHES, *FILES, *STREAMS)
ALL_DOORS = (*DOORS, *(pytest.param(engine, marks=pytest.mark.full) for engine in ENGINES))
_NAMED = {"csv": "csv", "tsv": "tsv", "csv.gz": "csv", "jsonl": "json", "json": "json"}


def through(door, table, tmp_path, **options):
    """Return the Histogram of a table's events, got in through a door."""
    if door in TABLES or door in ENGINES:
        frame = {**TABLES, **ENGINES}[door](table)
        return dp.Histogram.from_events(frame, user="user", item="item", **options)
    if door in BATCHES:
        return built([(door.removeprefix("batches of "), part) for part in split(table)], **options)
    ext = door.removeprefix("fifo ")
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.{ext}"
    write(table, path)
    if door in FILES:
        return dp.Histogram.from_files(path, user="user", item="item", **options)
    with piped(path.read_bytes(), f"{path}.fifo") as fifo:
        return dp.Histogram.from_files(
            fifo, user="user", item="item", format=_NAMED[ext], **options
        )


def split(table):
    """Return the halves of a table, of which no row is left out."""
    return table.slice(0, len(table) // 2), table.slice(len(table) // 2)


def built(batches, *, nulls="error", **options):
    """Return the Histogram of batches, each given by the kind of table it is to be."""
    with dp.HistogramBuilder(user="user", item="item", nulls=nulls) as builder:
        for name, table in batches:
            builder.add(TABLES[name](table))
        return builder.histogram(**options)


def counts_of(h):
    """Return the counts by label, without those that are 0 by being absent."""
    return dict(zip(h.labels, h.counts.tolist(), strict=True))


def events(users, items, user_type=None, item_type=None):
    """Return a PyArrow table of events."""
    return pa.table({"user": pa.array(users, user_type), "item": pa.array(items, item_type)})


def gzipped(data):
    return gzip.compress(data, mtime=0)
