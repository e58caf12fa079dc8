"""The table of speed in README, in words, from the microseconds of a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LIBRARIES = ("np.argpartition", "np.partition", "torch.topk", "pyarrow select_k", "polars top_k",
             "bottleneck")  # fmt: skip


class Least:
    """The least microseconds of a call, by work and by whom."""

    def __init__(self, its: dict):
        self.us = {(row[0], row[1]): row[2] for row in its["tables"][0]["rows"]}

    def time(self, work: str, by: str = "ours") -> str:
        """Return a time in a readable unit."""
        us = self.us[work, by]
        return f"{short(us)} us" if us < 100 else f"{short(us / 1e3)} ms"

    def times(self, works: list[str], by: str = "ours", separator: str = " / ") -> str:
        """Return several times in milliseconds."""
        return separator.join(short(self.us[work, by] / 1e3) for work in works) + " ms"

    def ratio(self, work: str, by: str, to: str = "ours") -> str:
        """Return how many times as long it takes by another."""
        ratio = self.us[work, by] / self.us[work, to]
        return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"

    def best(self, work: str, names: tuple[str, ...]) -> str:
        """Return who of these is fastest."""
        return min((name for name in names if (work, name) in self.us),
                   key=lambda name: self.us[work, name])  # fmt: skip


def short(value: float) -> str:
    """Round to two digits."""
    return f"{float(f'{value:.2g}'):,g}"


def speed(its: dict, grid: Callable[..., str], folded: Callable[[str], str]) -> str:
    """Return the table and what goes with it."""
    least, machine = Least(its), its["machine"]
    head = (
        f"Processor time, the least of many calls in turn (`{its['command']}`), on one thread of "
        f"an {machine['processor']} with {machine['simd']}, shared with others (load "
        f"{machine['load']:g}); a million int64 counts, k = 100, (1, 1e-6) where "
        "nothing else is said:"
    )
    rows = [*_cuts(least), *_mechanisms(least)]
    table = grid(["work", "time", "against"], rows)
    return f"{folded(head)}\n{table}\n{folded(_levels(least))}"


def _cuts(least: Least) -> list[list[Any]]:
    cut = "argtopk, int64"
    library = least.best(cut, LIBRARIES)
    small = [f"argtopk, {dtype}" for dtype in ("float32", "int16", "int8")]
    against = (
        f"{least.ratio(cut, 'ours', 'np.max')} x `np.max`; the best library call ({library}) takes "
        f"{least.ratio(cut, library)} times as long, a one-pass heap in C++ "
        f"{least.ratio(cut, 'C++ heap')} times, a reservoir in C++ "
        f"{least.ratio(cut, 'C++ reservoir')} times"
    )
    return [
        ["`argtopk`, top 1,000, unsorted", least.time(cut), against],
        [
            "the same of float32, int16, int8",
            least.times(small, separator=", "),
            ", ".join(f"{least.ratio(work, 'ours', 'np.max')} x" for work in small) + " `np.max`",
        ],
        [
            "`argtopk`, top 10 of each of 20,000 rows of 50",
            least.time("argtopk of rows"),
            f"NumPy along the axis takes {least.ratio('argtopk of rows', 'NumPy')} times as long",
        ],
        [
            "`Histogram`: the order of the top, counts of counts, a copy",
            least.time("Histogram, as real counts"),
            f"{least.ratio('Histogram, as real counts', 'ours', 'np.max')} x `np.max`",
        ],
    ]


def _mechanisms(least: Least) -> list[list[Any]]:
    sizes = ("100", "1000", "10000")
    noisy = [f"noisy_topk, k = {k}" for k in sizes]
    wide = [f"noisy_topk, wide noise, k = {k}" for k in sizes]
    one = "noisy_topk of 100, k = 10"

    def others(works: list[str]) -> str:
        names = ("argpartition", "our argtopk")
        return " / ".join(
            least.ratio(work, least.best(work, names), "noisy_topk") for work in works
        )

    rows = [
        [
            "`noisy_topk` on an array, k = 100 / 1,000 / 10,000",
            least.times(noisy, "noisy_topk"),
            f"the cheapest noise NumPy has and `argtopk` take {others(noisy)} times as long; of "
            f"floats under noise as wide as they are spread {others(wide)} times",
        ],
        [
            "`noisy_topk` of 100 scores, k = 10",
            least.time(one, "noisy_topk"),
            f"the same two take {others([one])} times as long",
        ],
        [
            "`peel` on an array",
            least.time("peel on an array"),
            "`argpartition(counts + gumbel)` takes "
            f"{least.ratio('peel on an array', 'NumPy')} times as long",
        ],
    ]
    for name, more in (("limited_domain", ", k_bar = 500"), ("peel", "")):
        small = least.time("prepared", f"{name}, 10000")
        large = least.time("prepared", f"{name}, 1000000")
        work = f"`{name}` on a prepared `Histogram`{more}"
        rows.append([work, large, f"{small} for 10,000 items: the cost is in k"])
    for work, of in least.us:
        if work.startswith("near ties") and of == "peel":
            others_of = (f"`{by}` takes {least.time(work, by)}" for by in ("oneshot",
                         "permute_and_flip"))  # fmt: skip
            said = work.removeprefix("near ties, ")
            rows.append(
                [f"`peel` among near ties: {said}", least.time(work, "peel"), ", ".join(others_of)]
            )
    for name in ("joint", "canonical"):
        works = [work for work, _ in least.us if work.startswith(f"{name}, k = ")]
        ks = " / ".join(f"{int(work.split()[-1]):,}" for work in works)
        work = f"`{name}` (epsilon 1) on a prepared `Histogram`, k = {ks}"
        rows.append([work, least.times(works), "the cost is in k, and in nothing of a million"])
    return rows


def _levels(least: Least) -> str:
    """Say what other instruction sets take."""
    cut, real, equal = "argtopk, int64", "Histogram, as real counts", "Histogram, 98% equal"

    def maxima(by: str) -> str:
        cuts = least.ratio(cut, by, "np.max")
        counts = sorted({least.ratio(work, by, "np.max") for work in (real, equal)}, key=float)
        return f"`argtopk` takes {cuts} x and `Histogram` {' to '.join(counts)} x `np.max`"

    said = "The instruction set is chosen at run time. "
    if (cut, "AVX2") in least.us:
        said += f"With AVX2 {maxima('AVX2')}. "
    calls = (
        least.ratio("prepared", f"{name}, portable", f"{name}, 1000000")
        for name in ("limited_domain", "peel")
    )
    return f"{said}In portable C {maxima('portable')}, and the calls on a prepared `Histogram` of \
`limited_domain` and `peel` {' and '.join(calls)} times as long as above."
