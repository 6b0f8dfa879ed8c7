"""The page as a text: escaped, self-contained, the same for the same runs, legible."""

import base64
import csv
import dataclasses
import hashlib
import html.parser
import json
import re
from importlib import resources

import numpy as np
import pages
import pytest

from emphatic.report import markup, page, palette, progress
from emphatic.report.summaries import PER_HEAD


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    pages.write(out, pages.collection())
    return out


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A whole report of hostile names, with a hostile title."""
    out = tmp_path_factory.mktemp("hostile")
    runs = pages.hostile()
    runs = dataclasses.replace(runs, folders={run.name: out / run.name[:2] for run in runs.runs})
    pages.write(out, runs, title=pages.HOSTILE[0], command=pages.HOSTILE)
    return out


def without_figures(write, *parts, **more):
    """Of a page: drawing figures takes longer than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page.figures, "write", lambda *_: [])
        return write(*parts, **more)


class Elements(html.parser.HTMLParser):
    """All elements of a page with their attributes, and all its text."""

    def __init__(self, document):
        super().__init__(convert_charrefs=True)
        self.found, self.text = [], []
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def elements(folder):
    return Elements((folder / "index.html").read_text(encoding="utf-8"))


def test_no_name_becomes_an_element_or_a_handler(hostile):
    found = elements(hostile).found
    names = [name for name, _ in found]
    assert names.count("script") == 2
    assert names.count("style") == 1
    assert not {"img", "iframe", "svg", "object", "embed", "base"} & set(names)
    assert not [key for _, attributes in found for key in attributes if key.startswith("on")]


def test_every_link_stays_beside_the_page(hostile, report):
    for folder in (hostile, report):
        links = [a["href"] for name, a in elements(folder).found if name == "a"]
        assert links
        assert all(link.startswith(("#", "./")) for link in links), links


def test_hostile_names_are_shown_as_they_are(hostile):
    words = "".join(elements(hostile).text)
    for name in pages.HOSTILE:
        # But for letters that turn the direction of the text, and halves of letters.
        assert re.sub("[\u202e\ud800]", "\ufffd", name) in words, name
    assert "\u202e" not in (hostile / "index.html").read_text(encoding="utf-8")


