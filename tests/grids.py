"""Wide tables of cases, of which `make test` runs a part that leaves nothing out altogether."""

import itertools

import pytest


def thinned(*axes, keep):
    """Return the params of all combinations, most of them for `make test-full` only.

    One in `keep` stays in `make test`: those whose places on the axes add up to a multiple of it.
    So any two values of two axes still meet, wherever another axis has at least `keep` values.
    """
    found = []
    for places in itertools.product(*map(enumerate, axes)):
        marks = [mark for _, one in places for mark in getattr(one, "marks", ())]
        values = [one.values[0] if hasattr(one, "marks") else one for _, one in places]
        if sum(place for place, _ in places) % keep and pytest.mark.full not in marks:
            marks.append(pytest.mark.full)
        found.append(pytest.param(*values, marks=marks))
    return found
