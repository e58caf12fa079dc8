"""What each engine takes to count, beside its own bare COUNT(DISTINCT): time and peak memory.

Every run is a process of its own. All engines must give the same histogram and, on the
same seed, the same release. Memory is that of our process: what PostgreSQL's server and
Spark's JVM take is not in it. PostgreSQL counts up to 1e7 events, on a server of the
benchmark's own.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.data import SHARED
from benchmarks.own_server import postgres_server
from benchmarks.row import Row

K_BAR = 1000
SETS = ("epinions", "gowalla_10core")
NEEDS = {
    "duckdb": "duckdb",
    "builder": "pyarrow",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "pandas": "pandas",
    "dask": "dask",
    "ibis": "ibis",
    "spark": "pyspark",
}
TABLE = "events"


def generate(path: Path, events: int, *, seed: int = 1) -> None:
    """Write events of a tenth as many items, of which few have many, as a Parquet file."""
    import duckdb

    first, second = (
        f"(hash(range * 2 + {seed * 2**40 + n}) / 18446744073709551616.0)" for n in (0, 1)
    )
    con = duckdb.connect(config={"preserve_insertion_order": "false", "memory_limit": "1GB"})
    con.execute(
        f'COPY (SELECT CAST(floor({events // 20} * {first}) AS BIGINT) AS "user", '
        f"CAST(floor({events // 10} * pow({second}, 3)) AS BIGINT) AS item "
        f"FROM range({events})) TO '{path}' (FORMAT parquet)"
    )


def events_of(engine: str, path: str) -> Any:
    """Return the events as the engine has them."""
    if engine == "duckdb":
        import duckdb

        return duckdb.connect().read_parquet(path)
    if engine == "polars":
        import polars

        return polars.scan_parquet(path)
    if engine == "dask":
        import dask.dataframe

        return dask.dataframe.read_parquet(path)
    if engine == "ibis":
        import ibis

        return ibis.duckdb.connect().read_parquet(path)
    if engine == "spark":
        return _spark().read.parquet(path)
    if engine == "postgres":
        import psycopg

        return psycopg.connect(path)
    import pyarrow.parquet

    if engine == "builder":
        return pyarrow.parquet.ParquetFile(path).iter_batches(1_000_000)
    table = pyarrow.parquet.read_table(path)
    return table.to_pandas() if engine == "pandas" else table


def _spark() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for end in ("host", "bindAddress"):
        builder = builder.config(f"spark.driver.{end}", "127.0.0.1")
    return builder.config("spark.log.level", "OFF").getOrCreate()


def bare(engine: str, path: str, user: str, item: str) -> None:
    """Count as one would without this library."""
    frame = events_of("duckdb" if engine == "builder" else engine, path)
    quote = "`" if engine == "spark" else '"'
    counting = (
        f"SELECT {quote}{item}{quote}, count(DISTINCT {quote}{user}{quote}) AS n FROM {TABLE} "
        f"GROUP BY 1 ORDER BY n DESC, 1 LIMIT {K_BAR + 1}"
    )
    if engine in ("duckdb", "builder"):
        frame.query(TABLE, counting).fetchall()
    elif engine == "postgres":
        frame.execute(counting).fetchall()
    elif engine == "spark":
        frame.createOrReplaceTempView(TABLE)
        frame.sparkSession.sql(counting).collect()
    elif engine == "ibis":
        counts = frame.group_by(item).agg(n=frame[user].nunique())
        counts.order_by(counts.n.desc(), item).limit(K_BAR + 1).to_pyarrow()
    elif engine == "dask":
        frame.groupby(item)[user].nunique().nlargest(K_BAR + 1).compute()
    elif engine == "polars":
        import polars

        counts = frame.group_by(item).agg(polars.col(user).n_unique().alias("n"))
        counts.sort("n", item, descending=[True, False]).head(K_BAR + 1).collect()
    elif engine == "pyarrow":
        counts = frame.group_by(item).aggregate([(user, "count_distinct")])
        order = [(f"{user}_count_distinct", "descending"), (item, "ascending")]
        counts.sort_by(order).slice(0, K_BAR + 1)
    else:
        counts = frame.groupby(item)[user].nunique()
        counts.sort_values(ascending=False, kind="stable").head(K_BAR + 1)


def ours(engine: str, path: str, user: str, item: str) -> Any:
    """Return the histogram."""
    import dptopk as dp

    frame = events_of(engine, path)
    if engine == "postgres":
        return dp.Histogram.from_sql(frame, TABLE, user=user, item=item, k_bar=K_BAR)
    if engine != "builder":
        return dp.Histogram.from_events(frame, user=user, item=item, k_bar=K_BAR)
    with dp.HistogramBuilder(user=user, item=item) as builder:
        builder.extend(frame)
        return builder.histogram(k_bar=K_BAR)


def digest(h: Any) -> str:
    """Return a digest of a histogram, and of a release that is drawn from it by a seed."""
    import dptopk as dp

    rng = dp.SeededRng(7)
    release = dp.limited_domain(h, k=20, epsilon=1.0, delta=1e-6, k_bar=K_BAR, rng=rng)
    parts = (list(h.labels), h.counts.tolist(), h.cut(K_BAR)[2], release.labels)
    return sha256(repr(parts).encode()).hexdigest()


def run(*argv: str) -> dict[str, Any]:
    """Return what a process of its own says of one run."""
    command = [sys.executable, "-m", "benchmarks.bench_engines", *argv]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def rows(quick: bool = False, full: bool = False) -> Iterator[Row]:
    """Yield time and peak memory of each engine that is installed, on each set of events."""
    with tempfile.TemporaryDirectory() as folder:
        size = 100_000_000 if full else 1_000_000 if quick else 10_000_000
        made = Path(folder) / "events.parquet"
        generate(made, size)
        paths = {name: SHARED / f"{name}.events.parquet" for name in SETS}
        named = {name: path for name, path in paths.items() if path.is_file()}
        engines = [engine for engine, needed in NEEDS.items() if find_spec(needed)]
        if shutil.which("java") is None and "spark" in engines:
            engines.remove("spark")
        with postgres_server() as server:
            for name, path in {**named, f"{size:.0e} events": made}.items():
                paths = dict.fromkeys(engines, str(path))
                if server is not None and not (full and path == made):
                    paths["postgres"] = f"postgresql://dptopk@/postgres?host={server}"
                    _load(paths["postgres"], str(path))
                yield from _compared(name, str(path), paths, 1 if full or quick else 3)


def _load(address: str, path: str) -> None:
    """Have PostgreSQL hold the events of a file, and know how many there are."""
    import duckdb
    import psycopg
    import pyarrow.csv

    events = duckdb.read_parquet(path)
    types = ("bigint" if "INT" in str(dtype) else "text" for dtype in events.types[:2])
    columns = [f'"{name}" {dtype}' for name, dtype in zip(events.columns[:2], types, strict=True)]
    names = ", ".join(f'"{name}"' for name in events.columns[:2])
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(f"CREATE TABLE {TABLE} ({', '.join(columns)})")
        with connection.cursor().copy(f"COPY {TABLE} FROM STDIN (FORMAT csv)") as copy:
            chunks = events.project(names).fetch_arrow_reader(1_000_000)
            for chunk in chunks:
                text = io.BytesIO()
                pyarrow.csv.write_csv(chunk, text, pyarrow.csv.WriteOptions(include_header=False))
                copy.write(text.getvalue())
        connection.execute(f"ANALYZE {TABLE}")


def _compared(name: str, path: str, paths: dict[str, str], repeats: int) -> Iterator[Row]:
    import duckdb

    user, item = duckdb.read_parquet(path).columns[:2]
    digests = set()
    for engine, place in paths.items():
        best: dict[str, dict[str, Any]] = {}
        for _ in range(repeats):
            for what in ("ours", "bare"):
                got = run(what, engine, place, user, item)
                if what == "ours":
                    digests.add(got["digest"])
                if what not in best or got["seconds"] < best[what]["seconds"]:
                    best[what] = got
        one, other = best["ours"], best["bare"]
        work, ms = f"{name}, {engine}", [1e3 * best[what]["seconds"] for what in ("ours", "bare")]
        yield Row(work, ms[0], "COUNT(DISTINCT)", ms[1], ms[0] / ms[1], "", None)
        memory = [best[what]["megabytes"] for what in ("ours", "bare")]
        against = f"{other['megabytes']:,.0f} MB"
        yield Row(
            f"{work}: {one['megabytes']:,.0f} MB", math.nan, against, None, memory[0] / memory[1],
            "", None,
        )  # fmt: skip
    same = len(digests) == 1
    yield Row(f"{name}: different results", math.nan, "", None, float(len(digests)), "1", same)


def _main(count: Callable[..., Any]) -> None:
    start = time.perf_counter()
    h = count()
    seconds = time.perf_counter() - start
    # Not ru_maxrss, which is at least that of the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    said = {"seconds": seconds, "megabytes": peak, "digest": None if h is None else digest(h)}
    print(json.dumps(said))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("ours", "bare"))
    for name in ("engine", "path", "user", "item"):
        parser.add_argument(name)
    args = parser.parse_args()
    import dptopk  # noqa: F401

    which = ours if args.what == "ours" else bare
    _main(lambda: which(args.engine, args.path, args.user, args.item))
