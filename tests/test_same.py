"""The same events through every engine: one histogram, and on one seed one release."""

from pathlib import Path

import pytest

pytest.importorskip("narwhals")
pytest.importorskip("duckdb")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from doors import TABLES, split

import dptopk as dp

OWN = Path(__file__).parents[1] / "examples" / "debian12_sections.parquet"
SETS = (
    "ciao", "debian12_deps", "debian12_sections", "epinions", "fimi_retail", "gowalla_10core",
    "lastfm_hetrec", "ml100k",
)  # fmt: skip
OPTIONS = ({"k_bar": 300}, {"k_bar": 300, "max_items_per_user": 5, "hash_key": "2026"})


def built(path, table, **options):
    with dp.HistogramBuilder(user="user", item="item") as builder:
        builder.extend(split(table))
        return builder.histogram(**options)


def from_files(path, table, **options):
    return dp.Histogram.from_files(path, user="user", item="item", **options)


def ways():
    yield "files", from_files
    yield "batches", built
    for name, of in TABLES.items():

        def count(path, table, of=of, **options):
            return dp.Histogram.from_events(of(table), user="user", item="item", **options)

        yield name, count


def result(h):
    """All that a mechanism sees, and what it releases."""
    release = dp.limited_domain(h, k=10, epsilon=1, delta=1e-6, rng=dp.SeededRng(7), k_bar=300)
    return list(h.labels), h.counts.tolist(), h.cut(300)[2], release.labels


def check(table, tmp_path):
    path = tmp_path / "events.parquet"
    pq.write_table(table, path)
    for options in OPTIONS:
        results = {name: result(count(path, table, **options)) for name, count in ways()}
        for name, got in results.items():
            assert got == results["files"], name


def events_in(path):
    table = pq.read_table(path)
    return table.select(table.column_names[:2]).rename_columns(["user", "item"])


@pytest.mark.slow
def test_every_engine_counts_and_releases_the_same(tmp_path):
    table = events_in(OWN).slice(0, 5_000)
    check(table, tmp_path)
    fewer = table.slice(50)  # what an engine that loses rows would give
    assert result(built(None, fewer, k_bar=300)) != result(built(None, table, k_bar=300))


@pytest.mark.full
@pytest.mark.parametrize("name", SETS)
def test_every_engine_counts_and_releases_the_same_of_real_data(name, data_dir, tmp_path):
    check(events_in(data_dir / f"{name}.events.parquet"), tmp_path)
