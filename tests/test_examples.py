"""examples/publish_ranking.py as a user runs it: a folder of Parquet files in, two files out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
duckdb = pytest.importorskip("duckdb")


@pytest.mark.slow
def test_a_folder_of_parquet_becomes_a_published_ranking(tmp_path):
    whole = EXAMPLES / "debian12_sections.parquet"
    for part in range(2):
        duckdb.sql(
            f"COPY (SELECT * FROM '{whole}' WHERE hash(section) % 2 = {part}) "
            f"TO '{tmp_path}/part{part}.parquet'"
        )
    script = [sys.executable, EXAMPLES / "publish_ranking.py", tmp_path, "package", "dependency"]
    done = subprocess.run([*script, tmp_path / "out"], capture_output=True, text=True, check=True)
    assert "libc6" in done.stdout
    assert "cost: epsilon = 1.5, delta = 1e-06" in done.stdout
    published = json.loads((tmp_path / "out.json").read_text())
    assert published["labels"][:2] == ["libc6", "libstdc++6"]
    page = (tmp_path / "out.html").read_text("utf-8")
    assert all(label in page for label in published["labels"])
