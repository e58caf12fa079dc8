"""The pages: each is listed, and the reference has every public name."""

import re
from pathlib import Path

import pytest

import dptopk

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = (DOCS / "site" / "reference.rst").read_text()
WHOLE = ("accounting", "metrics", "utility", "ranking")  # modules of which all is shown


@pytest.mark.parametrize("name", sorted(dptopk.__all__))
def test_the_reference_has_every_public_name(name):
    if name in WHOLE:
        assert f".. automodule:: dptopk.{name}\n" in REFERENCE
        assert getattr(dptopk, name).__all__
    elif name.endswith("Error"):
        assert ".. automodule:: dptopk.errors\n" in REFERENCE
    else:
        assert re.search(rf"^\.\. auto(class|function):: ([\w.]+\.)?{name}$", REFERENCE, re.M)


def test_every_page_is_in_both_lists():
    index, site = (DOCS / "README.md").read_text(), (DOCS / "site" / "index.md").read_text()
    for page in DOCS.glob("*.md"):
        if page.name != "README.md":
            assert f"]({page.name})" in index, page.name
            assert f"\n../{page.stem}\n" in site, page.name


def test_the_page_of_promises_says_no_more_than_the_checks_hold():
    """What they demand at least of the claims of each entry is the figure there."""
    from dptopk.verification.entries import ENTRIES

    rows = re.findall(r"^\| (.+?) \| .+ \| ([\d.]*) ?\|$", (DOCS / "privacy.md").read_text(), re.M)
    used = {name: figure for names, figure in rows for name in re.findall(r"\w+", names)}
    shown = 0
    for name, entry in ENTRIES.items():
        least = max((c.attains for check in entry.checks for c in getattr(check, "claims", ())),
                    default=0.0)  # fmt: skip
        if used.get(name) and least:
            assert float(used[name]) <= least < float(used[name]) + 0.01, name
            shown += 1
    assert shown >= 12
