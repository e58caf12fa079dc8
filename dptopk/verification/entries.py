"""The table of mechanisms that `dptopk verify` knows: one line each."""

from dptopk.verification import joint, limited_domain, noisy_counts, peel
from dptopk.verification.registry import Entry

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        peel.ENTRY,
        limited_domain.ENTRY,
        joint.ENTRY,
        noisy_counts.ENTRY,
    )
}
