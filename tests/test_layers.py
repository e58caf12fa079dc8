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
    ["_validate", "_counts"],
    ["domain"],
    ["rng", "accounting", "_argtopk"],
    ["sources", "utility"],
    ["histogram"],
    ["reference"],
    ["discrete"],
    ["release"],
    ["mechanisms"],
    ["metrics"],
    ["framework", "ranking"],
    ["budget"],
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


def test_the_core_needs_no_extra():
    """import dptopk loads NumPy, SciPy and mpmath, and nothing of the extras."""
    import subprocess
    import sys

    code = (
        "import sys, dptopk; "
        "print([m for m in ('duckdb', 'narwhals', 'rich', 'pandas', 'polars', 'pyarrow', "
        "'matplotlib', 'dp_accounting') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
