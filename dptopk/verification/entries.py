"""The table of mechanisms that `dptopk verify` knows: one line each."""

from dptopk.verification import limited_domain, limited_domain_laplace, noisy_counts, peel, session
from dptopk.verification.registry import Entry

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        peel.ENTRY,
        limited_domain.ENTRY,
        limited_domain_laplace.ENTRY,
        noisy_counts.ENTRY,
        session.ENTRY,
    )
}
