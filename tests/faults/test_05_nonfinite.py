"""Promise 5: a number that is not finite spoils the update that holds it and nothing else."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import envs
from emphatic.agent import faults, learner, networks
from emphatic.agent.agents import AGENTS
from emphatic.agent.networks import NetworkConfig
from emphatic.agent.surreal import AgentConfig, Transitions, emphasis_bound
from emphatic.envs import base, catch
from emphatic.runtime import checkpoints, runs, training
from emphatic.runtime.logbook import TrainingHalted
from emphatic.runtime.settings import TrainConfig

STREAMS, STEPS, ACTIONS, FEATURES = 2, 6, 3, 5
STEP, STREAM, HEAD = 1, 1, 2
"""Where what is not finite is put."""
VALUES = {"NaN": np.nan, "inf": np.inf, "-inf": -np.inf}
PLACES = (*faults.KINDS[:6], "gradient", "trace", "bound")
FIRST = ("netd-ace", "wetd-ace")
"""Agents of the quick count."""
SMALL = NetworkConfig(name="mlp", head_hidden=4)


def cases():
    """Agent, place, value: those that exist, of every agent."""
    names = [*FIRST, *(name for name in AGENTS if name not in FIRST)]
    for name, place, value in itertools.product(names, PLACES, VALUES):
        needs_bound = place == "bound" and not np.isfinite(emphasis_bound(config_of(name))).all()
        if not needs_bound and not (place in ("trace", "bound") and not emphasised(name)):
            yield name, place, value


def config_of(name):
    return AgentConfig(agent=name, n=3, unroll_length=STEPS, num_streams=STREAMS, network=SMALL)


def emphasised(name):
    return AGENTS[name].auxiliary == "emphasised" and AGENTS[name].row.trace != "none"


@jax.custom_vjp
def with_gradient(x, extra):
    """`x`, to whose gradient `extra` is added on the way back."""
    return x + 0.0 * extra


with_gradient.defvjp(lambda x, extra: (x, extra), lambda extra, g: (g + extra, extra * 0.0))


def sabotaged(build):
    """Networks that obey an order in the last two features: what to spoil, and with what."""

    def spoiled(x, order, kind):
        obeyed = (order[..., 0] == faults.KINDS.index(kind)).reshape(*order.shape[:-1], 1)
        bad = jnp.asarray([*VALUES.values()])[order[..., 1].astype(int)]
        head = jnp.arange(x.shape[len(order.shape) - 1]) == min(HEAD, x.shape[-1] - 1)
        spot = obeyed & head.reshape(*[1] * (order.ndim - 1), -1)
        spot = spot.reshape(*spot.shape, *[1] * (x.ndim - spot.ndim))
        return jnp.where(spot, bad.reshape(*bad.shape, *[1] * (x.ndim - bad.ndim)), x * 0.0)

    def made(*given, **options):
        network = build(*given, **options)

        def apply(params, observation):
            order, seen = observation[..., -2:], observation.at[..., -2:].set(0.0)
            logits, value = network.apply(params, seen)
            logits = with_gradient(logits, spoiled(logits, order, "gradient"))
            logits = logits + spoiled(logits, order, "logits")
            return networks.HeadOutputs(logits, value + spoiled(value, order, "value"))

        return network._replace(apply=apply)

    return made


@functools.cache
def updater(name):
    """The compiled update of an agent, and its state after three updates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "build", sabotaged(networks.build))
        built = learner.build(
            config_of(name),
            num_actions=ACTIONS,
            observation_shape=(FEATURES,),
            observation_dtype=np.float32,
            num_updates=100,
        )
    quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    update = jax.jit(built.update, compiler_options=quick)
    state = built.init(jax.random.key(0))
    for seed in range(3):
        state, metrics = update(state, experience(seed))
        assert not metrics["skipped_update"]
    return update, state


def experience(seed):
    rng = np.random.default_rng(seed)
    shape = (STEPS, STREAMS)
    observation = rng.normal(size=(STEPS + 1, STREAMS, FEATURES)).astype(np.float32)
    observation[..., -2:] = -1.0
    return learner.Trajectory(
        jnp.asarray(observation),
        Transitions(
            action=jnp.asarray(rng.integers(ACTIONS, size=shape), jnp.int32),
            reward=jnp.asarray(rng.normal(size=shape), jnp.float32),
            discount=jnp.asarray(rng.random(shape) > 0.1, jnp.float32),
            weight=jnp.ones(shape),
            behaviour_logits=jnp.asarray(rng.normal(size=(*shape, ACTIONS)), jnp.float32),
        ),
    )


