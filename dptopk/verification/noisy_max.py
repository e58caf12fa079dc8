"""The entry of noisy_max: one pick, three noises, counts and scores, largest and least."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms.noisy_max import noisy_max as mechanism
from dptopk.reference import noisy_max
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import UNIT, Public, at_least, floats, rows
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, claimed

EPSILON = 1.0
NOISES: Any = ("exponential", "gumbel", "laplace")
COUNTS = (3, 2, 1, 0)
DRAWS = 100_000  # sees a scale that is off by 5%
# How near the worst pair of 4 items with counts 0 to 3 comes, by noise: counts, scores.
ATTAINS = {"exponential": (0.9999, 0.9999), "gumbel": (0.98, 0.92), "laplace": (0.999, 0.99)}


def _law(noise: str, *, scale: float = 1 / EPSILON, largest: bool = True) -> Law:
    return partial(noisy_max.law, scale=scale, noise=noise, largest=largest)


def _private() -> Iterator[PrivacyCheck]:
    """Pure: scale 1 / epsilon where counts move one way, 2 / epsilon where they may cross."""
    for noise, monotone, largest in itertools.product(NOISES, (True, False), (True, False)):
        scale = (1 if monotone else 2) / EPSILON
        yield PrivacyCheck(
            f"{noise}, {'counts' if monotone else 'general scores'}, "
            f"{'largest' if largest else 'least'}",
            _law(noise, scale=scale, largest=largest),
            (Claim(EPSILON, attains=ATTAINS[noise][not monotone]),),
            monotone=monotone,
        )


def _least_of_sums(counts: Counts) -> dict[Any, float]:
    """Report the least of count + exponential noise: the noise on the wrong side.

    Between two counts in order, m of the sums can be the least: the chance that
    it is item i falls by exp(-m) a unit.
    """
    cuts = [*sorted(set(counts)), math.inf]
    chances = dict.fromkeys(((item,) for item in range(len(counts))), 0.0)
    for low, high in itertools.pairwise(cuts):
        running = [c for c in counts if c <= low]
        m, ahead = len(running), math.exp(sum(running) - len(running) * low)
        share = ahead * -math.expm1(-m * (high - low)) / m
        for item, c in enumerate(counts):
            if c <= low:
                chances[item,] += share
    return chances


def _naive(
    counts: Counts, draws: int, seed: int, *, noise: str = "exponential", **changes: Any
) -> Iterable[tuple[int, ...]]:
    # Not the words that SeededRng(seed) draws.
    rng, options = np.random.default_rng([seed, 1]), {"scale": 1 / EPSILON, **changes}
    picks = noisy_max.naive_sample(counts, draws=draws, rng=rng, noise=noise, **options)
    return rows(picks)


def _noise_kept(counts: Counts, draws: int, seed: int) -> Iterable[tuple[int, ...]]:
    """One draw of noise for every thousand picks."""
    drawn = _naive(counts, draws // 1000, seed)
    return itertools.chain.from_iterable([pick] * 1000 for pick in drawn)


def _sampler(
    label: str,
    sampler: Any,
    *,
    noise: str = "exponential",
    largest: bool = True,
    power: bool = False,
) -> SamplerCheck:
    return SamplerCheck(
        label, _law(noise, largest=largest), sampler, COUNTS, draws=DRAWS, seed=23,
        sees=_law(noise, largest=largest, scale=0.95 / EPSILON) if power else None,
    )  # fmt: skip


# ---- tapes


def _case(seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Return scores of some dtype, and how to pick from them."""
    options = {
        "noise": NOISES[seed % 3],
        "largest": seed // 3 % 2 == 0,
        "monotone": seed // 6 % 2 == 0,
    }
    counts = tapes.counts(seed)
    if seed % 5:  # few items that lie close: where one noise picks other than another
        counts = counts[:4] % 8
    return tapes.as_scores(counts, seed, monotone=bool(options["monotone"])), options


def _kernel(seed: int, rng: TapeRng, *, epsilon: float = 0.3, **changes: Any) -> tuple[int, ...]:
    scores, options = _case(seed)
    return mechanism(scores, epsilon=epsilon, rng=rng, **{**options, **changes}).items


def _twin(seed: int) -> tuple[int, ...]:
    scores, options = _case(seed)
    scale = scale_of(0.3, 1.0 if options.pop("monotone") else 2.0)
    numbers: Sequence[Any] = scores.tolist()
    return noisy_max.sample(tapes.read(seed), numbers, scale=scale, **options)


ENTRY = Entry(
    "noisy_max",
    checks=(
        *_private(),
        *(
            _sampler(
                f"noisy_max(), {n}",
                Public(partial(mechanism, epsilon=EPSILON, noise=n), covers=at_least(EPSILON)),
                noise=n,
                power=True,
            )
            for n in NOISES
        ),
        _sampler(
            "noisy_max(), least of floats, general",
            Public(
                partial(
                    mechanism,
                    epsilon=2 * EPSILON,
                    noise="exponential",
                    largest=False,
                    sensitivity=UNIT,
                    monotone=False,
                ),
                data=floats,
                covers=at_least(2 * EPSILON),
            ),
            largest=False,
            power=True,
        ),
        tapes.check("noisy_max() and its twin on the same tapes", _kernel, _twin, 480),
        *(
            _sampler(f"NumPy baseline, {n}", partial(_naive, noise=n), noise=n, power=True)
            for n in NOISES
        ),
    ),
    broken=(
        *(
            claimed(f"{n} noise 5% too small", _law(n, scale=0.95 / EPSILON), EPSILON)
            for n in NOISES
        ),
        *(
            claimed(f"{n} noise for counts, on general scores", _law(n), EPSILON, monotone=False)
            for n in NOISES
        ),
        claimed("half the noise: scale 1 / (2 epsilon)", _law("exponential", scale=0.5), EPSILON),
        claimed("least of the sums with exponential noise", _least_of_sums, EPSILON),
        _sampler("noise 5% too small, drawn", partial(_naive, scale=0.95 / EPSILON)),
        _sampler("Gumbel noise for exponential, drawn", partial(_naive, noise="gumbel")),
        _sampler("Laplace noise for exponential, drawn", partial(_naive, noise="laplace")),
        _sampler("noise kept for a thousand picks, drawn", _noise_kept),
        _sampler("the least for the largest, drawn", partial(_naive, largest=False)),
        tapes.check("noise 20% too small, same tapes", partial(_kernel, epsilon=0.375), _twin, 480),
        tapes.check(
            "Gumbel noise always, same tapes", partial(_kernel, noise="gumbel"), _twin, 480
        ),
        tapes.check("half the noise, same tapes", partial(_kernel, epsilon=0.6), _twin, 480),
    ),
)
