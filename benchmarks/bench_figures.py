"""The figures of docs/pictures.md, drawn anew: ``python -m benchmarks figures``.

They are of the example data and of public numbers alone, by fixed random bits: the same
picture each time, which is no release.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dptopk as dp
from benchmarks.row import Row

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "figures"
EVENTS = ROOT / "examples" / "debian12_sections.parquet"


def figures() -> Iterator[tuple[str, Any]]:
    """Yield the name of each figure and its axes."""
    h = dp.Histogram.from_files(str(EVENTS), user="package", item="dependency")
    rng = dp.SeededRng(18)
    release = dp.limited_domain(h, k=10, epsilon=1, delta=1e-6, rng=rng)
    yield "release", dp.noisy_counts(release, h, epsilon=0.1, rng=rng).plot()
    yield "costs", dp.plot_costs(epsilon=1, delta=1e-6)
    shape = dp.zipf(0.8, n_users=20_000, n_items=3_000)
    grid: dict[str, Any] = {"epsilons": (0.1, 0.2, 0.5, 1, 2, 5), "ks": 50, "delta": 1e-6}
    mechanisms = (dp.limited_domain, dp.restricted_gumbel, dp.weighted)
    table = [row for its in mechanisms for row in dp.simulate(its, shape, **grid)]
    yield "accuracy", dp.plot_accuracy(table)


def draw(folder: Path = FOLDER) -> list[Path]:
    """Write every figure as SVG; return their paths."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(exist_ok=True)
    # Texts stay texts, and nothing in the file tells when it was drawn.
    paths = []
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dptopk"}):
        for name, ax in figures():
            paths.append(folder / f"{name}.svg")
            ax.figure.savefig(paths[-1], metadata={"Date": None, "Creator": None})
    return paths


def rows(quick: bool) -> Iterator[Row]:
    """Draw, and give no line of times."""
    draw()
    return iter(())
