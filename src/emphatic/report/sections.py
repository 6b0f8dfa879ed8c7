"""What was run, what is wrong with it, every run, and how the page is made again."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from emphatic.report.blocks import scrolled, section, swatch
from emphatic.report.collect import Collection
from emphatic.report.markup import Markup, join, link, tag
from emphatic.report.palette import Look
from emphatic.report.summaries import Returns, RunSummary

LONG = 220
"""Letters of a problem shown before the rest of it is folded away."""
MANY = 8
"""Items of a list shown before the rest of it is folded away."""
RUNS = (
    "Returns are raw: of the episodes that ended in the last tenth of training, and of "
    "emphatic evaluate, with the standard error over episodes."
)


def header(
    title: str,
    collection: Collection,
    found: Sequence[str],
    contents: Sequence[tuple[str, str]],
) -> Markup:
    """Title, one sentence, the page's contents, and problems where they cannot be missed."""
    links = [tag("li", tag("a", words, href=f"#{name}")) for name, words in contents]
    theme = tag("button", "Dark", type="button", id="theme")
    return tag(
        "header",
        tag("a", "Skip to the results", href="#main", class_="skip"),
        tag("div", tag("h1", title), theme, class_="top"),
        tag("p", _in_one_sentence(collection), class_="lead"),
        tag("nav", tag("ul", *links), aria_label="contents"),
        problems(found),
    )


def _in_one_sentence(collection: Collection) -> str:
    runs = collection.runs
    finished = sum(run.finished for run in runs)
    counts = (
        _counted(len(collection.agents), "agent"),
        _counted(len(collection.environments), "environment"),
        _counted(len({run.seed for run in runs}), "seed"),
    )
    of = _counted(len(runs), "run")
    done = "all finished" if finished == len(runs) else f"{finished} of them finished"
    done = "finished" if finished == len(runs) == 1 else done
    return f"{counts[0]} on {counts[1]} with {counts[2]}: {of}, {done}."


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def legend(looks: Mapping[str, Look]) -> Markup:
    """A button for each agent that hides and shows it; a screen reader hears it as a switch."""
    chips = [
        tag(
            "button",
            swatch(look),
            agent,
            type="button",
            class_=f"c{look.colour}",
            data_agent=number,
            aria_pressed="true",
            title="hide or show everywhere",
        )
        for number, (agent, look) in enumerate(looks.items())
    ]
    everyone = tag("button", "Show all", type="button", id="everyone", class_="off")
    inside = tag("div", *chips, everyone, role="group", aria_label="agents shown")
    return tag("div", inside, class_="legend")


def problems(found: Sequence[str]) -> Markup | None:
    """What is wrong with the input, a sentence each; long ones and many of them folded."""
    if not found:
        return None
    items = [tag("li", _clipped(problem)) for problem in found]
    first, rest = items[:MANY], items[MANY:]
    more = rest and tag("details", tag("summary", f"{len(rest)} more"), tag("ul", *rest))
    noun = "One thing" if len(found) == 1 else f"{len(found)} things"
    heading = tag("p", tag("strong", f"{noun} to know about the input"))
    return tag(
        "div",
        heading,
        tag("ul", *first),
        more or None,
        class_="problems",
        role="note",
        id="problems",
    )


def _clipped(words: str) -> Markup:
    if len(words) <= LONG:
        return join([words])
    cut = words.rfind(" ", 0, LONG) if " " in words[:LONG] else LONG
    return join([words[:cut], " …", tag("details", tag("summary", "the rest"), words[cut:])])


def what_was_run(collection: Collection, looks: Mapping[str, Look]) -> Markup:
    """Agents, environments, seeds, versions, time."""
    facts: list[tuple[str, object]] = [
        ("Study", ", ".join(dict.fromkeys(study.resolve().name for study in collection.studies))),
        ("Agents", join((join([swatch(looks[a]), " ", a]) for a in collection.agents), ", ")),
        ("Environments", _few(collection.environments)),
        ("Seeds", _seeds(collection.runs)),
        ("Length", _lengths(collection.runs)),
        ("Computing time", _time(collection.runs)),
        ("Versions", _versions(collection.runs)),
    ]
    shown = [join([tag("dt", name), tag("dd", value)]) for name, value in facts if value]
    return section("run", "What was run", tag("dl", *shown, class_="facts"), _differing(collection))


def _few(names: Sequence[str]) -> Markup:
    first, rest = names[:MANY], names[MANY:]
    if not rest:
        return join(first, ", ")
    folded = tag("details", tag("summary", f"and {len(rest)} more"), join(rest, ", "))
    return join([join(first, ", "), folded])


def _seeds(runs: Sequence[RunSummary]) -> str:
    seeds = sorted({run.seed for run in runs})
    words = ", ".join(map(str, seeds)) if len(seeds) <= 12 else f"{len(seeds)} different ones"
    return f"{words} ({len(runs)} run{'s' * (len(runs) != 1)} in all)"


