"""The table of mechanisms that `dptopk verify` knows: one line each."""

from dptopk.verification import gamma, limited_domain, peel
from dptopk.verification.registry import Entry

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        peel.ENTRY,
        limited_domain.ENTRY,
        gamma.ENTRY,
    )
}
