"""What happens to a process amid a call: forks, copies, other interpreters, signals."""

import copy
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import dptopk as dp
from dptopk import _core, rng
from dptopk.errors import RandomnessError


def run(script, *argv, env=None):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *argv]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=env
    )


AMID = """
    import ctypes, hashlib, os, signal, sys
    import numpy as np
    from dptopk import _core, rng
    from dptopk.errors import RandomnessError

    library = ctypes.PyDLL(None)
    fork = {
        "os.fork": os.fork,
        "the C library's": library.fork,
        "the system's": lambda: library.syscall(int(sys.argv[2]), signal.SIGCHLD, 0, 0, 0, 0),
    }[sys.argv[1]]
    head = np.zeros(1_000_000, np.int64), np.arange(1_000_000)
    claimed, forked, child = False, False, None

    def handler(*_):
        global forked, child
        if claimed and not forked:
            forked = True  # at once: the next signal may come amid the fork
            child = fork()

    signal.signal(signal.SIGPROF, handler)
    signal.setitimer(signal.ITIMER_PROF, 0.005, 0.005)
    while child is None:
        source = rng.acquire(None)
        claimed = True
        picks = _core.race(source, *head, 100_000, 1.0, _core.NOISES["gumbel"])
        claimed = False
        try:
            rng.release(source)
            said = "released"
        except RandomnessError as error:
            said = "refused" if "forked amid a call" in str(error) else str(error)
    signal.setitimer(signal.ITIMER_PROF, 0)
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print(hashlib.sha256(picks.tobytes()).hexdigest(), said, len(rng._free), flush=True)
    os._exit(0)
"""


CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine if hasattr(os, "uname") else "")

NO_PAGE = """
    #define _GNU_SOURCE
    #include <errno.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    int madvise(void *address, size_t length, int advice)
    {
        if (advice != 18) return (int)syscall(SYS_madvise, address, length, advice);
        errno = EINVAL;
        return -1;
    }
"""


@pytest.fixture(scope="module")
def no_page(tmp_path_factory):
    """A library before which no page is emptied by a fork, as in systems that have none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler here, or no page to take away")
    folder = tmp_path_factory.mktemp("no_page")
    source, library = folder / "no_page.c", folder / "no_page.so"
    source.write_text(textwrap.dedent(NO_PAGE))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


@pytest.mark.posix
@pytest.mark.slow
@pytest.mark.parametrize("page", [True, False], ids=["a page", "no page"])
@pytest.mark.parametrize("by", ["os.fork", "the C library's", "the system's"])
def test_a_child_of_a_fork_amid_a_call_releases_nothing(by, page, request):
    """A handler of a signal forks while the kernel runs: both go on with the same words."""
    if by == "the system's" and (CLONE is None or sys.platform != "linux"):
        pytest.skip("no number of the call is known here")
    more = {} if page else {"LD_PRELOAD": request.getfixturevalue("no_page")}
    done = run(AMID, by, str(CLONE), env={**os.environ, **more})
    assert done.returncode == 0, done.stderr
    (picks, said, free), (parents, parent_said, parent_free) = map(
        str.split, sorted(done.stdout.splitlines(), key=lambda line: "released" in line)
    )
    assert picks == parents  # so it must not come out twice
    assert (said, free) == ("refused", "0")
    assert (parent_said, parent_free) == ("released", "1")


THREAD = """
    import os, threading
    import numpy as np
    from dptopk import _core, rng

    head = np.zeros(1_000_000, np.int64), np.arange(1_000_000)
    source = rng.acquire(None)
    inside = threading.Thread(
        target=lambda: _core.race(source, *head, 100_000, 1.0, _core.NOISES["gumbel"])
    )

    def draw():
        mine = rng.acquire(None)
        try:
            return mine.read(100)
        finally:
            rng.release(mine)

    inside.start()
    while not np.count_nonzero(source.consumed()):  # the kernel has begun to read
        pass
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(into, draw().tobytes())
        try:
            rng.release(source)  # of a thread that is not here
        except Exception as error:
            os.write(into, type(error).__name__.encode())
        os._exit(0)
    os.waitpid(child, 0)
    inside.join()
    told = os.read(out, 10_000)
    words = np.concatenate([source.consumed(), draw(), np.frombuffer(told[:800], np.uint64)])
    print(len(words) > 100_000, len(words) - len(np.unique(words)), told[800:].decode())
