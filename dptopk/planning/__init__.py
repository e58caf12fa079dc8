"""What to run, and what it will find, before anything is spent: from public facts alone."""

from dptopk.planning.auto import choose
from dptopk.planning.ranked import Choices, plan
from dptopk.planning.shapes import Shape, default_shapes, zipf
from dptopk.planning.simulated import simulate
from dptopk.planning.table import Simulation

__all__ = ["Choices", "Shape", "Simulation", "choose", "default_shapes", "plan", "simulate", "zipf"]
