"""Why nothing can notice some mutants of the list that docs/mutants.json keeps.

By their places in the commit that is named there; each reason says what stays true.
"""

from __future__ import annotations

EXPLAINED: dict[str, tuple[str, ...]] = {
    "how much is looked at, kept or tried, or when: the cost, never the result": (
        "csrc/sweep.c:36:81",
        "csrc/sweep.c:136:33",
        "csrc/rng.c:81:18",
        "csrc/race.c:78:64",
        "csrc/race.c:108:31",
        "csrc/adaptive.c:241:41",
        "csrc/joint.c:178:17",
        "csrc/joint.c:349:26",
        "csrc/paths.c:341:20",
        "csrc/canonical.c:201:32",
        "csrc/filter.c:165:40",
        "dptopk/budget/sqlite.py:161:38",
        "dptopk/accounting/inverse.py:258:16",
        "dptopk/accounting/inverse.py:261:38",
        "dptopk/accounting/adaptive.py:193:16",
        "dptopk/accounting/compositions.py:34:22",
        "dptopk/mechanisms/weighted.py:422:55",
        "dptopk/mechanisms/weighted.py:422:43",
        "dptopk/mechanisms/noisy_topk.py:30:10",
        "dptopk/mechanisms/_groups.py:19:7",
        "dptopk/mechanisms/_groups.py:99:55",
        "dptopk/mechanisms/_select.py:204:51",
        "dptopk/mechanisms/_select.py:240:60",
        "dptopk/mechanisms/limited_domain_laplace.py:268:19",
        "dptopk/sources/pairs.py:33:29",
        "dptopk/_core.pyx:935:46",
        "dptopk/_core.pyx:1661:13",
        "dptopk/_core.pyx:862:15",
    ),
    "scores that are offered in vain are compared with the bound once more": (
        "csrc/filter.c:181:38",
    ),
    "an odd number is compared with a power of two": ("dptopk/mechanisms/gamma.py:136:50",),
    "what it returns is not looked at: -1 alone is an error": ("dptopk/_core.pyx:1246:11",),
    "of a seeded source, which is not private, no fresh word is 0: a chance of 2^-64": (
        "dptopk/_core.pyx:135:35",
    ),
    "room for no rows: the C library gives some all the same": ("dptopk/_core.pyx:1138:48",),
    "what an engine returns has columns of one length": ("dptopk/sources/grouped.py:116:46",),
    "a folder of ours that can't be removed: another error at the end": (
        "dptopk/sources/pairs.py:305:44",
    ),
    "the same number, with its zeros written out or not": ("dptopk/sources/labels.py:208:23",),
    "room for more picks than there can be; of the last row it reads a word past the array's end, "
    "which only a checker of memory would see": ("dptopk/_core.pyx:1098:83",),
    "of two picks in order only the first is taken: that of one": (
        "dptopk/mechanisms/top_stable.py:327:44",
    ),
    "at equality of two doubles both ways are right": (
        "csrc/sweep.c:209:25",
        "csrc/sweep.c:211:25",
        "csrc/discrete.c:55:27",
        "csrc/canonical.c:76:10",
        "dptopk/budget/sqlite.py:241:62",
    ),
    "the scratch it uses instead is free at that time": (
        "csrc/paths.c:336:60",
        "csrc/adaptive.c:225:54",
        "dptopk/_core.pyx:1243:39",
    ),
    "the check of the last pick reads scratch that was not written: zero where it is fresh, and "
    "then it compares with more values than it must; only a checker of memory would see it": (
        "csrc/sweep.c:272:34",
    ),
    "a bound gets wider, and stays a bound": (
        "csrc/paths.c:265:53",
        "dptopk/accounting/stability.py:130:64",
        "dptopk/budget/filter.py:362:59",
    ),
    "both totals are upper bounds, and it is another one, or the smaller, that is taken": (
        "dptopk/accounting/adaptive.py:160:31",
        "dptopk/accounting/adaptive.py:160:47",
        "dptopk/accounting/adaptive.py:34:35",
    ),
    "what a row may lose (2^-72 or so) is far below what it is allowed to, which counts twice in "
    "the error that is claimed": (
        "csrc/paths.c:138:22",
        "csrc/paths.c:190:49",
        "csrc/paths.c:190:63",
    ),
    "other terms of the bound have slack for 25 roundings, unless all go one way and libm errs "
    "as much as it may": ("csrc/canonical.c:59:37",),
    "past 1e300 scales: a chance of 0 either way": ("csrc/canonical.c:74:63",),
    "an exponential above 752: a chance of e^-752": ("csrc/sparse_vector.c:25:13",),
    "`draw.c` was written anew after this list was made (0d6a8ab): the place is gone": (
        "csrc/draw.c:67:16",
        "csrc/draw.c:103:48",
        "csrc/draw.c:183:59",
        "csrc/draw.c:246:76",
        "csrc/draw.c:337:36",
        "csrc/draw.c:345:73",
        "csrc/draw.c:348:45",
    ),
}
