"""Run the command line as ``python -m dptopk``."""

import sys

from dptopk.cli import main

if __name__ == "__main__":
    sys.exit(main())
