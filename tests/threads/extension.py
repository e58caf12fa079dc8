"""Threads on one Histogram, one generator and one array at once: run by `make tsan`."""

import threading

import numpy as np

import dptopk as dp
from dptopk import SeededRng
from dptopk.rng import TapeRng

THREADS, ROUNDS = 4, 3
words = np.random.default_rng(1).integers(0, 2**64, size=1 << 18, dtype=np.uint64)
counts = np.random.default_rng(2).integers(0, 500, size=3_000)
array = np.random.default_rng(3).normal(size=(40, 600))
shared = dp.Histogram.from_counts(dict(enumerate(counts.tolist())), domain_is_public=True)
sources = {
    "secure": None,  # each thread takes one from the free list, and gives it back
    "seeded": SeededRng(4),
    "generator": np.random.default_rng(5),
    "tape": TapeRng(words),
}
right = np.argsort(-array, axis=-1, kind="stable")[:, :20]
failed, begin = [], threading.Barrier(THREADS)


def calls(rng):
    dp.noisy_topk(counts, 30, scale=20.0, rng=rng)
    dp.noisy_topk(array, 5, scale=0.1, rng=rng, workers=2)
    dp.peel(shared, k=20, epsilon_step=0.1, rng=rng)
    dp.oneshot(shared, k=20, epsilon=1.0, rng=rng)
    dp.joint(shared, k=10, epsilon=1.0, rng=rng)
    dp.canonical(shared, k=10, epsilon=1.0, rng=rng)
    assert np.array_equal(dp.argtopk(array, 20, workers=2), right)
    assert np.array_equal(dp.argtopk(counts, 9), np.argsort(-counts, kind="stable")[:9])


def run():
    begin.wait()
    for _ in range(ROUNDS):
        for name, rng in sources.items():
            try:
                calls(rng)
            except BaseException as error:  # told at the end, with the source
                failed.append((name, error))
                return


threads = [threading.Thread(target=run) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failed:
    raise SystemExit(f"{failed}")
print(f"{THREADS} threads, {ROUNDS} rounds, {len(sources)} sources: done")
