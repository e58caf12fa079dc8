"""No random bytes at some read or word: nothing comes out, and what was charged stays charged."""

import contextlib
import hashlib
import inspect
import os
import threading

import numpy as np
import pytest

import dptopk as dp
from dptopk import _core, rng
from dptopk.budget import filter as filters
from dptopk.budget import session as sessions
from dptopk.errors import RandomnessError, TapeEndError
from dptopk.mechanisms.table import MECHANISMS

COUNTS = np.arange(3000)[::-1].copy()
PICKS = dp.peel(COUNTS, k=3, epsilon=1.0, rng=dp.SeededRng(1))
OPTIONS = {
    "epsilon": 1.0, "delta": 1e-3, "max_items_per_user": 2, "scale": 1.0, "threshold": 500,
    "distance": 3, "degree": 2, "comparisons_per_pair": 3, "k": 3, "stop": "unstable",
}  # fmt: skip
FIRST = {
    "restricted": (lambda h, k: range(k), COUNTS),
    "noisy_counts": (PICKS, COUNTS),
    "stable_release": ("ant",),
    "stable_queries": ([("ant", 3)],),
    "rank_pairs": ([[0, 2, 1], [1, 0, 3], [2, 0, 0]],),
    "weighted": (dp.Histogram.from_weights(COUNTS << 20, soft_cap=1, domain_is_public=True),),
}


class System:
    """The system's random bytes: those of a read follow from its number, or are not there."""

    def __init__(self):
        self.lock = threading.Lock()
        self.begin()

    def begin(self, missing=None):
        self.reads, self.missing = 0, missing
        rng._free.clear()

    def urandom(self, count):
        with self.lock:
            read, self.reads = self.reads, self.reads + 1
        if read == self.missing:
            raise OSError("none")
        return hashlib.shake_256(f"{read}".encode()).digest(count)

    def each(self, call):
        """Go through the reads of a call, one of which is missing each time."""
        self.begin()
        call()
        reads = self.reads
        assert reads
        # Of many, as replays need, the first and the last.
        for missing in range(reads) if reads < 12 else [*range(5), *range(reads - 3, reads)]:
            self.begin(missing)
            yield missing


@pytest.fixture
def system(monkeypatch):
    system = System()
    monkeypatch.setattr(os, "urandom", system.urandom)
    yield system
    rng._free.clear()


def call(name, **more):
    function = getattr(dp, name)
    its = inspect.signature(function).parameters
    given = {
        option: value for option, value in OPTIONS.items()
        if option in its and (its[option].default is its[option].empty
                              or option in ("epsilon", "max_items_per_user", "k"))
    }  # fmt: skip
    if name == "restricted":
        given["mechanism_epsilon"] = 0.5
    if name == "weighted":
        given["delta"] = 1e-3
    return function(*FIRST.get(name, (COUNTS,)), **given, **more)


HS = dp.Histograms(np.arange(60).reshape(4, 15), max_groups_per_user=1)
TABLE = np.arange(150).reshape(3, 50)
# What draws in another way than one call of a mechanism on an array.
CALLS = {
    "rows": lambda: dp.noisy_topk(TABLE, 3, scale=1.0),
    "size": lambda: dp.noisy_topk(COUNTS[:100], 3, scale=1.0, size=(2, 3)),
    "few": lambda: dp.noisy_topk([3, 1, 2], 2, scale=1.0),
    "ragged": lambda: dp.noisy_topk(COUNTS[:100], 3, scale=1.0, offsets=[0, 10, 100]),
    "threads": lambda: dp.noisy_topk(TABLE, 3, scale=1.0, size=30, workers=2),
    "integers": lambda: dp.discrete.draw("gaussian", 20, 10.0),
    "laplace integers": lambda: dp.discrete.draw("laplace", 20, 10.0),
    "groups by peel": lambda: dp.peel(HS, k=2, epsilon=1.0),
    "groups by joint": lambda: dp.joint(HS, k=2, epsilon=1.0),
    "groups by limited_domain": lambda: dp.limited_domain(HS, k=2, epsilon=1.0, delta=1e-3),
    "groups, and counts": lambda: dp.noisy_counts(
        dp.peel(HS, k=2, epsilon=1.0), HS, epsilon=1.0, delta=1e-3
    ),
    "tests": lambda: dp.SparseVector(threshold=40, epsilon=1.0, hits=2).test_all(COUNTS),
}
ALL = {name: lambda name=name: call(name) for name in MECHANISMS} | CALLS