def test_the_data_block_is_json_that_ends_no_script(hostile):
    document = (hostile / "index.html").read_text(encoding="utf-8")
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', document, re.S)[
        1
    ]
    assert not set("<>&") & set(block)
    assert json.loads(block)["agents"][0] == sorted(pages.HOSTILE)[0]


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(report):
    document = (report / "index.html").read_text(encoding="utf-8")
    [policy] = [
        a["content"] for name, a in Elements(document).found if "http-equiv" in a and name == "meta"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    script = re.search(r"<script>(.*?)</script>", document, re.S)[1]
    style = re.search(r"<style>(.*?)</style>", document, re.S)[1]
    assert rules == {
        "default-src": "'none'",
        "script-src": digest(script),
        "style-src": digest(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def digest(words):
    return f"'sha256-{base64.b64encode(hashlib.sha256(words.encode()).digest()).decode()}'"


def test_nothing_is_loaded_from_elsewhere(report):
    found = elements(report).found
    assert not [a for _, a in found if "src" in a]
    assert not [name for name, _ in found if name == "link"]
    style = resources.files("emphatic.report").joinpath("page.css").read_text()
    assert "url(" not in style
    assert "@import" not in style


def test_the_same_runs_make_the_same_bytes(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    written = pages.write(one, pages.collection(games=("pong",)))
    pages.write(other, pages.collection(games=("pong",)))
    assert len(written) > 15
    for file in written:
        assert file.read_bytes() == (other / file.relative_to(one)).read_bytes(), file


def test_what_is_written_is_what_is_said(report):
    names = {str(f.relative_to(report)) for f in report.rglob("*") if f.is_file()}
    pair = "figures/improvement-netd-ace-over-surreal"
    figures = {"figures/learning-curves", "figures/median", "figures/profiles", pair}
    figures |= {"figures/health-atari-pong", "figures/health-atari-breakout"}
    assert {f"{name}.{ending}" for name in figures for ending in ("png", "svg")} <= names
    tables = {"summary", "intervals", "scores", "returns", "comparisons"}
    lines = {"learning-curves", "health", "overall", "improvements"}
    assert {f"data/{name}.csv" for name in tables | lines} <= names
    assert {"index.html", "data/report.json"} <= names


def test_every_figure_that_a_chart_refers_to_is_there(report):
    links = {a["href"] for name, a in elements(report).found if name == "a"}
    figures = {link for link in links if link.endswith(".svg")}
    assert len(figures) == 5
    for figure in figures:
        assert (report / figure).is_file(), figure


def test_the_csv_holds_the_lines_in_full(report):
    with (report / "data/learning-curves.csv").open() as file:
        rows = [
            r for r in csv.DictReader(file) if (r["group"], r["agent"]) == ("atari/pong", "surreal")
        ]
    [chart] = [c for c in progress.learning(pages.collection()) if c.group == "atari/pong"]
    [line] = [s for s in chart.series if s.agent == "surreal"]
    for column, expected in {"x": line.x, "y": line.y, "low": line.low, "high": line.high}.items():
        assert tuple(float(row[column]) for row in rows) == expected


def test_a_line_is_the_mean_of_its_seeds_and_its_band_their_range():
    runs = pages.collection(seeds=(0, 1, 2))
    [chart] = [c for c in progress.learning(runs) if c.group == "atari/pong"]
    [line] = [s for s in chart.series if s.agent == "netd-ace"]
    own = [r.curve for r in runs.runs if (r.environment, r.agent) == ("atari/pong", "netd-ace")]
    ends = [own[0].steps.index(int(x)) + 1 for x in line.x]
    assert len(ends) == progress.POINTS
    for start, end, y, low, high in zip(
        [0, *ends], ends, line.y, line.low, line.high, strict=False
    ):
        means = [sum(curve.mean_return[start:end]) / (end - start) for curve in own]
        assert [y, low, high] == pytest.approx([sum(means) / 3, min(means), max(means)], rel=1e-4)


def test_a_line_ends_where_the_first_of_its_seeds_does():
    grid, values = progress.binned(
        [([10, 20, 30, 40], [1.0, 2.0, 3.0, 4.0]), ([12, 24], [5.0, 7.0])], 9
    )
    np.testing.assert_array_equal(grid, [10, 20])
    np.testing.assert_array_equal(values, [[1.0, 2.0], [np.nan, 5.0]])


def test_a_point_without_episodes_is_none_and_no_zero():
    steps = [1, 2, 3, 4]
    grid, values = progress.binned([(steps, [None, None, 3.0, 5.0])], 2)
    np.testing.assert_array_equal(grid, [2, 4])
    np.testing.assert_array_equal(values, [[np.nan, 4.0]])


def test_the_largest_emphasis_is_not_averaged_away():
    _, values = progress.binned([([1, 2, 3, 4], [1.0, 90.0, 2.0, 3.0])], 2, largest=True)
    np.testing.assert_array_equal(values, [[90.0, 3.0]])


def test_health_has_a_line_for_each_head_but_none_for_a_weight_that_is_one():
    charts = progress.health(pages.collection(agents=("netd-ace",), games=("pong",)))
    names = {chart.title: [line.name for line in chart.series] for chart in charts}
    auxiliary = ["auxiliary 1", "auxiliary 2"]
    assert names["Mean emphasis F"] == auxiliary
    assert names["Entropy of the policy, nats"] == ["main head", *auxiliary]
    assert names["Gradient norm before clipping"] == [""]


def test_an_agent_of_one_head_has_no_emphasis_to_show(tmp_path):
    runs = pages.collection(agents=("surreal",), games=("pong",), seeds=(0,))
    health = runs.runs[0].health
    heads = {name: getattr(health, name)[:1] for name in PER_HEAD}
    run = dataclasses.replace(runs.runs[0], health=dataclasses.replace(health, **heads))
    runs = dataclasses.replace(runs, runs=(run,))
    titles = {chart.title for chart in progress.health(runs)}
    assert "Mean emphasis F" not in titles
    assert "Entropy of the policy, nats" in titles
    document = page.write(tmp_path, runs, title="one run", command=["emphatic"])[0].read_text()
    assert "1 agent on 1 environment with 1 seed: 1 run, finished." in document


@pytest.mark.parametrize("number", [1, 4, 8, 20])
def test_agents_are_told_apart(number):
    looks = palette.looks([f"agent {i}" for i in range(number)])
    assert len(set(looks.values())) == number


def test_known_agents_keep_their_colour_whoever_is_beside_them():
    alone = palette.looks(["surreal"])["surreal"]
    assert palette.looks(["a", "b", "netd-ace", "surreal"])["surreal"] == alone
    assert len(set(palette.looks(["impala", "netd", "netd-ace", "wevtrace"]).values())) == 4


def tokens(scheme):
    """The page's colours in one of the schemes."""
    style = resources.files("emphatic.report").joinpath("page.css").read_text()
    pairs = re.findall(r"--([a-z0-9-]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    return {name: (light, dark)[scheme] for name, light, dark in pairs}


def contrast(one, other):
    """WCAG 2: (L₁ + 0.05) / (L₂ + 0.05) of relative luminances."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_and_lines_can_be_seen(scheme):
    found = tokens(scheme)
    for ground in ("ground", "card", "faint", "note"):
        for ink in ("ink", "soft", "link"):
            assert contrast(found[ink], found[ground]) >= 4.5, (ink, ground)
    for number in range(len(palette.COLOURS)):
        assert contrast(found[f"c{number}"], found["card"]) >= 3, number


def test_the_page_and_the_figures_have_the_same_colours():
    found = tokens(0)
    assert [found[f"c{i}"] for i in range(len(palette.COLOURS))] == list(palette.COLOURS)


def test_a_path_is_never_a_scheme():
    assert markup.link("javascript:alert(1)", "x") == '<a href="./javascript%3Aalert%281%29">x</a>'


def test_links_to_animations_lead_to_the_runs(tmp_path):
    runs = pages.collection(agents=("netd-ace",), games=("pong",), seeds=(0,))
    [run] = runs.runs
    shown = dataclasses.replace(run, animations=("watch 1.gif",))
    folder = tmp_path / "runs" / "a b"
    runs = dataclasses.replace(runs, runs=(shown,), folders={run.name: folder})
    out = tmp_path / "report"
    without_figures(page.write, out, runs, title="one run", command=["emphatic"])
    links = [a["href"] for name, a in elements(out).found if name == "a"]
    assert "./../runs/a%20b/watch%201.gif" in links


def test_problems_stand_before_all_else_and_long_ones_are_folded(tmp_path):
    runs = pages.collection(games=("pong",))
    many = ("short.", "x" * 50 + " " + "y " * 200, *(f"problem {i}." for i in range(20)))
    without_figures(pages.write, tmp_path, dataclasses.replace(runs, problems=many))
    found = elements(tmp_path)
    words = " ".join("".join(found.text).split())
    assert words.index("22 things to know about the input") < words.index("Computing time")
    assert "problem 19." in words
    assert "y y y y" in words
