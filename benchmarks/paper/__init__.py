"""``python -m benchmarks paper NAME``: the experiments of the papers, and ours beside them.

Each module has one `run(scale, say)`, which returns a `record.Result`.
"""
