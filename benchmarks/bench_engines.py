"""What each engine takes to count, beside its own bare COUNT(DISTINCT): time and peak memory.

Every run is a process of its own. All engines must give the same histogram and, on the
same seed, the same release.
"""

from __future__ import annotations

import argparse
import json
import math
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
from benchmarks.row import Row

K_BAR = 1000
SETS = ("epinions", "gowalla_10core")
NEEDS = {
    "duckdb": "duckdb",
    "builder": "pyarrow",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "pandas": "pandas",
}


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
    import pyarrow.parquet

    if engine == "builder":
        return pyarrow.parquet.ParquetFile(path).iter_batches(1_000_000)
    table = pyarrow.parquet.read_table(path)
    return table.to_pandas() if engine == "pandas" else table


def bare(engine: str, path: str, user: str, item: str) -> None:
    """Count as one would without this library."""
    frame = events_of("duckdb" if engine == "builder" else engine, path)
    if engine in ("duckdb", "builder"):
        frame.query(
            "e",
            f'SELECT "{item}", count(DISTINCT "{user}") AS n FROM e GROUP BY 1 '
            f"ORDER BY n DESC, 1 LIMIT {K_BAR + 1}",
        ).fetchall()
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
        for name, path in {**named, f"{size:.0e} events": made}.items():
            engines = [engine for engine, needed in NEEDS.items() if find_spec(needed)]
            yield from _compared(name, str(path), engines, 1 if full or quick else 3)


def _compared(name: str, path: str, engines: list[str], repeats: int) -> Iterator[Row]:
    import duckdb

    user, item = duckdb.read_parquet(path).columns[:2]
    digests = set()
    for engine in engines:
        best: dict[str, dict[str, Any]] = {}
        for _ in range(repeats):
            for what in ("ours", "bare"):
                got = run(what, engine, path, user, item)
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
