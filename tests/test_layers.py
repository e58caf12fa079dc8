"""Arrows point down only: who may import whom."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dptopk"
if not PACKAGE.is_dir():  # run against an installed package, beside its sources
    pytest.skip("the sources are not here", allow_module_level=True)

# From the bottom up: a room may import those named before it, and itself.
LAYERS = [
    ["errors", "_core", "rounding", "_types", "_show"],
    ["_validate", "_counts", "_dense"],
    ["domain", "_framed"],
    ["rng", "accounting", "_argtopk"],
    ["sources", "utility"],
    ["histogram"],
    ["builder"],
    ["reference"],
    ["discrete", "plotting"],
    ["release"],
    ["answers", "releases"],
    ["mechanisms"],
    ["metrics"],
    ["framework", "ranking"],
    ["budget", "_trials"],
    ["planning"],
    ["verification"],
    ["cli"],
    ["__main__", "__init__"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
# The command line looks up the version; the core is loaded before any layer.
PACKAGE_ITSELF = {"cli", "__main__"}


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path):
    """Full names in dptopk that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".") for name in names if name.split(".")[0] == "dptopk")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_imports_point_down(path):
    room = room_of(path)
    for name in imports_of(path):
        used = name[1] if len(name) > 1 and name[1] in LEVEL else ""
        if used == "":
            assert room in PACKAGE_ITSELF, f"{room} imports the package itself"
        else:
            assert used == room or LEVEL[used] < LEVEL[room], f"{room} imports {used}"


MECHANISMS = sorted(PACKAGE.joinpath("mechanisms").glob("[!_]*.py"))


@pytest.mark.parametrize("path", MECHANISMS, ids=lambda p: p.stem)
def test_mechanisms_do_not_import_each_other(path):
    others = {other.stem for other in MECHANISMS} - {path.stem}
    for name in imports_of(path):
        assert name[1] != "mechanisms" or name[2] not in others


def test_no_function_hides_a_module():
    """A package that holds pkg.name as a function has no module pkg/name.py."""
    import importlib
    import pkgutil

    import dptopk

    for package in (dptopk, *(
        importlib.import_module(f"dptopk.{p.name}")
        for p in pkgutil.iter_modules([str(PACKAGE)]) if p.ispkg
    )):  # fmt: skip
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        assert [n for n in modules if callable(getattr(package, n, None))] == []


def test_functions_and_modules_can_both_be_reached():
    import subprocess
    import sys

    for code in (
        "import dptopk as dp; dp.metrics.f1_score; dp.utility; dp.accounting.total_epsilon",
        "import dptopk as dp; dp.verify.run; dp.verify(lambda c: {0: 1.0}, epsilon=1, delta=0)",
        "import dptopk.restricted; "
        "dptopk.restricted('peel', [9, 5, 1], k=1, epsilon=1, delta=1e-3); "
        "from dptopk.restricted import default_split",
        "import dptopk.verify; dptopk.verify.run; from dptopk.verify import verify, run",
        "import dptopk.metrics, dptopk as dp; dp.metrics.f1_score",
    ):
        subprocess.run([sys.executable, "-c", code], check=True)


EXTRAS = ("duckdb", "narwhals", "rich", "pandas", "polars", "pyarrow", "matplotlib",
          "dp_accounting")  # fmt: skip
SLOW = ("scipy", "mpmath", "importlib.metadata", "argparse", "dptopk.reference",
        "dptopk.ranking")  # fmt: skip


def loaded_by(code, modules):
    """Which of the modules a new process has loaded after some code."""
    import subprocess
    import sys

    code = f"import sys\n{code}\nprint([m for m in {modules} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ast.literal_eval(done.stdout.splitlines()[-1])


def test_the_core_needs_no_extra():
    """import dptopk loads NumPy, and nothing of the extras or of what takes long."""
    assert loaded_by("import dptopk", (*EXTRAS, *SLOW)) == []


@pytest.mark.parametrize(
    "call",
    [
        "dp.peel(h, k=1, epsilon=1.0)",
        "dp.limited_domain(h, k=1, epsilon=1.0, delta=1e-6)",
        "dp.oneshot(h, k=1, epsilon=1.0)",
        "dp.joint(h, k=1, epsilon=1.0)",
        "dp.Session(k_star=5, calls=5, epsilon=1.0, delta=1e-6).peel(h, k=1)",
        "dp.noisy_counts(dp.peel(h, k=1, epsilon=1.0), h, epsilon=1.0)",
        "dp.peel(h, k=1, epsilon=1.0).to_json()",
    ],
)
def test_a_call_that_doubles_decide_loads_no_exact_arithmetic(call):
    code = f"import dptopk as dp\nh = dp.Histogram([900, 3, 700])\n{call}"
    assert loaded_by(code, (*EXTRAS, *SLOW)) == []


def test_what_is_lazy_is_there_when_asked_for():
    code = "import dptopk as dp\nassert dp.rank_pairs is dp.ranking.rank_pairs\ndp.__version__"
    code += "\nassert set(dp.__all__) <= set(dir(dp))\nfrom dptopk import *"
    assert loaded_by(code, ("dptopk.ranking", "scipy.sparse")) == ["dptopk.ranking", "scipy.sparse"]


@pytest.mark.parametrize("flag", ["--json", "--quiet"])
def test_the_command_line_needs_rich_for_tables_alone(flag, tmp_path):
    (tmp_path / "e.csv").write_text("user,item\n" + "".join(f"{u},tea\n" for u in range(3000)))
    file, budget = str(tmp_path / "e.csv"), ["--epsilon", "1", "--delta", "1e-6"]
    argv = ["select", file, "-k", "1", *budget, flag]
    code = f"from dptopk.cli import main\nassert main({argv}) == 0"
    assert loaded_by(code, ("rich", "scipy.sparse", "mpmath")) == []
    code = (
        f"from dptopk.cli import main\nassert main(['cost', '-k', '9', *{budget}, '--json']) == 0"
    )
    assert "rich" not in loaded_by(code, ("rich",))
