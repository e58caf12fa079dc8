"""Wide tables of cases, of which `make test` runs a part that leaves nothing out altogether."""

import itertools

import pytest


def thinned(*axes, keep):
    """Return the params of all combinations, most of them for `make test-full` only.

    One in `keep` stays in `make test`: those whose places on the axes add up to a multiple of it.
    So any two values of two axes still meet, wherever another axis has at least `keep` values.
    """
    found = []
    for places in itertools.product(*(range(len(axis)) for axis in axes)):
        chosen = [axis[place] for axis, place in zip(axes, places, strict=True)]
        marks = [mark for one in chosen for mark in getattr(one, "marks", ())]
        values = [one.values[0] if hasattr(one, "marks") else one for one in chosen]
        if sum(places) % keep and pytest.mark.full not in marks:
            marks.append(pytest.mark.full)
        found.append(pytest.param(*values, marks=marks))
    return found
