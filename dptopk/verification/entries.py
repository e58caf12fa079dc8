"""The table of mechanisms that `dptopk verify` knows: one line each."""

from dptopk.verification import limited_domain, noisy_max, peel, permute_and_flip
from dptopk.verification.registry import Entry

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        peel.ENTRY,
        limited_domain.ENTRY,
        noisy_max.ENTRY,
        permute_and_flip.ENTRY,
    )
}
