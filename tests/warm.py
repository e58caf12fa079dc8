"""The command in a process that first imports all it needs: an import takes Ctrl-C badly."""

import sys

_CODE = """
import contextlib, io, sys, tempfile
import dptopk
from dptopk.cli import main
dptopk.Ledger
with tempfile.NamedTemporaryFile("w", suffix=".csv") as tiny:
    tiny.write("user,item\\nann,tea\\n")
    tiny.flush()
    with contextlib.redirect_stdout(io.StringIO()):
        main(["select", tiny.name, "--epsilon", "1", "--delta", "1e-6", "--json"])
print("on", flush=True)
sys.exit(main())
"""


def cli(*argv):
    """Return it for Popen; its first line says when it begins."""
    return [sys.executable, "-c", _CODE, *map(str, argv)]
