"""Figures of a record as SVG: one way of drawing for all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from pathlib import Path
from typing import Any

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
MARKS = "os^Dv<>"


def name_of(record: dict, figure: dict) -> str:
    """Return the name of its file."""
    return f"{record['name']}-{figure['name']}.svg"


def identifier(figure: dict) -> str:
    """Return what its SVG says it was drawn from."""
    text = json.dumps(figure, sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def draw(record: dict, figure: dict, folder: Path) -> Path:
    """Draw one figure; the same record gives the same bytes with the same matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style: dict[str, Any] = {"svg.hashsalt": "dptopk", "svg.fonttype": "none", "font.size": 8}
    with pyplot.rc_context(style):
        columns = min(figure["columns"], len(figure["panels"]))
        rows = math.ceil(len(figure["panels"]) / columns)
        width = 2.9 * columns if columns > 1 else 5.5
        labels = [line["label"] for line in figure["panels"][0]["lines"]]
        abreast = max(1, min(4, int(width * 72 / (45 + 5 * max(map(len, labels))))))
        below = 0.1 + 0.17 * math.ceil(len(labels) / abreast)  # inches, for the legend
        size = (width, below + (2.1 * rows if columns > 1 else 3.4))
        drawn, axes = pyplot.subplots(
            rows, columns, figsize=size, squeeze=False, sharex="col" if columns > 2 else False
        )
        for panel, axis in zip(figure["panels"], axes.flat, strict=False):
            _panel(panel, axis, figure)
        for axis in axes.flat[len(figure["panels"]) :]:
            axis.axis("off")
        for axis in axes[:, 0]:
            axis.set_ylabel(figure["y"])
        for axis in axes[-1]:
            axis.set_xlabel(figure["x"])
        drawn.suptitle(figure["title"])
        drawn.tight_layout(rect=(0, below / size[1], 1, 1 - 0.1 / size[1]))
        handles = axes.flat[0].get_legend_handles_labels()
        drawn.legend(*handles, loc="lower center", ncols=abreast, frameon=False)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name_of(record, figure)
        partial = path.with_suffix(".svg.part")
        drawn.savefig(
            partial,
            format="svg",
            facecolor="white",
            metadata={"Date": None, "Identifier": identifier(figure), "Title": figure["title"]},
        )
        pyplot.close(drawn)
        partial.write_text(_slim(partial.read_text()))
    os.replace(partial, path)
    return path


def _slim(text: str) -> str:
    """Round the coordinates to a tenth of a point: half the size, and no eye can tell."""
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d)\d+", r"\1", tag[0]), text)


def _panel(panel: dict, axis: Any, figure: dict) -> None:
    for number, line in enumerate(panel["lines"]):
        look = {"color": COLOURS[number % 7], "label": line["label"], "linewidth": 1.2}
        mark = MARKS[number % 7] if len(line["x"]) <= 12 else ""
        if line["error"]:
            axis.errorbar(line["x"], line["y"], line["error"], marker=mark, markersize=3, **look)
        else:
            axis.plot(line["x"], line["y"], marker=mark, markersize=3, **look)
    axis.set_title(panel["title"], fontsize=8)
    if figure["log_x"]:
        axis.set_xscale("log")
    if figure["log_y"]:
        axis.set_yscale("symlog", linthresh=1)
    axis.spines[["top", "right"]].set_visible(False)
