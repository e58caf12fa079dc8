"""Events by group, through every door: the same counts, whatever the engine."""

import datetime as dt
import random
from collections import Counter, defaultdict
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from doors import ENGINES, FILES, STREAMS, TABLES, through, write

import dptopk as dp
from dptopk.sources import labels as kinds
from dptopk.sources.groups import groups_of

DOORS = [
    *(name for name in TABLES if "pair of p" not in name), *FILES, *STREAMS,
    *(pytest.param(name, marks=pytest.mark.full) for name in ENGINES),
]  # fmt: skip
QUICK = ["pandas", "polars lazy", "pyarrow", "duckdb", "dict"]
GROUPS = ["FR", "DE", "XX"]


def table(n=600, users=40, seed=3, **more):
    """Events of users in five countries, of which two are listed and one is not there."""
    rng = random.Random(seed)
    columns = {
        "user": [f"u{rng.randrange(users)}" for _ in range(n)],
        "item": [f"item {int(rng.paretovariate(1)) % 9}" for _ in range(n)],
        "by": [rng.choice(["FR", "DE", "IT", "GB", "ES"]) for _ in range(n)],
    }
    return pa.table({**columns, **more})


def counted(hs):
    """Return the counts by label in each group."""
    cut = hs.k_bar or 10**6
    found = {}
    for group, h in hs.items():
        counts, items, _ = h.cut(cut)
        found[group] = dict(zip(h.labels_of(items) or (), counts.tolist(), strict=True))
    return found


def by_hand(events):
    """Count distinct users by group and item."""
    triples = set(zip(*(events.column(c).to_pylist() for c in ("user", "by", "item")), strict=True))
    found = {group: Counter() for group in GROUPS}
    for _, group, item in triples:
        if group in found:
            found[group][item] += 1
    return {group: dict(counts) for group, counts in found.items()}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_counts_alike(door, tmp_path):
    events = table()
    hs = through(door, events, tmp_path, by="by", groups=GROUPS, max_groups_per_user=9)
    assert isinstance(hs, dp.Histograms)
    assert list(hs) == GROUPS
    assert counted(hs) == by_hand(events)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_keeps_the_same_of_a_user(door, tmp_path):
    bounds = {"max_groups_per_user": 1, "max_items_per_user": 2, "k_bar": 4}
    events, wanted = table(), None
    for name in (door, "dict"):
        hs = through(name, events, tmp_path, by="by", groups=GROUPS, **bounds)
        found = {g: (list(hs[g].labels), hs[g].cut(4)[0].tolist(), hs[g].cut(4)[2]) for g in hs}
        assert wanted in (None, found)
        wanted = found


def of_users(events, **options):
    """Count each user alone, and add up."""
    users, total = events.column("user").to_pylist(), defaultdict(Counter)
    for user in sorted(set(users)):
        alone = events.filter(pa.array([other == user for other in users])).to_pydict()
        found = counted(dp.Histogram.from_events(alone, user="user", item="item", **options))
        yield user, found
        for group, counts in found.items():
            total[group].update(counts)


@pytest.mark.parametrize("door", ["dict", "duckdb"])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("items", [None, 1, 3])
def test_what_a_user_keeps_is_of_their_own_rows_alone(door, most, items, tmp_path):
    """The whole is the sum of its users: one user more adds 1 to what they keep, no more."""
    events = table(n=200, users=12)
    options = {
        "by": "by", "groups": [*GROUPS, "IT"], "max_groups_per_user": most,
        "max_items_per_user": items,
    }  # fmt: skip
    total = defaultdict(Counter)
    for _, alone in of_users(events, **options):
        there = {group: counts for group, counts in alone.items() if counts}
        assert len(there) <= most
        for group, counts in there.items():
            assert len(counts) <= (items or 9)
            assert set(counts.values()) == {1}
            total[group].update(counts)
    whole = counted(through(door, events, tmp_path, **options))
    assert {g: c for g, c in whole.items() if c} == {g: dict(c) for g, c in total.items()}


def test_a_bound_by_popularity_is_no_sum_of_users():
    """The check above rejects what keeps the group that most users have."""
    events = table(n=200, users=12)
    rows = set(zip(*(events.column(c).to_pylist() for c in ("user", "by")), strict=True))

    def kept(rows):
        size = Counter(group for _, group in rows)
        groups_of_user = defaultdict(list)
        for user, group in rows:
            groups_of_user[user].append(group)
        return Counter(max(g, key=lambda x: (size[x], x)) for g in groups_of_user.values())

    apart = sum((kept({row for row in rows if row[0] == u}) for u, _ in rows), Counter())
    assert kept(rows) != apart