def poisoned(state, trajectory, place, value):
    """State and trajectory of an update that something is wrong with."""
    observation, transitions = trajectory
    bad, spot = VALUES[value], (STEP, STREAM)
    if place in ("reward", "discount"):
        field = getattr(transitions, place).at[spot].set(bad)
        transitions = transitions._replace(**{place: field})
    elif place == "behaviour logits":
        logits = transitions.behaviour_logits.at[*spot, 0].set(bad)
        transitions = transitions._replace(behaviour_logits=logits)
    elif place == "observation":
        observation = observation.at[*spot, 0].set(bad)
    elif place in ("logits", "value", "gradient"):
        order = (faults.KINDS.index(place), [*VALUES].index(value))
        observation = observation.at[*spot, -2:].set(jnp.asarray(order, jnp.float32))
    else:
        # A trace gone wrong: not finite, or above its bound however finite.
        factor = bad if place == "trace" else 1e6 + [*VALUES].index(value)
        state = state._replace(trace=jax.tree.map(lambda x: spoilt(x, factor), state.trace))
    return state, learner.Trajectory(observation, transitions)


def spoilt(x, factor):
    return x * factor + factor if jnp.issubdtype(x.dtype, jnp.floating) else x


def same(one, other):
    return all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def finite(tree):
    return all(np.isfinite(x).all() for x in jax.tree.leaves(tree))


@pytest.mark.slow
def test_what_is_not_finite_is_noticed_named_and_forgotten(tally):
    everything = list(cases())
    for number in tally.cases(5, "update"):
        name, place, value = everything[number]
        update, good = updater(name)
        before, trajectory = poisoned(good, experience(3), place, value)
        after, metrics = update(before, trajectory)
        said = (name, place, value, str(faults.decode(metrics["fault"])))
        assert metrics["skipped_update"], said
        assert same((after.params, after.optimiser), (good.params, good.optimiser)), said
        assert finite(after), said
        assert_named(faults.decode(metrics["fault"]), name, place)
        for seed in (4, 5, 6):
            after, metrics = update(after, experience(seed))
            assert not metrics["skipped_update"], said
        assert finite(after), said
        assert not same(after.params, good.params), said


def assert_named(fault, name, place):
    kind = "emphasis" if place in ("trace", "bound") else place
    assert fault.kind == kind
    if place in faults.KINDS and place != "gradient":
        assert (fault.step, fault.stream) == (STEP, STREAM)
    if place in ("logits", "value"):
        assert fault.head == min(HEAD, config_of(name).num_heads - 1)
    if kind == "emphasis":
        assert fault.head in (1, 2)


def test_the_cases_are_those_that_are_counted():
    from promises import PROMISES

    assert len(list(cases())) == PROMISES[5].parts["update"].full


# A whole run.


def gone_wrong(place, begin, forever):
    """Catch, of which stream's every clock reads `begin` when something stops being finite."""
    game = catch.make()

    def init(key):
        state, observation = game.init(key)
        return (state, jnp.zeros((), jnp.int32)), observation.astype(jnp.float32)

    def step(state, action):
        inner, clock = state
        inner, seen = game.step(inner, action)
        bad = (clock >= begin) if forever else (clock == begin)
        seen = seen._replace(observation=seen.observation.astype(jnp.float32))
        changed = jnp.where(bad, jnp.nan, getattr(seen, place))
        return (inner, clock + 1), seen._replace(**{place: changed})

    return base.Environment(
        name="gone-wrong",
        num_actions=game.num_actions,
        observation_shape=game.observation_shape,
        observation_dtype=np.dtype(np.float32),
        init=init,
        step=step,
    )


RUN_CASES = [
    (place, forever, log_every)
    for log_every in (4, 1)
    for place, forever in itertools.product(("observation", "reward"), (True, False))
]
BEGIN, UPDATES, EVERY = 5 * 22 + 3, 40, 8
"""Environment step at which it begins (in update 23), updates of the run, of a checkpoint."""


@pytest.mark.slow
def test_a_run_goes_on_or_halts_and_its_good_checkpoints_stay(tally, tmp_path, monkeypatch):
    for number in tally.cases(5, "run"):
        place, forever, log_every = RUN_CASES[number]
        monkeypatch.setattr(envs, "make", lambda name, p=place, f=forever: gone_wrong(p, BEGIN, f))
        config = TrainConfig(
            env="catch",
            learner=AgentConfig(n=3, unroll_length=5, num_streams=2, network=SMALL),
            steps=UPDATES * 10,
            log_every=log_every,
            checkpoint_every=EVERY,
            halt_after=6,
        )
        path, said = tmp_path / str(number), []
        options = {"command": [], "created": "", "progress": lambda *_: None, "say": said.append}
        if forever:
            with pytest.raises(TrainingHalted, match=r"6 updates in a row .* with update 23: the"):
                training.train(path, config, **options)
        else:
            assert training.train(path, config, **options).finished
        assert said[0].startswith(f"left out update 23: the {place} of step ")
        assert "stream 0" in said[0]
        found = checkpoints.latest(path / "checkpoints")
        assert found.step == (16 if forever else UPDATES)
        assert (path / "checkpoints" / f"{16:012d}").exists() == forever
        saved = anakin_state(config).learner
        assert finite(found.part(".learner", saved))
        lines = runs.read_metrics(path)
        assert sum(line["skipped_update"] for line in lines) * log_every >= (6 if forever else 1)
        if not forever:
            assert lines[-1]["skipped_update"] == 0


def anakin_state(config):
    made = training.parts(config)
    return training.runtime_of(config, made, print).init(jax.random.key(0))
