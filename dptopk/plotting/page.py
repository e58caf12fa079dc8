"""A release as one page of HTML: no script, no request, all texts escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dptopk._show import plain
from dptopk.plotting.measured import Measured, name_of, shown, shown_group, stopped, whom
from dptopk.plotting.style import STYLE

__all__ = ["MARK", "page_of"]

#: How each page begins: what is not such a page is not replaced by one.
MARK = "<!doctype html>\n<!-- a report of dptopk -->\n"
CONFIDENCE = 0.95

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
#: Nothing is loaded from anywhere, and no style or script but ours would be obeyed.
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
_E = html.escape


def page_of(released: Any, *, title: str | None, remaining: Any) -> str:
    """Return the page of a Release, or of Releases by group; see `Release.to_html`."""
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title must be a text or None, got {type(title).__name__}")
    left = None if remaining is None else _left(remaining)
    groups = isinstance(released, Mapping)
    heading = _E(name_of(title or _heading(released, groups)))
    cost = released.cost
    return "".join(
        (
            MARK,
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{heading}</title><style>{STYLE}</style></head><body><main>\n",
            f"<h1>{heading}</h1>\n",
            f"<p>Picked privately by <code>{_E(name_of(released.mechanism))}</code>, at epsilon = "
            f"{_number(cost.epsilon)} and delta = {_number(cost.delta)}.</p>\n",
            _notices(released),
            _by_group(released) if groups else _one(released),
            _section("What it cost", _cost(cost)),
            _section("What is protected", f"<p>{_E(whom(released, groups=groups))}</p>"),
            "" if left is None else _section("Budget left", left),
            "" if groups else _section("How it was asked", _asked(released.parameters)),
            "</main></body></html>\n",
        )
    )


def _heading(released: Any, groups: bool) -> str:
    number = len(released)
    if groups:
        return f"The top items of {number} group{'' if number == 1 else 's'}"
    if not number:
        return "No item came out"
    return "The top item" if number == 1 else f"The top {number} items"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>\n"


def _notices(released: Any) -> str:
    notices = []
    if not released.private:
        notices.append(
            '<p class="warn"><strong>NOT PRIVATE:</strong> the noise did not come from a secure '
            "source. This is an experiment, not to be published.</p>\n"
        )
    if said := stopped(released):
        notices.append(f'<p class="note">{_E(said)}</p>\n')
    return "".join(notices)


def _one(release: Any) -> str:
    if not len(release):
        return ""
    measured = shown(release, CONFIDENCE)
    body = "".join(_rows(release, measured, _scale([measured])))
    return _table(f"<tbody>{body}</tbody>", [measured], release.ordered)


def _by_group(releases: Any) -> str:
    if not any(len(release) for release in releases.values()):
        return ""
    each = {group: shown(release, CONFIDENCE) for group, release in releases.items()}
    scale, span = _scale(each.values()), 2 if not any(each.values()) else 5
    bodies = []
    for group, release in releases.items():
        nothing = "" if len(release) else ' <span class="quiet">nothing came out</span>'
        name = f"<bdi>{_E(shown_group(group))}</bdi>{nothing}"
        head = f'<tr class="group"><th scope="rowgroup" colspan="{span}">{name}</th></tr>'
        bodies.append(f"<tbody>{head}{''.join(_rows(release, each[group], scale))}</tbody>")
    ordered = all(release.ordered for release in releases.values())
    return _table("".join(bodies), each.values(), ordered)


def _table(bodies: str, each: Iterable[Measured | None], ordered: bool) -> str:
    measured = next((found for found in each if found is not None), None)
    heads = ["rank" if ordered else "", "item" if ordered else "item (in no order)"]
    kinds, notes = ["rank", "item"], []
    if measured is None:
        notes.append("No counts were released: only which items they are.")
    else:
        heads += [measured.title, "", ""]
        kinds += ["number", "ends", "bar"]
        if measured.intervals is not None:
            heads[3] = f"{CONFIDENCE:.0%} interval"
            notes.append(
                f"Each interval holds the true number with a probability of {CONFIDENCE:.0%} "
                "or more."
            )
        if measured.threshold is not None:
            notes.append(
                f"The dashed line is the threshold of {_number(measured.threshold)}: what is "
                "below it does not come out."
            )
    row = "".join(
        f'<th scope="col" class="{kind}">{head}</th>'
        for kind, head in zip(kinds, heads, strict=True)
    )
    said = f'<p class="quiet">{" ".join(notes)}</p>' if notes else ""
    return f"<table><thead><tr>{row}</tr></thead>{bodies}</table>{said}\n"


def _rows(release: Any, measured: Measured | None, scale: tuple[float, float]) -> Iterator[str]:
    for place, item in enumerate(release.items):
        rank = str(place + 1) if release.ordered else "–"
        cells = [f'<td class="rank">{rank}</td>']
        cells.append(f'<td class="item"><bdi>{_E(name_of(item))}</bdi></td>')
        if measured is not None:
            value, ends = measured.values[place], None
            cells.append(f'<td class="number">{_form(value, measured)}</td>')
            between = ""
            if measured.intervals is not None:
                ends = measured.intervals[place]
                between = " – ".join(_form(end, measured) for end in ends)
            cells.append(f'<td class="ends">{between}</td>')
            bar = _bar(value, ends, measured.threshold, scale)
            cells.append(f'<td class="bar">{bar}</td>')
        yield f"<tr>{''.join(cells)}</tr>\n"


def _form(value: float, measured: Measured) -> str:
    return format(value, "," + measured.form)


def _scale(each: Iterable[Measured | None]) -> tuple[float, float]:
    """Return the least and the largest number that bars show; 0 is among them."""
    ends = [0.0]
    for measured in each:
        if measured is not None:
            ends += map(float, measured.values)
            ends += (float(end) for pair in measured.intervals or () for end in pair)
            ends += [] if measured.threshold is None else [measured.threshold]
    return min(ends), max(ends)


def _bar(value: float, ends: Any, threshold: float | None, scale: tuple[float, float]) -> str:
    """Return a bar from 0 to the value, its interval and the threshold, on 1,000 units."""
    low, high = scale

    def at(number: float) -> float:
        return 0.0 if high == low else round(1000 * (float(number) - low) / (high - low), 1)

    left, right = sorted((at(0), at(value)))
    parts = [f'<rect x="{left:g}" y="4" width="{right - left:g}" height="12"/>']
    if ends is not None:
        a, b = map(at, ends)
        parts.append(f'<path class="ends" d="M{a:g} 10H{b:g}M{a:g} 5V15M{b:g} 5V15"/>')
    if threshold is not None:
        parts.append(f'<path class="cut" d="M{at(threshold):g} 0V20"/>')
    return (
        '<svg viewBox="-4 0 1008 20" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false">{"".join(parts)}</svg>'
    )


def _cost(cost: Any) -> str:
    pairs = {"epsilon": _number(cost.epsilon), "delta": _number(cost.delta)}
    if cost.rho is not None:
        pairs["rho (zCDP)"] = _number(cost.rho)
    meaning = ""
    if cost.epsilon <= 20:  # past it the factor says nothing
        plus = ", plus delta" if cost.delta else ""
        meaning = (
            "<p>Of two neighbouring data sets, one gives any outcome with at most "
            f"{math.exp(cost.epsilon) + 5e-3:.2f} times the probability of the other{plus}.</p>"
        )
    return f"{_pairs({**pairs, 'theorem': _E(name_of(cost.theorem))})}{meaning}"


def _left(remaining: Any) -> str:
    amounts: dict[str, Any] = getattr(remaining, "_asdict", dict)()
    if not amounts or not all(isinstance(amount, (int, float)) for amount in amounts.values()):
        raise TypeError(
            "remaining must be what a Session, Filter or budget of a Ledger says by that name, "
            f"got {type(remaining).__name__}"
        )
    pairs = {_E(name): _number(value) for name, value in amounts.items()}
    return _pairs(pairs) + '<p class="quiet">Of all that the budget is for, after this release.</p>'


def _asked(parameters: Mapping[str, Any]) -> str:
    given = {n: v for n, v in parameters.items() if v is not None}
    return _pairs({_E(name_of(name)): _value(value) for name, value in given.items()})


def _value(value: Any) -> str:
    value = plain(value)
    if isinstance(value, Mapping):  # of a mechanism inside another
        return "; ".join(f"{_E(name_of(n))} {_value(v)}" for n, v in value.items())
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number(value)
    return _E(name_of(value))


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if math.isfinite(value) else "∞"


def _pairs(pairs: Mapping[str, str]) -> str:
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs.items())
    return f"<dl>{rows}</dl>"
