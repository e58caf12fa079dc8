"""A Release and Answers as sequences, dicts, JSON, frames and a notebook's table."""

import datetime
import html.parser
import json
import pickle

import numpy as np
import pytest

import dptopk as dp

H = dp.Histogram([900, 3, 700], labels=["<b>ant</b>", "bee", 'c"&at'])
PLAIN = dp.peel(H, k=2, epsilon=9.0)
COUNTED = dp.noisy_counts(PLAIN, H, epsilon=9.0)
SET = dp.oneshot(np.array([900, 3, 700]), k=2, epsilon=9.0)
NOTHING = dp.top_stable([1, 1, 1], k=2, epsilon=1.0, delta=1e-9)
ANSWERS = dp.sparse_vector([3, 9000, 5], threshold=400, epsilon=9.0)
VALUED = dp.stable_queries([("<i>", 0), ("ant", 900)], stop="stable", epsilon=9.0, delta=1e-9)
ALL = {
    "plain": PLAIN, "counted": COUNTED, "set": SET, "nothing": NOTHING,
    "answers": ANSWERS, "valued": VALUED,
}  # fmt: skip
BACKENDS = ("pandas", "polars", "pyarrow")


def test_a_release_is_a_sequence_of_its_items():
    assert list(PLAIN) == list(PLAIN.items) == ["<b>ant</b>", 'c"&at']
    assert (PLAIN[0], PLAIN[-1], PLAIN[:1]) == ("<b>ant</b>", 'c"&at', ("<b>ant</b>",))
    assert "bee" not in PLAIN
    assert list(SET) == [0, 2]
    assert list(NOTHING) == []
    with pytest.raises(IndexError):
        PLAIN[2]


def test_answers_are_a_sequence_of_bits():
    assert list(ANSWERS) == [False, True]
    assert (ANSWERS[1], ANSWERS[:1], len(ANSWERS)) == (True, [False], 2)


@pytest.mark.parametrize("name", ALL)
def test_the_dict_holds_every_field(name):
    """What is released is in it: a new field can't be forgotten."""
    found = ALL[name].to_dict()
    fields = set(vars(ALL[name]))
    assert set(found) - {"items"} == fields
    assert found["cost"] == ALL[name].cost._asdict()


@pytest.mark.parametrize("name", ALL)
def test_json_is_one_line_of_the_same(name):
    text = ALL[name].to_json()
    assert "\n" not in text
    assert text.isascii()
    back = json.loads(text)
    assert set(back) == set(ALL[name].to_dict())
    assert back["parameters"].keys() == ALL[name].parameters.keys()


def test_json_writes_labels_that_it_lacks_as_text():
    day = datetime.date(2024, 2, 29)
    labels = [day, b"a\xff", float("inf"), (1, "x"), np.datetime64(5, "ns"), np.int64(7)]
    h = dp.Histogram([9000, 8000, 7000, 6000, 5000, 4000], labels=labels)
    items = json.loads(dp.peel(h, k=6, epsilon=99.0).to_json())["items"]
    assert items == [
        "2024-02-29", "a\\xff", "inf", [1, "x"], "1970-01-01T00:00:00.000000005", 7,
    ]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ALL)
def test_a_frame_has_a_row_an_item(name, backend):
    library = pytest.importorskip(backend)
    found = ALL[name].to_frame(backend)
    kind = library.Table if backend == "pyarrow" else library.DataFrame
    assert isinstance(found, kind)
    columns = found.column_names if backend == "pyarrow" else list(found.columns)
    expected = {
        "plain": ["rank", "item"],
        "counted": ["rank", "item", "count", "low", "high"],
        "set": ["item"],
        "nothing": ["item"],
        "answers": ["query", "bit"],
        "valued": ["query", "bit", "value"],
    }
    assert columns == expected[name]
    assert len(found) == len(ALL[name])
    if name == "counted":
        values = found["count"].to_pylist() if backend == "pyarrow" else list(found["count"])
        assert values == COUNTED.counts.tolist()


def test_a_frame_of_another_library_is_refused():
    with pytest.raises(ValueError, match=r"^backend must be one of pandas, polars, pyarrow, got"):
        PLAIN.to_frame("spark")


class Cells(html.parser.HTMLParser):
    """The tags of a page, and its texts."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("name", ALL)
def test_a_notebook_shows_a_table_without_running_what_labels_say(name):
    page = Cells()
    page.feed(ALL[name]._repr_html_())
    assert page.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    if name == "plain":
        assert "<b>ant</b>" in page.texts
    if name == "valued":
        assert page.texts[0].startswith("stable_queries")


def test_a_long_table_is_cut():
    page = dp.peel(np.arange(300), k=120, epsilon=9.0)._repr_html_()
    assert page.count("<tr>") == 51
    assert "50 of 120 shown" in page


def test_counts_and_their_noise_come_together():
    for changes in ({"counts": np.array([1])}, {"counts_noise": dp.CountsNoise("laplace", 1.0)}):
        with pytest.raises(TypeError, match=r"^give both counts and counts_noise, or neither"):
            dp.Release(
                indices=np.array([0]), labels=None, ordered=True, complete=True,
                cost=dp.Cost(1.0, 0.0, ""), mechanism="none", private=True, parameters={},
                **changes,
            )  # fmt: skip


@pytest.mark.parametrize("name", ["plain", "counted", "set", "nothing"])
def test_a_record_and_a_pickle_bring_back_the_same(name):
    from dptopk.budget.record import decode, encode

    assert pickle.loads(pickle.dumps(ALL[name])) == ALL[name]
    assert decode(encode(ALL[name])) == ALL[name]


def test_another_noise_is_another_release():
    other = dp.noisy_counts(PLAIN, H, epsilon=9.0)
    assert COUNTED.counts_noise == other.counts_noise
    state = {**COUNTED.__getstate__(), "counts_noise": dp.CountsNoise("laplace", 2.0)}
    assert dp.Release(**state) != COUNTED
