"""What the probes share: one small call of each library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

COUNTS = np.array([900, 700, 40, 30, 20, 10, 5, 2])


def names(*words: str) -> bool:
    """Tell whether OpenDP or diffprivlib has a public call with such a name."""
    import diffprivlib.mechanisms

    opendp = opendp_prelude()
    found = [*dir(opendp.m), *dir(opendp.t), *dir(opendp.c), *dir(diffprivlib.mechanisms)]
    return any(word in name.lower() for name in found for word in words)


def opendp_prelude() -> Any:
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    return opendp


def opendp_top(k: int, scale: float, *, zcdp: bool = False, type_: str = "i64") -> Any:
    opendp = opendp_prelude()
    measure = opendp.zero_concentrated_divergence if zcdp else opendp.max_divergence
    # Floats that may be NaN are refused when it is made; say that they are not.
    atoms = (
        opendp.atom_domain(T=type_) if type_ == "i64" else opendp.atom_domain(T=type_, nan=False)
    )
    return opendp.m.make_noisy_top_k(
        opendp.vector_domain(atoms), opendp.linf_distance(T=type_, monotonic=True), measure(),
        k=k, scale=scale,
    )  # fmt: skip


def gumbel(counts: np.ndarray, scale: float, k: int) -> np.ndarray:
    noisy = counts + np.random.default_rng().gumbel(scale=scale, size=counts.size)
    return np.argsort(-noisy)[:k]


def torch_gumbel(counts: np.ndarray, scale: float, k: int) -> np.ndarray:
    import torch

    scores = torch.from_numpy(counts.astype(np.float64))
    noise = -torch.log(torch.empty_like(scores).exponential_()) * scale
    return torch.topk(scores + noise, k).indices.numpy()


def exponential(counts: Any, epsilon: float = 1.0) -> int:
    import diffprivlib.mechanisms

    its = diffprivlib.mechanisms.Exponential(
        epsilon=epsilon, sensitivity=1, utility=[float(c) for c in counts], monotonic=True
    )
    return its.randomise()


def refuses(draw: Callable[[], Any]) -> bool:
    try:
        draw()
    except Exception:
        return True
    return False