@pytest.mark.parametrize("factor", [1.0, 1e12], ids=["doubles decide", "replays"])
@pytest.mark.parametrize("name", ALL)
def test_every_read_that_fails_ends_the_call(name, factor, system, monkeypatch):
    """Replays, which wide bounds of errors bring about, read more: each of these too."""
    monkeypatch.setattr(_core, "error_factor", factor)
    for missing in system.each(ALL[name]):
        with pytest.raises(RandomnessError):
            ALL[name]()
        assert system.reads == missing + 1 or name == "threads"  # none was asked for after it
        system.begin()
        ALL[name]()  # and the next call works


def words_of(draw):
    """How many words a call reads."""
    tape = hashlib.shake_256(b"tape").digest(8 * 4096)
    words = np.frombuffer(tape, "<u8").astype(np.uint64)
    low, high = -1, words.size  # too few, enough
    draw(rng.TapeRng(words))
    while high - low > 1:
        middle = (low + high) // 2
        try:
            draw(rng.TapeRng(words[:middle]))
            high = middle
        except TapeEndError:
            low = middle
    return words, high


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "restricted"])
def test_every_word_that_is_missing_ends_the_call(name):
    words, number = words_of(lambda tape: call(name, rng=tape))
    assert number
    for short in range(number) if number < 200 else range(0, number, number // 100):
        with pytest.raises(TapeEndError):
            call(name, rng=rng.TapeRng(words[:short]))


# ---- budgets

CLEAR = dp.Histogram([9000, 8000, 40], labels=["ant", "bee", "cat"])
GROUPS = dp.Histograms([[9000, 8000, 40]] * 2, list("abc"), groups=["x", "y"],
                       max_groups_per_user=1)  # fmt: skip
TOTAL = {"k_star": 400, "calls": 200, "epsilon": 40.0, "delta": 1e-6}
SPENDING = {
    "limited_domain": lambda b, **more: b.limited_domain(
        CLEAR, k=2, k_bar=3, **more, **({"delta_threshold": 1e-6} if "epsilon_step" in more else {})
    ),
    "peel": lambda b, **more: b.peel(CLEAR, k=2, **more),
    "joint": lambda b, **more: b.joint(CLEAR, k=2, **more),
    "canonical": lambda b, **more: b.canonical(CLEAR, k=2, **more),
    "noisy_max": lambda b, **more: b.noisy_max(CLEAR, **more),
    "groups": lambda b, **more: b.peel(GROUPS, k=2, **more),
}


@contextlib.contextmanager
def budget(kind, path):
    """A budget of a kind, and what a call of it needs."""
    if kind == "session":
        yield dp.Session(**TOTAL), {}
    elif kind == "filter":
        yield dp.Filter(epsilon=40.0, delta=1e-3), {"epsilon_step": 0.1}
    else:
        with dp.Ledger(path) as ledger:
            if kind == "ledger's session":
                ledger.create("ann", **TOTAL)
                yield dp.Session.bound(ledger, "ann"), {}
            elif kind == "ledger's filter":
                ledger.create_filter("ann", epsilon=40.0, delta=1e-3)
                yield dp.Filter.bound(ledger, "ann"), {"epsilon_step": 0.1}
            else:
                ledger.create_filter("all", epsilon=1e3, delta=1e-2)
                ledger.create("ann", cap="all", **TOTAL)
                yield dp.Session.bound(ledger, "ann"), {}


BUDGETS = ["session", "filter", "ledger's session", "ledger's filter", "under a cap"]


def check_charges(kind, what, path, system, monkeypatch):
    """The key is read within the draw, as where another thread took the source that had one."""
    for module in (sessions, filters):
        monkeypatch.setattr(module, "check_rng", lambda _: None)
    with budget(kind, path) as (b, more):
        done = []
        for name in ("reserve", "settle"):
            real = getattr(b._account, name)

            def spy(*args, name=name, real=real, **options):
                if name == "settle":
                    done.append("drawn")
                found = real(*args, **options)
                if name == "reserve":
                    done.append("charged")
                return found

            monkeypatch.setattr(b._account, name, spy)
        spend = SPENDING[what]
        before = b.remaining
        spend(b, **more)
        price = np.subtract(before, b.remaining)
        seen = set()
        for _ in system.each(lambda: spend(b, **more)):
            before, done[:] = b.remaining, []
            with pytest.raises(RandomnessError):
                spend(b, **more)
            lost = np.subtract(before, b.remaining)
            assert lost == pytest.approx(price if done else 0 * price, rel=1e-9)
            seen.add(tuple(done))
        assert ("charged",) in seen  # as the key's
        assert (("charged", "drawn") in seen) == (kind not in ("session", "filter"))
        system.begin()
        before = b.remaining
        spend(b, **more)  # it goes on
        assert np.subtract(before, b.remaining) == pytest.approx(price, rel=1e-9)


@pytest.mark.parametrize("what", SPENDING)
@pytest.mark.parametrize("kind", BUDGETS)
def test_what_was_charged_before_a_read_that_fails_stays_charged(
    kind, what, tmp_path, system, monkeypatch
):
    check_charges(kind, what, tmp_path / "l.sqlite", system, monkeypatch)


def charged_after_the_draw(session, call, counts, rng, request_id):
    steps, terms = session._steps(call, counts), session.terms
    plan = steps.at(terms.epsilon_step, terms.delta_threshold, session._cost_of_call)
    released = plan.draw(rng)
    ticket = session._account.reserve(steps.most, steps.thresholds, request_id, call)
    return session._account.settle(ticket, steps.taken(released), steps.thresholds, released)


RUN = dp.Session._run


def paid_back(session, call, counts, rng, request_id):
    try:
        return RUN(session, call, counts, rng, request_id)
    except RandomnessError:
        session._account._outcomes += 2
        raise


@pytest.mark.parametrize("broken", [charged_after_the_draw, paid_back])
def test_a_session_that_does_not_stay_charged_is_found_out(broken, tmp_path, system, monkeypatch):
    monkeypatch.setattr(dp.Session, "_run", broken)
    with pytest.raises(AssertionError):
        check_charges("session", "peel", tmp_path, system, monkeypatch)


def test_a_source_that_takes_the_place_of_the_secure_one_is_found_out(system, monkeypatch):
    def acquire(given):
        try:
            return rng.acquire(given)
        except RandomnessError:
            return rng.acquire(dp.SeededRng(0))

    monkeypatch.setattr("dptopk.mechanisms._select.acquire", acquire)
    with pytest.raises(pytest.fail.Exception):
        test_every_read_that_fails_ends_the_call("peel", 1.0, system, monkeypatch)


@pytest.mark.parametrize("what", SPENDING)
@pytest.mark.parametrize("kind", ["session", "filter", "ledger's session"])
def test_what_was_charged_before_a_word_that_is_missing_stays_charged(kind, what, tmp_path):
    with budget(kind, tmp_path / "l.sqlite") as (b, more):
        spend = SPENDING[what]
        other = b if kind == "filter" else dp.Session(**TOTAL)
        words, number = words_of(lambda tape: spend(other, rng=tape, **more))
        before = b.remaining
        spend(b, **more)
        price = np.subtract(before, b.remaining)
        for short in sorted({0, 1, number // 2, number - 1}):
            before = b.remaining
            with pytest.raises(TapeEndError):
                spend(b, rng=rng.TapeRng(words[:short]), **more)
            assert np.subtract(before, b.remaining) == pytest.approx(price, rel=1e-9)


def test_a_request_whose_bytes_were_missing_is_not_drawn_again(tmp_path, system):
    """It was charged or it was not: then it is a new one."""
    ends = set()
    with dp.Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.create("ann", **TOTAL)
        session = dp.Session.bound(ledger, "ann")

        def ask(name):
            return session.peel(CLEAR, k=2, request_id=name)

        for missing in system.each(lambda: ask("whole")):
            before, lost = session.remaining, len(ledger.lost("ann"))
            with pytest.raises(RandomnessError):
                ask(f"{missing}")
            system.begin()
            if session.remaining == before:
                assert len(ledger.lost("ann")) == lost
                ask(f"{missing}")
                ends.add("new")
            else:
                assert len(ledger.lost("ann")) == lost + 1
                with pytest.raises(dp.LedgerConflictError):
                    ask(f"{missing}")
                ends.add("lost")
    assert ends == {"new", "lost"}


# ---- the command


def test_a_command_without_random_bytes_shows_nothing(tmp_path, system, capsys):
    pytest.importorskip("duckdb")
    pytest.importorskip("narwhals")
    pytest.importorskip("rich")
    from dptopk.cli import main

    (tmp_path / "e.csv").write_text("user,item\n" + "".join(f"{n},ant\n" for n in range(500)))
    with dp.Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.create("ann", **TOTAL)
    events = ["select", str(tmp_path / "e.csv"), "-k", "1", "-q"]
    html = ["--html", str(tmp_path / "page.html")]
    for more in (
        ["--epsilon", "1", "--delta", "1e-6", *html],
        ["--ledger", str(tmp_path / "l.sqlite"), "--budget", "ann"],
    ):
        for _ in system.each(lambda more=more: main([*events, *more])):
            assert capsys.readouterr()[1] == ""
            assert main([*events, *more]) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert err == "dptopk: error: the operating system has no secure random bytes\n"
        system.begin()
        assert main([*events, *more]) == 0
        assert capsys.readouterr()[0] == "ant\n"
