"""``python -m benchmarks peers``: other libraries and the papers' own algorithms, in one run."""
