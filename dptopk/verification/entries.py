"""The table of mechanisms that `dptopk verify` knows: one line each."""

from dptopk.verification import limited_domain, peel, sparse_vector, stable_release, top_stable
from dptopk.verification.registry import Entry

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        peel.ENTRY,
        limited_domain.ENTRY,
        sparse_vector.ENTRY,
        stable_release.ENTRY,
        top_stable.ENTRY,
    )
}