@pytest.mark.parametrize("door", QUICK)
def test_rows_of_other_groups_are_ignored_before_the_bound(door, tmp_path):
    events = pa.table(
        {"user": ["a"] * 30, "item": ["x"] * 30, "by": [f"g{i}" for i in range(29)] + ["FR"]}
    )
    hs = through(door, events, tmp_path, by="by", groups=["FR"], max_groups_per_user=1)
    assert counted(hs) == {"FR": {"x": 1}}


@pytest.mark.parametrize("door", QUICK)
def test_items_of_a_domain_in_every_group(door, tmp_path):
    domain = ["item 1", "item 2", "nobody's"]
    events = table()
    hs = through(
        door, events, tmp_path, by="by", groups=GROUPS, max_groups_per_user=9, domain=domain
    )
    assert hs.known_domain
    for group, counts in by_hand(events).items():
        assert hs[group].labels == domain
        assert hs[group].counts.tolist() == [counts.get(item, 0) for item in domain]
    assert len(dp.peel(hs, k=2, epsilon=1.0)["XX"]) == 2


@pytest.mark.parametrize("door", QUICK)
def test_several_columns_are_tuples(door, tmp_path):
    years = [2023 + i % 2 for i in range(600)]
    groups = [("FR", 2023), ("DE", 2024), ("XX", 1)]
    frame = TABLES[door](table(year=years))
    hs = dp.Histogram.from_events(
        frame, user="user", item="item", by=["by", "year"], groups=groups, max_groups_per_user=1
    )
    assert list(hs) == groups
    plain = table(year=years).to_pydict()
    wanted = dp.Histogram.from_events(
        plain, user="user", item="item", by=["by", "year"], groups=groups, max_groups_per_user=1
    )
    assert counted(hs) == counted(wanted)
    assert sum(sum(c.values()) for c in counted(hs).values()) > 20


@pytest.mark.parametrize("door", QUICK)
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_weights_of_pairs_where_groups_are_read_off_the_data(door, norm, tmp_path):
    events = table()
    hs = through(door, events, tmp_path, by="by", soft_cap=2, norm=norm, max_items_per_user=6)
    plain = through("dict", events, tmp_path, by="by", soft_cap=2, norm=norm, max_items_per_user=6)
    assert counted(hs) == counted(plain)
    assert set(hs) == {"FR", "DE", "IT", "GB", "ES"}
    pairs = [
        (user, (group, item))
        for user, group, item in zip(
            *(events.column(c).to_pylist() for c in ("user", "by", "item")), strict=True
        )
    ]
    uncut = through(door, events, tmp_path, by="by", soft_cap=2, norm=norm)
    whole = dp.Histogram.from_events(pairs, user="user", item="item", soft_cap=2, norm=norm)
    by_pair = dict(zip(whole.labels, whole.counts.tolist(), strict=True))
    flat = {(g, item): n for g, counts in counted(uncut).items() for item, n in counts.items()}
    assert flat == by_pair
    assert dp.weighted(hs, k=1, epsilon=50, delta=0.5)["FR"].labels == ("item 1",)


@pytest.mark.parametrize("door", QUICK)
def test_groups_that_were_found_have_no_items_that_nobody_has(door, tmp_path):
    """One person alone in a group would make a candidate of every item of the domain."""
    events = pa.table({"user": ["u", "v"], "item": ["b", "a"], "where": ["FR", "DE"]})
    hs = through(door, events, tmp_path, by="where", domain=["a", "b", "c"], soft_cap=1)
    assert {group: list(h.labels) for group, h in hs.items()} == {"DE": ["a"], "FR": ["b"]}
    assert not hs.known_domain


@pytest.mark.parametrize("door", QUICK)
def test_no_events_at_all(door, tmp_path):
    nothing = table(n=0).cast(pa.schema([(c, pa.string()) for c in ("user", "item", "by")]))
    hs = through(door, nothing, tmp_path, by="by", groups=GROUPS, max_groups_per_user=1)
    assert counted(hs) == {"FR": {}, "DE": {}, "XX": {}}
    found = through(door, nothing, tmp_path, by="by", soft_cap=1, max_items_per_user=3)
    assert len(dp.weighted(found, k=1, epsilon=1.0, delta=1e-6)) == 0


@pytest.mark.parametrize("door", [*QUICK, "rows"])
def test_nulls_are_named_or_left_out(door, tmp_path):
    for column, place in (("user", 0), ("item", 1), ("by", 2)):
        row = ["a", "x", "FR"]
        row[place] = None
        events = pa.table(
            {
                c: pa.array(["b", value])
                for c, value in zip(("user", "item", "by"), row, strict=True)
            }
            | {"by": pa.array(["FR", row[2]])}
        )
        options = {"by": "by", "groups": ["FR"], "max_groups_per_user": 1}
        with pytest.raises(dp.SourceError, match=f"column '{column}' holds nulls"):
            through(door, events, tmp_path, **options)
        assert (
            sum(counted(through(door, events, tmp_path, nulls="drop", **options))["FR"].values())
            == 1
        )


