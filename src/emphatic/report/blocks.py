"""Tables, statements and charts as parts of the page; None where there is nothing to show.

A chart's place is made here and drawn by page.js; without a script its file is linked to.
"""

from collections.abc import Mapping, Sequence

from emphatic.report.content import Bars, Cell, Chart, Statement, Table
from emphatic.report.figures import file_of
from emphatic.report.markup import Markup, join, link, slug, tag
from emphatic.report.palette import Look

COLOURLESS = 4
"""The colour nearest to that of text."""
MANY = 8
"""Charts shown without a field that finds some of them."""
CURVES = (
    "Mean return of the training episodes that ended since the point before. A line is the mean "
    "over seeds as far as all of them got; the band reaches from the lowest to the highest seed. "
    "Point at a chart, or move to it and use the arrow keys, to read values."
)
HEALTH = (
    "The main head acts; auxiliary heads learn off-policy from what it did, and the emphasis F "
    "weighs their updates. Means over seeds; colours are agents, dashes are heads."
)


def section(name: str, title: str, *parts: object) -> Markup:
    """With a heading that the page's contents link to."""
    heading = tag("h2", title, id=f"{name}-title")
    return tag("section", heading, *parts, id=name, aria_labelledby=f"{name}-title")


def tables(found: Sequence[Table], looks: Mapping[str, Look]) -> Markup | None:
    """All of them, one below the other."""
    if not found:
        return None
    return section("tables", "Results", *(table(content, looks) for content in found))


def table(content: Table, looks: Mapping[str, Look]) -> Markup:
    """A table with its heading and its words; an agent's columns and rows are hidden with it."""
    places = numbered(looks)
    agents = content.agents or (None,) * len(content.columns)
    owners = [_of(agent, places) for agent in agents]
    words = [_words(column) for column in zip(*content.rows, strict=True)]
    head = [
        tag("th", swatch(looks[agent]) if agent else "", name, scope="col", class_=kind, data_of=of)
        for name, agent, kind, of in zip(content.columns, agents, words, owners, strict=True)
    ]
    row_agents = content.row_agents or (None,) * len(content.rows)
    rows = [
        _row(cells, words, owners, agent, looks)
        for cells, agent in zip(content.rows, row_agents, strict=True)
    ]
    grid = scrolled(
        tag("thead", tag("tr", *head)),
        tag("tbody", *rows),
        label=content.title,
        tall=len(rows) > 16,
    )
    caption = content.caption and tag("p", content.caption, class_="caption")
    return join([tag("h3", content.title), caption or None, grid])


def _words(column: Sequence[Cell]) -> str | None:
    """Words stand at the left of their column, numbers at the right."""
    return "words" if any(cell.text and cell.value is None for cell in column) else None


def _row(
    cells: Sequence[Cell],
    words: Sequence[str | None],
    owners: Sequence[str | None],
    agent: str | None,
    looks: Mapping[str, Look],
) -> Markup:
    """The agent that the row is of has its colour beside its name."""
    first, *rest = (_named(c.text, looks.get(c.text) if c.text == agent else None) for c in cells)
    shown = [
        tag("td", text, class_="best" if cell.best else kind, data_of=of)
        for text, cell, kind, of in zip(rest, cells[1:], words[1:], owners[1:], strict=True)
    ]
    owner = _of(agent, numbered(looks))
    return tag("tr", tag("th", first, scope="row"), *shown, data_of=owner)


def _named(text: str, look: Look | None) -> Markup | str:
    return text if look is None else join([swatch(look), " ", text])


def numbered(looks: Mapping[str, Look]) -> dict[str, int]:
    """Agents as page.js knows them."""
    return {agent: number for number, agent in enumerate(looks)}


def _of(agent: str | None, places: Mapping[str, int]) -> str | None:
    return None if agent is None or agent not in places else str(places[agent])


def scrolled(*parts: object, label: str, tall: bool = False) -> Markup:
    """A table in a box of its own that scrolls, by keyboard too."""
    box = "box tall" if tall else "box"
    return tag("div", tag("table", *parts), class_=box, tabindex=0, role="region", aria_label=label)


def statements(found: Sequence[Statement], looks: Mapping[str, Look]) -> Markup | None:
    """Each statistic with the sentence on what it allows one to say."""
    if not found:
        return None
    items, places = [], numbered(looks)
    for statement in found:
        owners = " ".join(str(places[a]) for a in statement.agents if a in places)
        items.append(
            tag(
                "li",
                tag("p", tag("strong", statement.text)),
                tag("p", statement.allows),
                class_=None if statement.sound else "unsound",
                data_of=owners or None,
            )
        )
    return section("statistics", "What can be said", tag("ul", *items, class_="said"))


