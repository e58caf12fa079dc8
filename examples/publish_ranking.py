"""From a folder of Parquet files to a published ranking, step by step.

    python examples/publish_ranking.py FOLDER USER ITEM OUT

for example, with the packages of Debian 12 in place of people:

    python examples/publish_ranking.py examples package dependency ranking

Run it as a whole, or cell by cell in an editor that knows `# %%`. OUT gets a page to look at, and
the same as JSON for machines.
"""

# %% What is asked, fixed before anybody looks at the data.
import sys
from pathlib import Path

import dptopk as dp

folder, user, item, out = sys.argv[1:]
K, EPSILON, DELTA = 20, 1.0, 1e-6
COUNTS = 0.5  # of the same kind as EPSILON: what the counts cost on top

# %% What will that buy? The plan knows shapes of data that are public, and none of the files.
choices = dp.plan(k=K, epsilon=EPSILON, delta=DELTA, domain="unknown")
best = choices[0]
print(f"on data like the default shapes: {best['mechanism']}, recall about {best['recall']:.2f}")

# %% Count the users of each item, in the engine: events never become Python objects.
histogram = dp.Histogram.from_files(f"{folder}/*.parquet", user=user, item=item)

# %% Choose the items. They were read off the data: items of few users stay out.
release = dp.limited_domain(histogram, k=K, epsilon=EPSILON, delta=DELTA)

# %% Show how often they occur, within intervals that hold all at once with probability 0.95.
release = dp.noisy_counts(release, histogram, epsilon=COUNTS)
for name, count, (low, high) in zip(
    release.labels, release.counts, release.intervals(0.95, simultaneous=True), strict=True
):
    print(f"{count:>9,}  ({low:,} to {high:,})  {name}")
print(f"cost: epsilon = {release.cost.epsilon}, delta = {release.cost.delta}")

# %% Publish. Nothing in either file was not released.
Path(f"{out}.html").write_text(release.to_html(title=f"The most frequent: {item}"), "utf-8")
Path(f"{out}.json").write_text(release.to_json(), "utf-8")