@pytest.mark.parametrize("door", QUICK)
def test_enough_events_of_a_user_in_a_group(door, tmp_path):
    events = pa.table(
        {"user": ["a", "a", "b", "b"], "item": ["x"] * 4, "by": ["FR", "FR", "FR", "DE"]}
    )
    hs = through(
        door, events, tmp_path, by="by", groups=["FR", "DE"], max_groups_per_user=2, min_events=2
    )
    assert counted(hs) == {"FR": {"x": 1}, "DE": {}}


# ---- periods


def times(*stamps, kind=None):
    n = len(stamps)
    return pa.table(
        {"user": [f"u{i}" for i in range(n)], "item": ["x"] * n, "by": pa.array(stamps, kind)}
    )


JANUARY = [dt.date(2024, 1, day) for day in (1, 2)]


@pytest.mark.parametrize("door", QUICK)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", None])
def test_days(door, unit, tmp_path):
    """The first moment is of its day, and the first one past it is of the next."""
    stamps = [
        dt.datetime(2023, 12, 31, 23, 59, 59), dt.datetime(2024, 1, 1),
        dt.datetime(2024, 1, 1, 23, 59, 59), dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 3),
    ]  # fmt: skip
    kind = pa.date32() if unit is None else pa.timestamp(unit)
    values = [stamp.date() for stamp in stamps] if unit is None else stamps
    hs = through(
        door, times(*values, kind=kind), tmp_path,
        by="by", groups=JANUARY, every="1d", max_groups_per_user=1,
    )  # fmt: skip
    assert list(hs) == JANUARY
    assert counted(hs) == {JANUARY[0]: {"x": 2}, JANUARY[1]: {"x": 1}}


@pytest.mark.parametrize("door", QUICK)
def test_days_of_a_zone_have_the_hours_that_they_have(door, tmp_path):
    paris = ZoneInfo("Europe/Paris")
    day = dt.datetime(2024, 3, 31, tzinfo=paris)  # of 23 hours: 30th 23:00 to 31st 22:00 UTC
    utc = [dt.datetime(2024, 3, d, h, m, tzinfo=dt.timezone.utc)
           for d, h, m in ((30, 22, 59), (30, 23, 0), (31, 21, 59), (31, 22, 0))]  # fmt: skip
    hs = through(
        door, times(*utc, kind=pa.timestamp("us", tz="UTC")), tmp_path,
        by="by", groups=[day], every="1d", max_groups_per_user=1,
    )  # fmt: skip
    assert counted(hs) == {day: {"x": 2}}


@pytest.mark.parametrize("door", QUICK)
def test_a_list_of_boundaries(door, tmp_path):
    ends = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 5), dt.datetime(2024, 3, 1)]
    stamps = [dt.datetime(2024, 1, 4, 23), dt.datetime(2024, 1, 5), dt.datetime(2024, 3, 1)]
    hs = through(
        door, times(*stamps, kind=pa.timestamp("us")), tmp_path,
        by="by", every=ends, max_groups_per_user=2,
    )  # fmt: skip
    assert counted(hs) == {ends[0]: {"x": 1}, ends[1]: {"x": 1}}


@pytest.mark.parametrize(
    ("every", "start", "end"),
    [
        ("1h", dt.datetime(2024, 1, 1, 5), dt.datetime(2024, 1, 1, 6)),
        ("6h", dt.datetime(2024, 1, 1, 5), dt.datetime(2024, 1, 1, 11)),
        ("1d", dt.datetime(2024, 2, 29), dt.datetime(2024, 3, 1)),
        ("1w", dt.date(2024, 2, 26), dt.date(2024, 3, 4)),
        ("1mo", dt.date(2024, 12, 1), dt.date(2025, 1, 1)),
        ("3mo", dt.datetime(2023, 11, 1), dt.datetime(2024, 2, 1)),
    ],
)
def test_where_periods_end(every, start, end):
    kind = kinds.TIMESTAMP if isinstance(start, dt.datetime) else kinds.DATE
    listed = groups_of("t", groups=[start], every=every, max_groups_per_user=1).listed([kind])
    assert [kind.label(keys[0]) for keys in listed.keys] == [start, end]


