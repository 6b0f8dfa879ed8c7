"""docs/cost-model.md says of Sebulba what the model's code says."""

import re
from pathlib import Path

import pytest

from emphatic.agent import presets
from emphatic.study import costs, machines
from emphatic.study.costs import Facts
from emphatic.study.machines import EMULATED, MACHINES
from emphatic.study.plan import quantity

PAGE = (Path(__file__).parents[2] / "docs" / "cost-model.md").read_text()
GREY = Facts((84, 84, 4), 1, 6, 4, 84 * 84)
COLOUR = Facts((210, 160, 12), 1, 6, 4, 210 * 160 * 3)
AGENTS = re.findall(r"^\| `([\w-]+)`, `([\w-]+)` \| (.*FLOP.*) \|$", PAGE, re.M)
SHAPES = {
    "one CPU core": "cpu2",
    "1 H200": "h200",
    "8 H100": "8xh100",
    "TPU v3-8": "v3-8",
    "TPU v5e-8": "v5e-8",
}


def cost_of(preset, agent, **options):
    facts = COLOUR if preset.startswith("paper") else GREY
    return costs.run(presets.preset(preset, agent), facts, **options)


def test_all_of_them_are_there():
    assert len(AGENTS) == 5


@pytest.mark.parametrize(("preset", "agent", "cells"), AGENTS)
def test_a_step(preset, agent, cells):
    cost = cost_of(preset, agent)
    assert cells.split(" | ") == [
        *(f"{quantity(x)}FLOP" for x in (cost.act, cost.learn, cost.step)),
        f"{cost.wire:,} B",
        *(f"{quantity(x)}B" for x in (cost.all_reduce(8), cost.memory)),
    ]


@pytest.mark.parametrize("title", SHAPES)
def test_where_a_machine_saturates(title):
    row = re.search(rf"^\| {title}[^|]*\| (.*) \|$", PAGE, re.M)
    assert row is not None
    cells = [float(re.search(r"[\d,.]+", c)[0].replace(",", "")) for c in row[1].split("|")[:4]]
    machine = MACHINES[SHAPES[title]]
    expected = []
    for preset, network in (("paper-fixed", "paper"), ("atari", "nature")):
        cost = cost_of(preset, "netd-ace", recompute=None)
        if machine.cpu and network == "paper":
            cost = cost_of(preset, "netd-ace", recompute=True)
        found = machines.estimate(cost, network, machine)
        expected += [found.steps_per_second, found.frames_needed]
    assert cells == pytest.approx(expected, rel=0.05)


def test_the_core_s_frames():
    assert f"{EMULATED:,.0f} cores" in PAGE


LINKS = re.findall(r"^\| [^|]+ \| ([\d.]+) GB/s \| ([\d.]+) ms \| (\d+)%([^|]*)\|$", PAGE, re.M)


def test_all_links_are_there():
    assert len(LINKS) == 5


@pytest.mark.parametrize(("gigabytes", "milliseconds", "percent", "words"), LINKS)
def test_what_a_network_adds(gigabytes, milliseconds, percent, words):
    """Eight devices of 18 streams each."""
    cost = cost_of("paper-fixed", "netd-ace")
    machine = MACHINES["v5e-8" if "133 ms" in words else "h200"]
    alone = machines.estimate(cost, "paper", machine)
    shared = machines.estimate(cost, "paper", machine, sharing=8, bandwidth=1e9 * float(gigabytes))
    added = shared.seconds_per_update - alone.seconds_per_update
    assert 1e3 * added == pytest.approx(float(milliseconds), abs=0.5, rel=0.05)
    assert 100 * added / alone.seconds_per_update == pytest.approx(float(percent), abs=0.6)
    assert (shared.limit == "network") == (float(percent) > 100)
    assert shared.steps_per_second < alone.steps_per_second
