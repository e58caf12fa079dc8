"""The table of mechanisms that `dptopk verify` knows: one line each."""

from dptopk.verification import (
    a_oqr,
    canonical,
    charges,
    gamma,
    groups,
    joint,
    limited_domain,
    limited_domain_laplace,
    noisy_counts,
    noisy_max,
    oneshot,
    peel,
    permute_and_flip,
    ranking,
    restricted,
    session,
    sparse_vector,
    stable_release,
    top_stable,
    truncated,
    weighted,
)
from dptopk.verification.registry import Entry

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        peel.ENTRY,
        limited_domain.ENTRY,
        limited_domain_laplace.ENTRY,
        noisy_counts.ENTRY,
        noisy_max.ENTRY,
        permute_and_flip.ENTRY,
        oneshot.ENTRY,
        gamma.ENTRY,
        joint.ENTRY,
        canonical.ENTRY,
        sparse_vector.ENTRY,
        stable_release.ENTRY,
        a_oqr.ENTRY,
        top_stable.ENTRY,
        weighted.ENTRY,
        restricted.ENTRY,
        ranking.ENTRY,
        session.ENTRY,
        groups.ENTRY,
        truncated.ENTRY,
        charges.ENTRY,
    )
}
