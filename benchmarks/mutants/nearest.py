"""Which tests a mutant is run against: the nearest to its file, the nearest first."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.mutants.workspace import ROOT

NEAREST = {
    "csrc": {
        "adaptive": "unequal accounting",
        "blocks": "race rows peel noisy_topk",
        "cut cut_impl cut_x86 few": "argtopk histogram topk",
        "discrete": "discrete noisy_counts",
        "dptk": "race argtopk joint paths",
        "draw draw_few draw_impl": "draw draw_part draw_sieve noisy_topk noisy_rows",
        "sieve sieve_impl": "draw_sieve",
        "survey": "survey draw_sieve",
        "filter filter_impl": "argtopk histogram topk draw_sieve",
        "items": "changed joint",
        "keys": "argtopk race histogram",
        "noise": "race sweep",
        "paths paths_mod product": "paths ranking",
        "race": "race rows changed",
        "rng": "rng rng_parallel entropy",
        "score": "race noisy_topk argtopk",
        "simd": "argtopk race",
        "subset": "canonical joint",
        "sweep": "sweep rows",
        "variate": "race sparse_vector sweep",
        "wide": "paths rng race",
    },
    "dptopk": {
        "_core": "rng argtopk topk race rows joint paths canonical discrete sparse_vector changed "
        "float_state sweep histogram rng_parallel unequal draw entropy",
    },
    "mechanisms": {
        "": "plans mechanisms",
        "_calibrate": "permute_and_flip peel mechanisms accounting session",
        "_drawn": "draw_part draw_sieve noisy_topk draw",
        "_groups": "groups joint canonical",
        "_plan": "plans groups mechanisms session",
        "_race": "mechanisms peel limited_domain groups plans",
        "_rows": "rows noisy_rows groups trials",
        "_select": "noisy_topk sweep rows peel truncated limited_domain permute_and_flip joint "
        "mechanisms",
        "_set_noise": "oneshot groups proofs spreads ranking",
        "_threshold": "sparse_vector restricted top_stable stable_release",
        "noisy_counts": "noisy_counts groups",
        "noisy_topk": "noisy_topk noisy_rows rows draw trials",
        "table": "table way_out plans session cli",
        "weighted": "weighted groups plans mechanisms",
    },
    "accounting": {
        "": "accounting",
        "adaptive": "unequal accounting spreads",
        "compositions inverse optimal": "accounting filter_totals session discrete",
        "curve": "spreads unequal accounting",
        "gaussian": "gaussian_sigma weighted accounting",
        "prices": "prices filter filter_totals session",
        "shared": "noisy_counts",
        "stability": "stable_release top_stable rounding restricted",
        "weights": "weighting weighted filter",
    },
    "budget": {
        "": "session filter ledger ledger_budgets ledger_faults filter_totals",
        "audit record lines": "ledger ledger_budgets ledger_faults release",
        "book ledger periods version1 batch": (
            "ledger ledger_budgets ledger_faults session ledger_postgres"
        ),
        "conformance postgres": "ledger_postgres ledger_budgets",
        "exact total filter filter_account filter_calls": "filter filter_totals ledger_budgets",
        "account calls session terms": "session ledger ledger_budgets plans",
        "fork sql sqlite store": "ledger ledger_faults ledger_budgets",
    },
    "sources": {
        "": "sources doors engines files",
        "batches pairs": "builder files sources",
        "column_types connections databases dialects": "sql sql_command sql_groups doors",
        "comparisons": "ranking sources files",
        "grouped groups grouped_statements": "groups_door sql_groups groups_cli",
        "headers paths readers streams files": "files sources doors cli",
        "interrupt": "interrupt",
        "labels keys columns plain": "sources doors engines sql bounds",
        "progress": "builder trials cli",
        "queries rules": "sources engines bounds sql doors",
        "statements": "sql sql_command bounds",
        "bounds": "bounds sources sql_command groups_door",
        "weighting": "weighting sources",
    },
}
CASES = 2  # of a test's parameters: at first only the first and the last


def nearest(path: str) -> list[str]:
    """Return the files of tests that are nearest to a source file."""
    file = Path(path)
    table = NEAREST[file.parent.name]
    names = next((tests for stems, tests in table.items() if file.stem in stems.split()), None)
    if names is None:
        names = " ".join([file.stem.strip("_"), table.get("", "")])
    tests = [ROOT / f"tests/test_{name}.py" for name in names.split()]
    return [str(test) for test in tests if test.exists()]


class FewCases:
    """A plugin of pytest that leaves out most cases of tests that have many."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep a few of each test."""
        by_function = defaultdict(list)
        for item in items:
            by_function[item.nodeid.partition("[")[0]].append(item)
        items[:] = [
            cases[at * (len(cases) - 1) // (min(CASES, len(cases)) - 1 or 1)]
            for cases in by_function.values()
            for at in range(min(CASES, len(cases)))
        ]
