"""The checks of `dptopk.verify`; docs/verification.md says how to add a mechanism.

verify.py         what is called: `verify` for a mechanism of yours, `run` for ours
privacy.py        every small histogram against every neighbour, exactly
sampling.py       draws against the exact law; a kernel against its reference
registry.py       what an entry is: checks that must pass, broken twins that must not
bounded_range.py  the composition bound, computed apart from dptopk.accounting
peel.py ...       one entry per mechanism, by its stem
entries.py        the table of them
"""