def overall(charts: Sequence[Chart], title: str) -> Markup | None:
    """Charts over all environments: the median's learning curve, performance profiles."""
    if not charts:
        return None
    figures = [tag("div", figure(c, c.name), _caption(c.caption)) for c in charts]
    size = "one" if len(charts) == 1 else "wide"
    return section("overall", title, tag("div", *figures, class_=f"charts {size}"))


def curves(charts: Sequence[Chart]) -> Markup | None:
    """Learning curves by environment, with a field that finds some of many."""
    if not charts:
        return None
    find = tag("input", type="search", id="find", placeholder="all", autocomplete="off")
    tools = tag("div", tag("label", "Show environments named ", find), class_="tools")
    size = "one" if len(charts) == 1 else "wide" if len(charts) <= 4 else ""
    figures = tag("div", *(figure(c, c.name) for c in charts), class_=f"charts {size}".strip())
    return section(
        "curves",
        "Learning curves",
        tag("p", CURVES, class_="caption"),
        tools if len(charts) > MANY else None,
        figures,
    )


def improvements(found: Sequence[Bars], looks: Mapping[str, Look]) -> Markup | None:
    """Bars by environment; a select says whose, where there are several pairs."""
    if not found:
        return None
    options = [(str(i), f"{b.agent} against {b.baseline}") for i, b in enumerate(found)]
    places = numbered(looks)
    of = f"{places[found[0].agent]} {places[found[0].baseline]}"
    first = figure(found[0], "improvement-0", each="improvement", of=of)
    return section(
        "improvement",
        "Improvement by environment",
        _caption(f"In {found[0].unit}. {found[0].caption}"),
        _switch("improvement", "Show", options),
        tag("div", first, class_="charts one"),
    )


def health(charts: Sequence[Chart]) -> Markup | None:
    """How the heads fared in one environment; a select says which."""
    if not charts:
        return None
    names = list(dict.fromkeys(chart.group for chart in charts))
    shown = {measure_of(chart): chart for chart in charts if chart.group == names[0]}
    # Charts that only other environments have keep their places.
    for chart in charts:
        shown.setdefault(measure_of(chart), chart)
    figures = [
        tag("div", figure(chart, chart.name, each=measure), _caption(chart.caption))
        for measure, chart in shown.items()
    ]
    options = [(place_of(name, charts), name) for name in names]
    return section(
        "health",
        "Health of the heads",
        tag("p", HEALTH, " ", _dashes(charts), class_="caption"),
        _switch("health", "Environment", options),
        tag("div", *figures, class_="charts wide"),
    )


def _dashes(charts: Sequence[Chart]) -> Markup:
    """Which dash is which head."""
    heads = sorted({(line.dash, line.name) for chart in charts for line in chart.series})
    keys = [
        tag("span", swatch(Look(COLOURLESS, dash)), " ", name, class_="key")
        for dash, name in heads
        if name
    ]
    return join([join(keys, ", "), "."]) if keys else join([])


def swatch(look: Look) -> Markup:
    """A short piece of a line."""
    dash = ("", " dashed", " dotted", " dotted")[look.dash % 4]
    return tag("span", class_=f"swatch c{look.colour}{dash}", aria_hidden="true")


def measure_of(chart: Chart) -> str:
    """Which measure a chart of health shows: its name without the place of its environment."""
    return chart.name.rpartition("-")[0]


def place_of(group: str, charts: Sequence[Chart]) -> str:
    """The place of an environment, as names of its charts end with it."""
    return next(chart.name.rpartition("-")[2] for chart in charts if chart.group == group)


def figure(
    chart: Chart | Bars, key: str, *, each: str | None = None, of: str | None = None
) -> Markup:
    """The place of the chart that page.js knows as `key`.

    With `each`, of all whose keys begin so: a select says which. Hidden with the agents `of`.
    """
    bars = isinstance(chart, Bars)
    file = slug(chart.name) if bars else file_of(chart)
    fallback = tag(
        "p", "Drawn by a script; without one see ", link(f"figures/{file}.svg", file), "."
    )
    return tag(
        "figure",
        tag("figcaption", title_of(chart)),
        tag("div", tag("noscript", fallback), class_="plot bars" if bars else "plot"),
        tag("details", tag("summary", "Values"), class_="values"),
        data_chart=key,
        data_each=each,
        data_group=None if bars or each else chart.group or None,
        data_of=of,
    )


def title_of(chart: Chart | Bars) -> str:
    """With the environment, unless that is all it says."""
    group = "" if isinstance(chart, Bars) else chart.group
    return ", ".join(dict.fromkeys(filter(None, (chart.title, group))))


def _switch(name: str, words: str, options: Sequence[tuple[str, str]]) -> Markup | None:
    if len(options) < 2:
        return None
    inside = [tag("option", label, value=value) for value, label in options]
    select = tag("select", *inside, data_switches=name, autocomplete="off")
    return tag("div", tag("label", f"{words} ", select), class_="tools")


def _caption(words: str) -> Markup | None:
    return tag("p", words, class_="caption") if words else None
