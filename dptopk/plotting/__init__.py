"""Pictures of releases, costs and accuracy, by matplotlib; and a release as a page of HTML.

All of them show what was released or is public, and nothing else. matplotlib is loaded when
something is drawn.
"""

from dptopk.plotting.accuracy import plot_accuracy
from dptopk.plotting.costs import plot_costs

__all__ = ["plot_accuracy", "plot_costs"]