# ---- bad input


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"by": None}, TypeError, "groups goes with by"),
        ({"by": None, "groups": None}, TypeError, "max_groups_per_user goes with by"),
        ({"by": 3}, TypeError, "by must be the name of a column"),
        ({"by": []}, TypeError, "by must be the name of a column"),
        ({"by": ["by", "by"]}, ValueError, "by must name each column once"),
        ({"by": "item"}, ValueError, "user, item and by must be different columns"),
        ({"by": "land"}, dp.SourceError, "no column 'land'"),
        ({"groups": set(GROUPS)}, TypeError, "groups must be a sequence"),
        ({"groups": ["FR", "FR"]}, ValueError, "groups contains 'FR' twice"),
        ({"groups": ["FR", None]}, ValueError, "groups must not contain nulls"),
        ({"groups": []}, ValueError, "groups must hold at least one label"),
        ({"groups": [1, 2]}, TypeError, "column 'by' is of kind text"),
        ({"groups": [("FR",)]}, TypeError, "column 'by' is of kind text"),
        ({"max_groups_per_user": None}, TypeError, "max_groups_per_user must be given"),
        ({"max_groups_per_user": 0}, ValueError, "max_groups_per_user must be an integer >= 1"),
        ({"groups": None}, ValueError, "max_groups_per_user needs groups"),
        ({"groups": None, "max_groups_per_user": None}, TypeError, "by needs groups, fixed"),
        ({"every": "1d"}, TypeError, "groups must be dates or datetimes"),
        ({"every": "1y", "groups": JANUARY}, ValueError, "every must be a number of hours"),
        ({"every": ["a", "b"]}, ValueError, "groups go with no list of boundaries"),
        ({"every": JANUARY[:1], "groups": None}, ValueError, "at least two boundaries"),
        ({"every": JANUARY[::-1], "groups": None}, ValueError, "boundaries that rise"),
        ({"every": "1d", "groups": JANUARY}, TypeError, "column 'by' is of kind text"),
        ({"every": "1w", "groups": JANUARY}, ValueError, "periods that don't overlap"),
        ({"every": "1mo", "groups": JANUARY}, ValueError, "the first day of one"),
        ({"every": "1h", "groups": JANUARY}, TypeError, "groups of hours must be datetimes"),
        ({"domain": ["item 1"], "k_bar": 3}, ValueError, "k_bar goes with no domain"),
        ({"soft_cap": 2, "k_bar": 3}, ValueError, "k_bar goes with no soft cap"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("door", ["dict", "pyarrow"])
def test_bad_input(door, changes, error, message):
    given = {"by": "by", "groups": GROUPS, "max_groups_per_user": 1, **changes}
    with pytest.raises(error, match=message):
        dp.Histogram.from_events(TABLES[door](table()), user="user", item="item", **given)


def test_groups_that_were_found_by_a_release_first():
    """What weighted released of the groups is public from then on."""
    events = table(n=3000, users=400).to_pydict()
    people = dp.Histogram.from_events(
        events, user="user", item="by", soft_cap=2, max_items_per_user=5
    )
    found = dp.weighted(people, epsilon=0.5, delta=1e-6, rng=dp.SeededRng(1))
    hs = dp.Histogram.from_events(
        events, user="user", item="item", by="by", groups=found, max_groups_per_user=1
    )
    assert list(hs) == list(found.labels)
    assert set(hs) == {"FR", "DE", "IT", "GB", "ES"}


def test_columns_of_files_by_number(tmp_path):
    path = tmp_path / "events.csv"
    write(table(), path)
    body = tmp_path / "body.csv"
    body.write_text(path.read_text().split("\n", 1)[1])
    hs = dp.Histogram.from_files(
        body, user=1, item=2, by=3, header=False, groups=GROUPS, max_groups_per_user=9
    )
    assert counted(hs) == by_hand(table())


def test_a_claim_about_users_who_could_have_been_cut_is_refused():
    hs = dp.Histogram.from_events(
        table(), user="user", item="item", by="by", groups=GROUPS, max_groups_per_user=1
    )
    with pytest.raises(ValueError, match="is claimed of events that were not cut to it"):
        dp.limited_domain(hs, k=1, epsilon=1.0, delta=1e-6, max_items_per_user=2)


def test_no_message_holds_data():
    secret = pa.table({"user": ["alice"], "item": [None], "by": ["nowhere"]})
    secret = secret.set_column(1, "item", pa.array([None], pa.string()))
    with pytest.raises(dp.SourceError) as caught:
        dp.Histogram.from_events(
            secret, user="user", item="item", by="by", groups=GROUPS, max_groups_per_user=1
        )
    assert "alice" not in str(caught.value)
    assert "nowhere" not in str(caught.value)


def test_many_groups_are_one_query():
    groups = list(range(500))
    rng = np.random.default_rng(1)
    events = {
        "user": rng.integers(0, 300, 5000), "item": rng.integers(0, 40, 5000),
        "by": rng.integers(0, 600, 5000),
    }  # fmt: skip
    hs = dp.Histogram.from_events(
        pa.table(events), user="user", item="item", by="by", groups=groups,
        max_groups_per_user=3, k_bar=5,
    )  # fmt: skip
    assert len(hs) == 500
    kept = sum(sum(c.values()) for c in counted(hs).values())
    assert 0 < kept <= 3 * 300 * 5