def _lengths(runs: Sequence[RunSummary]) -> str:
    lengths = sorted({run.steps_planned for run in runs})
    if not lengths:
        return ""
    words = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"
    return f"{words} environment steps a run"


def _time(runs: Sequence[RunSummary]) -> str:
    seconds = sum(run.seconds or 0.0 for run in runs)
    cpu = sum(run.cpu_seconds or 0.0 for run in runs)
    if not seconds:
        return ""
    return (
        f"{_duration(seconds)} on the clock, {_duration(cpu)} of processor time, all runs together"
    )


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} seconds"


def _versions(runs: Sequence[RunSummary]) -> str:
    packages = sorted({package for run in runs for package in run.versions})
    found = {p: sorted({run.versions.get(p, "none") for run in runs}) for p in packages}
    return ", ".join(f"{package} {' and '.join(words)}" for package, words in found.items())


def _differing(collection: Collection) -> Markup | None:
    """Settings that are not alike in all runs, by agent."""
    rows = []
    for field, by_run in collection.differing.items():
        if field in ("seed", "env"):
            continue
        cells = [
            _values(by_run[run.name] for run in collection.runs if collection.labels[run.name] == a)
            for a in collection.agents
        ]
        rows.append(tag("tr", tag("th", tag("code", field), scope="row"), *cells))
    if not rows:
        return None
    head = [tag("th", agent, scope="col", class_="words") for agent in collection.agents]
    grid = scrolled(
        tag("thead", tag("tr", tag("th", "setting", scope="col", class_="words"), *head)),
        tag("tbody", *rows),
        label="settings that differ",
    )
    return tag("details", tag("summary", "Settings in which the runs differ"), grid)


def _values(values: Iterable[object]) -> Markup:
    words = sorted({"–" if value is None else str(value) for value in values})
    return tag("td", ", ".join(words[:4]) + (" …" if len(words) > 4 else ""), class_="words")


def runs(collection: Collection, out: Path, looks: Mapping[str, Look]) -> Markup:
    """Every run: how far it got, what it scored, what shows it playing, its command."""
    heads = ("run", "agent", "environment", "seed", "steps", "end of training", "evaluation")
    heads += ("time", "playing", "command")
    words = frozenset({"run", "agent", "environment", "playing", "command"})
    head = [
        tag("th", name, scope="col", class_="words" if name in words else None) for name in heads
    ]
    places = {agent: number for number, agent in enumerate(looks)}
    rows = []
    for run in collection.runs:
        agent = collection.labels[run.name]
        cells = _run_cells(run, agent, looks[agent], _animations(run, collection, out))
        rows.append(tag("tr", *cells, data_of=places[agent], data_group=run.environment))
    grid = scrolled(
        tag("thead", tag("tr", *head)), tag("tbody", *rows), label="runs", tall=len(rows) > 16
    )
    return section("runs", "Runs", tag("p", RUNS, class_="caption"), grid)


def _run_cells(run: RunSummary, agent: str, look: Look, playing: Markup) -> list[Markup]:
    steps = f"{run.steps:,}" if run.finished else f"{run.steps:,} of {run.steps_planned:,}"
    return [
        tag("th", run.name, scope="row"),
        tag("td", swatch(look), " ", agent, class_="words"),
        tag("td", run.environment, class_="words"),
        tag("td", run.seed),
        tag("td", steps),
        tag("td", _returned(run.training)),
        tag("td", _returned(run.evaluation)),
        tag("td", "–" if run.seconds is None else _duration(run.seconds)),
        tag("td", playing, class_="words"),
        tag("td", tag("code", shlex.join(run.command)), class_="words"),
    ]


def _returned(returns: Returns | None) -> Markup:
    if returns is None:
        return join(["–"])
    error = f" ± {returns.standard_error:.3g}" if returns.standard_error is not None else ""
    return join([number(returns.mean), tag("small", f"{error} ({returns.episodes:,} episodes)")])


def number(value: float) -> str:
    """Four digits, with separators where it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _animations(run: RunSummary, collection: Collection, out: Path) -> Markup:
    """Links to what shows the agent playing; only names where the run came as a summary."""
    folder = collection.folders.get(run.name)
    if folder is None:
        return join(run.animations, ", ")
    where = Path(os.path.relpath(folder.resolve(), out.resolve()))
    return join((link((where / name).as_posix(), name) for name in run.animations), ", ")


def commands(command: Sequence[str]) -> Markup:
    """How this page is made again, and what it is made of."""
    parts = [
        tag("p", "This page, and the figures and numbers beside it, were made by"),
        tag("pre", tag("code", shlex.join(command)), tabindex=0),
        tag(
            "p",
            "from run folders alone; the same runs make the same bytes. It needs nothing but "
            "itself: beside it lie the same figures as PNG and SVG in ",
            link("figures/", "figures/"),
            " and the numbers as CSV and JSON in ",
            link("data/", "data/"),
            ". Commands of the runs stand in the table above.",
        ),
    ]
    return section("again", "How to make it again", *parts)
