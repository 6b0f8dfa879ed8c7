"""The page in a browser: what a reader sees, points at, presses, and what a name may not do."""

import dataclasses
import itertools
import json
import re
import shutil

import pages
import pytest
import synthetic

from emphatic.report import page, progress

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page without its figures, by the name of what it shows; each made once."""
    made = {
        "two": lambda: pages.collection(seeds=(0, 1, 2)),
        "three": lambda: pages.collection(agents=("netd-ace", "netd", "surreal")),
        "one": lambda: pages.collection(agents=("netd-ace",), games=("pong",), seeds=(0,)),
        "hostile": pages.hostile,
        "atari57": lambda: pages.collection(
            agents=tuple(synthetic.TABLE2), games=pages.GAMES, seeds=synthetic.SEEDS
        ),
    }
    known = {}

    def write(name):
        if name not in known:
            known[name] = tmp_path_factory.mktemp(name)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(page.figures, "write", lambda *_: [])
                pages.write(known[name], made[name]())
        return known[name] / "index.html"

    return write


@pytest.fixture
def opened(browser, written):
    """A page open from disk, with no network; complaints of the browser fail the test."""
    contexts, complaints, requests = [], [], []

    def open_page(name, *, width=1280, height=900, **settings):
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, offline=True, **settings)
        contexts.append(context)
        shown = context.new_page()
        shown.on("console", lambda message: complaints.append(message.text))
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.on("request", lambda request: requests.append(request))
        shown.goto(written(name).as_uri())
        if settings.get("java_script_enabled", True):
            shown.wait_for_selector("html.ready")
        shown.complaints, shown.requests = complaints, requests
        return shown

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert {request.url.split(":")[0] for request in requests} == {"file"}


def figure(shown, title):
    """The figure with that title, drawn."""
    found = shown.locator("figure").filter(has=shown.locator("figcaption", has_text=title)).first
    found.scroll_into_view_if_needed()
    found.locator("svg").wait_for()
    return found


def table_behind(found):
    """The numbers of a figure, opened; the browser says a little later that they are open."""
    found.locator("summary").click()
    table = found.locator("details table")
    table.wait_for()
    return table


def tip(found):
    """What is read off a chart: heading, then by agent the value and its range."""
    words = found.locator(".tip").evaluate(
        "e => [e.querySelector('b').textContent, "
        "[...e.querySelectorAll('dt')].map((dt) => [dt.textContent.trim(), "
        "dt.nextSibling.textContent, dt.nextSibling.nextSibling.textContent])]"
    )
    return words[0], {name: (value, spread) for name, value, spread in words[1]}


def drawn(found):
    """Agents with a line in the chart."""
    return set(found.locator("polyline").evaluate_all("x => x.map((e) => e.dataset.agent)"))


def as_number(words):
    return float(words.replace(",", ""))


def test_pointing_at_a_chart_shows_every_agents_value_at_that_step(opened):
    shown = opened("two")
    found = figure(shown, "atari/pong")
    box = found.locator("svg").bounding_box()
    [chart] = [
        c for c in progress.learning(pages.collection(seeds=(0, 1, 2))) if c.group == "atari/pong"
    ]
    steps = []
    for share in (0.3, 0.6, 0.9):
        shown.mouse.move(box["x"] + share * box["width"], box["y"] + 50)
        heading, values = tip(found)
        step = as_number(heading.split(" ")[0])
        steps.append(step)
        assert set(values) == {"netd-ace", "surreal"}
        for line in chart.series:
            i = line.x.index(step)
            value, spread = values[line.agent]
            assert as_number(value) == pytest.approx(line.y[i], rel=1e-3)
            ends = [as_number(words) for words in spread.split(" to ")]
            assert ends == pytest.approx([line.low[i], line.high[i]], rel=1e-3)
    # The step shown is the one pointed at: a third, then two, of the axis.
    assert steps == sorted(steps)
    assert steps[1] / synthetic.STEPS == pytest.approx(0.57, abs=0.05)
    shown.mouse.move(5, 5)
    assert found.locator(".tip").count() == 0


def test_arrow_keys_read_values_aloud(opened):
    shown = opened("two")
    found = figure(shown, "atari/pong")
    found.locator("svg").focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft"):
        shown.keyboard.press(key)
    heading, values = tip(found)
    said = shown.locator("#said").text_content()
    assert said == f"{heading}: " + "; ".join(f"{agent} {v}" for agent, (v, _) in values.items())
    [chart] = [
        c for c in progress.learning(pages.collection(seeds=(0, 1, 2))) if c.group == "atari/pong"
    ]
    assert as_number(heading.split(" ")[0]) == chart.series[0].x[1]
    shown.keyboard.press("End")
    assert as_number(tip(found)[0].split(" ")[0]) == synthetic.STEPS
    shown.keyboard.press("Escape")
    assert found.locator(".tip").count() == 0


@pytest.mark.parametrize("how", ["click", "Enter", "Space"])
def test_the_legend_hides_an_agent_everywhere_and_brings_it_back(opened, how):
    shown = opened("two")
    switch = shown.get_by_role("button", name="surreal")

    def press():
        if how == "click":
            switch.click()
        else:
            switch.focus()
            shown.keyboard.press(how)

    def seen():
        lines = drawn(figure(shown, "atari/pong"))
        headings = shown.locator("#tables th:visible", has_text=re.compile("^surreal$")).count()
        rows = shown.locator("#runs tbody tr:visible").count()
        return lines, headings, rows, shown.locator("#improvement figure:visible").count()

    before = seen()
    headings = before[1]
    assert before == ({"0", "1"}, headings, 12, 1)
    assert headings >= 3
    press()
    assert switch.get_attribute("aria-pressed") == "false"
    assert seen() == ({"0"}, 0, 6, 0)
    found = figure(shown, "atari/pong")
    found.locator("svg").hover()
    assert set(tip(found)[1]) == {"netd-ace"}
    press()
    assert switch.get_attribute("aria-pressed") == "true"
    assert seen() == before


def test_show_all_brings_everyone_back(opened):
    shown = opened("two")
    everyone = shown.get_by_role("button", name="Show all")
    assert not everyone.is_visible()
    for agent in ("netd-ace", "surreal"):
        shown.get_by_role("button", name=agent, exact=True).click()
    assert drawn(figure(shown, "atari/pong")) == set()
    everyone.click()
    assert drawn(figure(shown, "atari/pong")) == {"0", "1"}
    assert not everyone.is_visible()


def test_the_table_behind_a_chart_has_its_values(opened):
    shown = opened("two")
    found = figure(shown, "atari/breakout")
    rows = (
        table_behind(found)
        .locator("tbody tr")
        .evaluate_all("rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))")
    )
    charts = progress.learning(pages.collection(seeds=(0, 1, 2)))
    [chart] = [c for c in charts if c.group == "atari/breakout"]
    assert len(rows) == len(chart.series[0].x)
    for i in (0, 50, len(rows) - 1):
        for cell, line in zip(rows[i][1:], chart.series, strict=True):
            numbers = [as_number(words) for words in re.findall(r"-?[\d,.]*\d", cell)]
            expected = [line.y[i], line.low[i], line.high[i]]
            assert numbers == pytest.approx(expected, rel=1e-3)


def test_the_health_of_another_environment_can_be_chosen(opened):
    shown = opened("two")
    shown.locator("#health select").select_option(label="atari/pong")
    found = figure(shown, "Entropy of the policy, nats, atari/pong")
    assert found.locator("polyline").count() == 6
    last = table_behind(found).locator("tbody tr").last.locator("td").all_text_contents()
    runs = [r for r in pages.collection(seeds=(0, 1, 2)).runs if r.environment == "atari/pong"]
    means = [
        sum(r.health.entropy[head][-1] for r in runs if r.agent == agent) / 3
        for agent in ("netd-ace", "surreal")
        for head in range(3)
    ]
    assert [as_number(words) for words in last] == pytest.approx(means, rel=1e-3)


def test_bars_of_a_hidden_agent_cannot_be_chosen(opened):
    shown = opened("three")
    select = shown.locator("#improvement select")
    assert select.locator("option").all_text_contents() == [
        "netd against surreal",
        "netd-ace against surreal",
    ]
    shown.get_by_role("button", name="netd", exact=True).click()
    assert select.locator("option:checked").text_content() == "netd-ace against surreal"
    found = figure(shown, "netd-ace against surreal, by environment")
    assert found.locator("g text.label").all_text_contents() == ["Pong", "Breakout"]


def test_bars_show_the_improvement_that_the_scores_have(opened):
    shown = opened("two")
    found = figure(shown, "netd-ace against surreal")
    scores = {
        game: synthetic.by_game("netd-ace")[i] - synthetic.by_game("surreal")[i]
        for game in ("pong", "breakout")
        for i in [synthetic.GAMES.index(f"atari/{game}")]
    }
    words = found.locator("svg title").all_text_contents()
    values = {w.split(":")[0].lower(): as_number(w.split(": ")[1].split(" ")[0]) for w in words}
    assert values == pytest.approx(scores, rel=1e-3)
    widths = found.locator("rect").evaluate_all(
        "x => x.map((e) => Number(e.getAttribute('width')))"
    )
    sizes = [abs(values[w.split(":")[0].lower()]) for w in words]
    assert [w / widths[0] for w in widths] == pytest.approx([s / sizes[0] for s in sizes], rel=0.01)


def test_light_and_dark(opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(251, 251, 250)", "rgb(19, 20, 23)"
    shown = opened("two", color_scheme="dark")
    assert shown.evaluate(ground) == dark
    shown.get_by_role("button", name="Switch to light colours").click()
    assert shown.evaluate(ground) == light
    shown.reload()
    shown.wait_for_selector("html.ready")
    assert shown.evaluate(ground) == light
    assert opened("two", color_scheme="light").evaluate(ground) == light


@pytest.mark.parametrize("name", ["two", "one", "hostile", "atari57"])
def test_a_phone_needs_no_sideways_scrolling(opened, name):
    shown = opened(name, width=360, height=780)
    assert shown.evaluate("document.documentElement.scrollWidth") == 360
    boxes = shown.locator(".box:visible").evaluate_all("x => x.map((e) => e.clientWidth)")
    assert boxes
    assert max(boxes) <= 360


def test_the_papers_table_is_on_the_page_of_57_games(opened):
    shown = opened("atari57")
    table = shown.locator("#tables table").first
    columns = table.locator("thead th").all_text_contents()
    rows = table.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    names = ("Median", "Mean", "40th percentile", "30th percentile", "20th percentile")
    names += ("10th percentile", "Games above human")
    found = {row[0]: dict(zip(columns[1:], row[1:], strict=True)) for row in rows}
    for agent, numbers in synthetic.TABLE2.items():
        for name, expected in zip(names, numbers, strict=True):
            words = f"{expected}/57" if name == names[-1] else f"{expected:.2f}"
            assert found[name][agent] == words, (name, agent)
    bold = table.locator("tbody tr").first.locator("td.best").all_text_contents()
    assert bold == ["497.21"]
    said = " ".join(shown.locator("#statistics").text_content().split())
    assert "netd-ace is better than surreal on 100 of 171 pairs of game and seed" in said
    assert "p = 0.016 one-sided, 0.032 two-sided" in said


def test_words_stand_left_with_their_agents_colour_and_numbers_right(opened):
    shown = opened("three")
    table = shown.locator("#tables table").filter(has=shown.locator("th", has_text="From")).first
    aligned = "x => x.map((e) => getComputedStyle(e).textAlign)"
    assert table.locator("thead th").evaluate_all(aligned) == [*["left"] * 2, *["right"] * 3]
    cells = table.locator("tbody tr").first.locator("td")
    assert cells.evaluate_all(aligned) == ["left", *["right"] * 3]
    assert cells.locator(".swatch").count() == cells.first.locator(".swatch").count() == 1


def test_no_name_is_cut_on_a_phone(opened):
    """What tells two agents apart may be the end of their names."""
    shown = opened("atari57", width=360, height=780)
    cut = shown.locator("#tables tbody th:visible").evaluate_all(
        "x => x.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent)"
    )
    assert cut == []


def test_57_games_stay_small_and_quick(opened, written):
    assert written("atari57").stat().st_size < 5_000_000
    shown = opened("atari57")
    assert shown.locator("#curves figure").count() == 57
    # Charts out of sight wait until they come near.
    assert shown.locator("#curves figure svg").count() < 57
    slowest = shown.evaluate(
        """() => {
          const button = document.querySelector('.legend button');
          const times = [0, 1, 2, 3].map(() => {
            const start = performance.now();
            button.click();
            document.body.getBoundingClientRect();
            return performance.now() - start;
          });
          return Math.min(...times);
        }"""
    )
    assert slowest < 500
    shown.locator("#find").fill("breakout")
    assert shown.locator("#curves figure:visible figcaption").all_text_contents() == [
        "atari/breakout"
    ]
    assert shown.locator("#runs tbody tr:visible").count() == 12


def test_names_execute_nothing(opened):
    shown = opened("hostile")
    for summary in shown.locator("figure summary").all():
        summary.click()
    shown.wait_for_function(
        "() => [...document.querySelectorAll('figure[data-chart] details.values')]"
        ".every((e) => e.querySelector('table'))"
    )
    figure(shown, "Entropy").locator("svg").hover()
    shown.locator("#curves figure svg").first.hover()
    for chip in shown.locator(".legend button[data-agent]").all()[:3]:
        chip.click()
    assert shown.evaluate("window.pwned") is None
    assert shown.locator("img, iframe").count() == 0
    chips = shown.locator(".legend button[data-agent]").all_text_contents()
    assert pages.HOSTILE[0] in chips


def test_the_policy_stops_what_escaping_would_miss(opened):
    shown = opened("two")
    shown.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'window.pwned = 1';
          document.body.append(script);
          const image = document.createElement('img');
          image.setAttribute('onerror', 'window.pwned = 2');
          image.src = 'https://example.org/x.png';
          document.body.append(image);
        }"""
    )
    shown.wait_for_timeout(100)
    assert shown.evaluate("window.pwned") is None
    assert all("Content Security Policy" in words for words in shown.complaints)
    assert len(shown.complaints) >= 2
    shown.complaints.clear()
    blocked = [request for request in shown.requests if "example.org" in request.url]
    assert [request.failure for request in blocked] == ["csp"]
    shown.requests.remove(blocked[0])