"""


@pytest.mark.posix
@pytest.mark.slow
def test_a_fork_while_a_thread_is_inside_a_kernel():
    done = run(THREAD)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "0", "RandomnessError"]


@pytest.mark.posix
def test_a_source_held_over_a_fork_is_not_given_back_even_if_it_was_keyed_anew():
    source = rng.acquire(None)
    source.read(5)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        source.begin()  # with a key of its own, but five words are the parent's
        source.read(5)
        try:
            rng.release(source)
        except RandomnessError:
            os.write(into, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    rng.release(source)
    assert os.read(out, 100) == b"refused"
    os.close(out)
    os.close(into)


def pick(_):
    return tuple(dp.noisy_topk(np.zeros(1_000_000, np.int64), 3, scale=1.0).tolist())


@pytest.mark.posix
@pytest.mark.slow
def test_workers_that_were_forked_pick_differently():
    """Equal picks of any two: a chance of 1e-16."""
    first = pick(None)  # the pool of sources has a keyed one
    context = multiprocessing.get_context("fork")
    with context.Pool(3) as pool:
        drawn = [first, *pool.map(pick, range(12), chunksize=1), pick(None)]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    "make",
    [_core.SecureSource, lambda: _core.TapeSource([1]), lambda: rng.acquire(None)],
    ids=["secure", "tape", "in use"],
)
@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_sources_are_not_copied(make, copying):
    source = make()
    with pytest.raises(TypeError):
        copying(source)


#: What would spend a budget, or draw its words, once more in a copy.
SPENDERS = {
    "a session": lambda _: dp.Session(k_star=20, calls=5, epsilon=1.0, delta=1e-6),
    "a filter": lambda _: dp.Filter(epsilon=1.0),
    "a ledger's session": lambda ledger: dp.Session.bound(ledger, "ann"),
    "a ledger's filter": lambda ledger: dp.Filter.bound(ledger, "bob"),
    "a ledger": lambda ledger: ledger,
    "tests of a threshold": lambda _: dp.SparseVector(threshold=1, epsilon=1.0, hits=3),
}


@pytest.fixture
def ledger(tmp_path):
    with dp.Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.create("ann", k_star=20, calls=5, epsilon=1.0, delta=1e-6)
        ledger.create_filter("bob", epsilon=1.0)
        yield ledger


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("what", SPENDERS)
def test_what_spends_a_budget_is_not_copied(what, copying, ledger):
    """But for what goes on sharing the one there is, as any other name of it does."""
    spender = SPENDERS[what](ledger)
    if copying is copy.copy and what in ("a ledger", "tests of a threshold"):
        shared = copying(spender).__dict__
        assert all(shared[name] is value for name, value in spender.__dict__.items())
        return
    with pytest.raises(TypeError):
        copying(spender)


OTHER = """
    import sys
    import dptopk
    try:
        from concurrent import interpreters  # 3.14

        def run(code):
            interpreters.create().exec(code)

    except ImportError:
        try:
            import _interpreters as interpreters  # 3.13
        except ImportError:
            import _xxsubinterpreters as interpreters

        def run(code):
            failed = interpreters.run_string(interpreters.create(), code)
            if failed is not None:  # raised before 3.13
                raise RuntimeError(failed.formatted)

    path = dptopk._core.__file__
    alone = (  # NumPy, which is imported before it, refuses too
        "import importlib.util as u; "
        f"u.module_from_spec(u.spec_from_file_location('dptopk._core', {path!r}))"
    )
    for code in ("import json", "import dptopk", alone):
        try:
            run(code)
            print("works")
        except Exception as error:
            print("refused", "ImportError" in str(error))
    print(len(dptopk.noisy_topk([3, 2, 1], 2, scale=1.0)))
"""


def test_other_interpreters_are_refused():
    """Two of them would share the free list of sources, and a lock of neither.

    By `import dptopk`, as a user meets it, and by the extension alone.
    """
    done = run(OTHER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["works", "refused True", "refused True", "2"]


BIG = np.zeros(1_000_000, np.int64)
LONG = {
    "a sweep": lambda: dp.noisy_topk(BIG, 500_000, scale=1.0),
    "rows": lambda: dp.trials(dp.peel, BIG[:2000], 2000, k=300, epsilon=1.0, rng=dp.SeededRng(1)),
    "integers": lambda: dp.discrete.draw("gaussian", 1_000_000, 1000.0),
}


class Stopped(Exception):
    pass


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of CPU time")
@pytest.mark.parametrize("call", LONG)
def test_a_signal_is_seen_amid_a_kernel(call):
    """By CPU time, so that no load of the machine matters: a part of what the call takes."""

    def stop(*_):
        raise Stopped

    begun = time.process_time()
    LONG[call]()
    whole = time.process_time() - begun
    before = signal.signal(signal.SIGPROF, stop)
    try:
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, whole / 16)
        with pytest.raises(Stopped):
            LONG[call]()
        took = time.process_time() - begun
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert took < whole / 16 + max(whole / 2, 0.2)
