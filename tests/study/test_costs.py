"""The cost model: its documented table, XLA's own count, and what a plan adds up to."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import cli, envs
from emphatic.agent import learner as learners
from emphatic.agent import networks, presets
from emphatic.agent.learner import Trajectory
from emphatic.agent.surreal import Transitions
from emphatic.study import costs, machines, plan, spec
from emphatic.study import presets as studies
from emphatic.study.costs import Facts
from emphatic.study.spec import Study

DOC = Path(__file__).parents[2] / "docs" / "cost-model.md"
ROWS = re.findall(
    r"^\| `(\w+)` \| ([\dx]+) \| ([\d,]+) \| ([\d.]+) \| ([\d,.]+) \|$", DOC.read_text(), re.M
)
MINATAR = Facts((10, 10, 4), 1, 3, 0, 0)
SCREENS = Facts((210, 160, 12), 1, 18, 4, 210 * 160 * 3)


def test_the_documented_table():
    """The same numbers as `tests/agent/test_networks.py` derives, by other code."""
    assert [row[0] for row in ROWS] == ["paper", "impala", "nature", "small", "minatar", "mlp"]
    for name, shape, parameters, megabytes, forward in ROWS:
        design = networks.ARCHITECTURES[name]
        cost = costs.network(design, tuple(map(int, shape.split("x"))), actions=6, heads=3)
        assert f"{cost.parameters:,}" == parameters
        assert f"{4 * cost.parameters / 1e6:.2f}" == megabytes
        assert f"{cost.forward / 1e6:,.3f}" == forward


def test_the_small_preset_has_the_parameters_that_the_page_says():
    cost = costs.run(
        presets.preset("atari-small", "netd-ace"), Facts((84, 84, 4), 1, 6, 4, 84 * 84)
    )
    assert f"has half as wide heads in its preset: {cost.network.parameters:,}" in " ".join(
        DOC.read_text().split()
    )


@pytest.mark.parametrize(
    ("agent", "preset"),
    [("impala", presets.minatar), ("surreal", presets.minatar), ("wetd", presets.minatar)],
)
def test_operations_of_an_update_as_xla_counts_them(agent, preset):
    """The whole update, loss and optimiser too; XLA also counts what is no product."""
    config = preset(agent)
    cost = costs.run(config, MINATAR)
    learner = learners.build(
        config,
        num_actions=3,
        observation_shape=(10, 10, 4),
        observation_dtype=np.bool_,
        num_updates=9,
    )
    shape = (config.unroll_length, config.num_streams)
    trajectory = Trajectory(
        jax.ShapeDtypeStruct((shape[0] + 1, shape[1], 10, 10, 4), jnp.bool_),
        Transitions(
            jax.ShapeDtypeStruct(shape, jnp.int32),
            *[jax.ShapeDtypeStruct(shape, jnp.float32)] * 3,
            jax.ShapeDtypeStruct((*shape, 3), jnp.float32),
        ),
    )
    state = jax.eval_shape(learner.init, jax.random.key(0))
    counted = jax.jit(learner.update).lower(state, trajectory).cost_analysis()["flops"]
    expected = cost.learn * cost.steps_per_update
    assert expected < counted < 1.15 * expected


def test_the_fixed_scheme_forwards_more_than_the_mixed():
    """n observations behind T = n states: another forward a step; the mixed scheme one in T."""
    fixed, mixed = presets.paper_fixed("netd"), presets.paper_mixed("wetd")
    cost, other = costs.run(fixed, SCREENS), costs.run(mixed, SCREENS)
    forward, first = cost.network.forward, cost.network.first
    assert cost.learn == pytest.approx(4 * forward - first)
    assert other.learn == pytest.approx((3 + 1 / 40) * forward - first)
    again = costs.run(fixed, SCREENS, recompute=True)
    assert again.learn - cost.learn == pytest.approx(cost.network.torso)
    assert cost.act < forward


def test_bytes():
    """One frame a step over the wire; 2 (p-1)/p gradients a device in a ring."""
    cost = costs.run(presets.paper_fixed(), SCREENS)
    assert cost.wire == 100_800
    assert cost.gradient == 4 * cost.network.parameters
    assert cost.all_reduce(1) == 0
    assert cost.all_reduce(4) == 1.5 * cost.gradient
    observations = 2 * (10 + 10) * 18 * 210 * 160 * 12
    assert cost.memory > 12 * cost.network.parameters + observations


def test_facts_of_environments():
    assert costs.facts(envs.make("minatar/breakout")) == MINATAR
    pong = costs.facts(envs.make("atari/pong", pixels="rgb210"))
    assert pong == SCREENS._replace(actions=6)


@pytest.mark.parametrize(
    ("name", "preset", "learning", "facts", "changes"),
    [
        # docs/cost-model.md: learner alone, 4,300 steps/s.
        ("h200", presets.paper_fixed, 4_300, SCREENS._replace(frames=0), {"act": 0.0}),
        # docs/cost-model.md: 32 streams, the whole loop, 318,000 steps/s.
        ("h200", presets.minatar, 318_000, MINATAR, {}),
    ],
)
def test_the_model_gives_back_what_was_measured(name, preset, learning, facts, changes):
    cost = costs.run(preset(), facts)._replace(**changes)
    config = preset()
    estimate = machines.estimate(cost, config.network.name, machines.MACHINES[name])
    assert estimate.steps_per_second == pytest.approx(learning, rel=0.1)
    assert estimate.source == "measured"


def test_the_slower_of_learner_and_emulators_counts():
    cost = costs.run(presets.paper_fixed(), SCREENS)
    machine = machines.MACHINES["h200"]
    starved = machines.estimate(cost._replace(frames=4000), "paper", machine)
    assert starved.limit == "emulators"
    assert starved.steps_per_second == pytest.approx(machine.cores * machines.EMULATED / 4000)
    fed = machines.estimate(cost, "paper", machine)
    assert fed.limit == "learning"
    assert fed.frames_needed == pytest.approx(4 * fed.steps_per_second)
    small = machines.estimate(cost._replace(memory=2**60), "paper", machine)
    assert small.limit == "memory"


def test_a_plan_adds_up():
    """Hours are steps over speed; cost is hours times price, of one machine with all devices."""
    study = Study(environments=("catch",), agents={"surreal": 3}, steps=10_000_000)
    found = plan.parts(study)
    (machine,) = [m for m in machines.chosen({"v5e-8": 7.0}, {"v5e-8": 0.5}) if m.name == "v5e-8"]
    total = plan.total(study, found, machine)
    rate = machines.estimate(found[0].cost, "mlp", machine).steps_per_second
    assert total.device_hours == pytest.approx(3 * 10_000_000 / rate / 3600)
    assert total.machine_hours == pytest.approx(total.device_hours / 8)
    assert total.cost == pytest.approx(7 * total.machine_hours)
    assert machine.rate("mlp") == (0.5 * 1.97e14, "assumed")


def test_the_plan_of_a_preset(tmp_path, monkeypatch, capsys):
    """Before anything is there: runs, operations, and a line a machine, within 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    cli.main(["study", "plan", "minatar5", "--price", "h200=2"])
    out = capsys.readouterr().out
    assert "275 runs of 5,000,000 steps" in out
    assert "P floating-point operations" in out
    for name in machines.MACHINES:
        assert re.search(rf"^ {name} .*\d", out, re.M)
    assert "2 $ an hour: given" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert list(tmp_path.iterdir()) == []


def test_the_papers_study_takes_what_the_documentation_says():
    """3.2 hours of learning a run on an H200; with acting 4.1, so 684 runs 2,800 hours."""
    study = studies.atari57()
    one = spec.dataclasses.replace(study, environments=("atari/pong",), agents={"netd-ace": 1})
    total = plan.total(one, plan.parts(one), machines.MACHINES["h200"])
    assert total.device_hours == pytest.approx(4.1, abs=0.1)
    assert total.limits == ("learning",)
    assert total.measured