def test_one_run_makes_a_page(opened):
    shown = opened("one")
    assert figure(shown, "atari/pong").locator("polyline").count() == 1
    assert shown.locator("#improvement, #statistics").count() == 0
    assert "1 run, finished" in shown.locator("p.lead").text_content()


def test_everything_that_acts_has_a_name(opened):
    shown = opened("two")
    figure(shown, "Largest emphasis")
    unnamed = shown.evaluate(
        """() => {
          const name = (e) => e.getAttribute('aria-label') || e.labels?.[0]?.textContent;
          const acting = 'button, select, input, svg[role=img], [role=region]';
          return [...document.querySelectorAll(acting)]
            .filter((e) => !(name(e) || e.textContent).trim()).map((e) => e.outerHTML);
        }"""
    )
    assert unnamed == []
    said = figure(shown, "atari/pong").locator("svg").get_attribute("aria-label")
    assert said.startswith("atari/pong: mean return of training episodes over environment steps.")
    levels = shown.locator("h1, h2, h3").evaluate_all("x => x.map((e) => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_without_a_script_the_tables_are_there_and_figures_are_linked(opened):
    shown = opened("two", java_script_enabled=False)
    assert shown.locator("#tables table").first.is_visible()
    assert shown.locator('#curves a[href="./figures/learning-curves.svg"]').first.is_visible()


def test_the_data_in_the_page_is_what_was_given(written):
    document = written("two").read_text(encoding="utf-8")
    block = re.search(r'id="data">(.*?)</script>', document, re.S)[1]
    found = json.loads(block)["charts"]["curve-0"]
    [chart, _] = progress.learning(pages.collection(seeds=(0, 1, 2)))
    assert found["title"] == chart.group
    assert [tuple(line["y"]) for line in found["series"]] == [line.y for line in chart.series]
    assert dataclasses.astuple(chart)[0] == "curve-0"
