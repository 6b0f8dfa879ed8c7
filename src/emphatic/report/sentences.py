"""What a comparison found and what it allows one to say, in words."""

from emphatic.evaluation.statistics import RankTest, SignTest
from emphatic.report.comparison import Comparison
from emphatic.report.content import Statement

LEVEL = 0.05
"""What the paper calls statistically significant."""


def statements(comparison: Comparison) -> list[Statement]:
    """The tests in words; the unsound one says that it is."""
    both = (comparison.agent, comparison.baseline)
    if len(comparison.games) == 1:
        return [_on_one_game(comparison, both), _improves(comparison, both)]
    return [_on_games(comparison, both), _on_seeds(comparison, both), _improves(comparison, both)]


def _on_games(c: Comparison, both: tuple[str, str]) -> Statement:
    text = f"{_counted(c, c.on_games, 'games')}: sign test on games, {_p_values(c)}"
    return Statement(text=text, allows=_allowed(c), agents=both)


def _allowed(c: Comparison) -> str:
    n = c.on_games
    if n.smallest > LEVEL:
        return (
            f"{n.pairs} games are too few for this test: even had all gone one way, p would be "
            f"{p_value(n.smallest)} two-sided. It allows no claim about other games."
        )
    if c.adjusted > LEVEL:
        return (
            "This does not show that either agent is better on most games; nor does it show that "
            "they are alike."
        )
    better, worse = (c.agent, c.baseline) if n.wins > n.losses else (c.baseline, c.agent)
    return (
        f"Games are independent of each other, so one may say that {better} is better than {worse} "
        "on more than half of games such as these. It says nothing about by how much."
    )


def _on_seeds(c: Comparison, both: tuple[str, str]) -> Statement:
    n = c.on_seeds
    return Statement(
        text=f"{_counted(c, n, 'pairs of game and seed')}: sign test, p = {p_value(n.one_sided)} "
        f"one-sided, {p_value(n.two_sided)} two-sided.",
        allows=(
            f"Not sound: seeds of one game are not independent games, so {n.pairs} pairs count "
            f"{len(c.games)} games several times and p comes out too small. It is shown because "
            "the paper's p-value is of this kind; rely on the test on games."
        ),
        agents=both,
        sound=False,
    )


def _on_one_game(c: Comparison, both: tuple[str, str]) -> Statement:
    n = c.on_seeds
    if n.smallest > LEVEL:
        are = "pair of seeds is" if n.pairs == 1 else "pairs of seeds are"
        allows = f"{n.pairs} {are} too few for this test to show anything"
    elif c.adjusted > LEVEL:
        allows = "This does not show that either agent is better"
    else:
        better, worse = (c.agent, c.baseline) if n.wins > n.losses else (c.baseline, c.agent)
        allows = f"One may say that {better} is better than {worse} on {c.games[0]}"
    what = f"{'pair' if n.pairs == 1 else 'pairs'} of seeds on {c.games[0]}"
    return Statement(
        text=f"{_counted(c, n, what)}: sign test, {_p_values(c)}",
        allows=f"{allows}. One environment allows no claim about any other.",
        agents=both,
    )


def _p_values(c: Comparison) -> str:
    """Of the sound test, adjusted where there are several comparisons."""
    n = c.sound
    words = f"p = {p_value(n.one_sided)} one-sided, {p_value(n.two_sided)} two-sided"
    return f"{words}{_adjusted(n, c.adjusted)}."


def _adjusted(test: SignTest | RankTest, adjusted: float) -> str:
    """The p that claims are made by, where there are several comparisons."""
    if adjusted == test.two_sided:
        return ""
    return f" ({p_value(adjusted)} adjusted for all comparisons here)"


def _improves(c: Comparison, both: tuple[str, str]) -> Statement:
    low, high = c.probability_interval
    spread = f"95% interval {low:.2f} to {high:.2f}" if c.spread else "resampling finds no spread"
    text = (
        f"The probability that a run of {c.agent} beats a run of {c.baseline} is "
        f"{c.probability:.2f} ({spread}), mean over {_environments(c)}. Rank test of the runs: "
        f"p = {p_value(c.on_runs.two_sided)} two-sided{_adjusted(c.on_runs, c.adjusted_on_runs)}."
    )
    return Statement(text=text, allows=_allowed_of_runs(c), agents=both)


def _allowed_of_runs(c: Comparison) -> str:
    """By the exact test alone: a bootstrap of three seeds has hardly an interval to show."""
    n = c.on_runs
    if n.smallest > LEVEL:
        return (
            "These are too few seeds to show a difference: even had every run of one beaten every "
            f"run of the other, p would be {p_value(n.smallest)}."
        )
    if c.adjusted_on_runs > LEVEL:
        return "With these seeds, neither is shown to be better on these environments."
    better, worse = (c.agent, c.baseline) if n.won > 0.5 else (c.baseline, c.agent)
    one = len(c.games) == 1
    where = c.games[0] if one else "these environments taken together"
    return (
        f"One may say that runs of {better} do better than runs of {worse} on {where}: seeds alone "
        f"hardly make such a difference. It does not speak of other environments"
        f"{'.' if one else ', nor of each of these.'}"
    )


def _environments(c: Comparison) -> str:
    return f"{len(c.games)} {'environment' if len(c.games) == 1 else 'environments'}"


def _counted(c: Comparison, n: SignTest, what: str) -> str:
    ties = f", {n.ties} {'tie' if n.ties == 1 else 'ties'} left out" if n.ties else ""
    return f"{c.agent} is better than {c.baseline} on {n.wins} of {n.pairs} {what}{ties}"


def p_value(p: float) -> str:
    """Two digits, as the paper has it: 0.016."""
    return "1" if p == 1 else f"{p:.2g}" if p >= 1e-4 else f"{p:.1e}"
