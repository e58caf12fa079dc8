"""Properties that Hypothesis tries: the same examples each time, and more of them if `wide`.

DPTOPK_FUZZ_EXAMPLES=N tries N others of each, by chance: CONTRIBUTING.md.
"""

import os

from hypothesis import HealthCheck, Phase, given, settings

LONG = int(os.environ.get("DPTOPK_FUZZ_EXAMPLES", "0"))


def holds(check, *strategies, number, wide=False, times=10):
    """Try a function, which asserts, on so many values of these, `times` as many if wide."""
    given(*strategies)(
        settings(
            max_examples=LONG or (times * number if wide else number),
            derandomize=not LONG,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )(check)
    )()
