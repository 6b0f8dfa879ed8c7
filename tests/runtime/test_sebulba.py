"""Sebulba: what a slow loop computes, whatever the timing, the faults and the devices."""

import dataclasses
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import host_environments
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from host_environments import Trouble, countdown

from emphatic.agent import learner as learners
from emphatic.agent.networks import NetworkConfig
from emphatic.agent.optimiser import OptimiserConfig
from emphatic.agent.surreal import AgentConfig, Transitions
from emphatic.envs import bridge, catch, host
from emphatic.errors import UserError
from emphatic.runtime import actors, anakin, checkpoints, distributed, runs, training
from emphatic.runtime.actors import ActorsConfig
from emphatic.runtime.crew import ActorFailed, Standing
from emphatic.runtime.sebulba import Sebulba
from emphatic.runtime.settings import TrainConfig

STREAMS, STEPS, SEED = 4, 5, 3
CONFIG = AgentConfig(
    agent="netd-ace",
    n=3,
    unroll_length=STEPS,
    num_streams=STREAMS,
    discounts=(0.99, 0.95, 0.9),
    network=NetworkConfig(name="mlp", head_hidden=4),
    optimiser=OptimiserConfig(learning_rate=1e-2, epsilon=1e-4),
)
ON_CATCH = bridge.from_jax(catch.make(time_limit=6))


@functools.cache
def learner_of(shape, actions, dtype):
    return learners.build(
        CONFIG,
        num_actions=actions,
        observation_shape=shape,
        observation_dtype=np.dtype(dtype),
        num_updates=40,
    )


def learner_for(environment):
    return learner_of(
        environment.observation_shape, environment.num_actions, environment.frame_dtype.name
    )


class Session:
    """A runtime under test, closed at the end, and what it said."""

    def __init__(self, environment, *, learner=None, devices=1, acting=0, **config):
        self.said = []
        local = jax.local_devices()
        self.runtime = Sebulba(
            learner or learner_for(environment),
            environment,
            # A machine with much else to do is no fault of an environment's.
            ActorsConfig(**{"timeout": 300.0} | config),
            seed=SEED,
            devices=local[:devices],
            acting_devices=local[devices : devices + acting],
            say=self.said.append,
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.runtime.close()

    def start(self):
        return self.runtime.init(jax.random.key(SEED))

    def ran(self, *calls):
        """State and reports after calls of so many updates."""
        state, reports = self.start(), []
        for updates in calls:
            state, report = self.runtime.run(state, updates)
            reports.append(report)
        return state, reports


def ran(environment, *calls, **options):
    with Session(environment, **options) as session:
        return session.ran(*calls)


def assert_same(one, other, rtol=0.0):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)


def by_a_slow_loop(environment, updates, lag):
    """No threads, no channel: step, look, decide; parameters `lag` updates old."""
    learner = learner_for(environment)
    batch = environment.start(_seeds(STREAMS))
    history = [learner.init(jax.random.key(SEED))]
    observation = host.push(
        host.empty(environment, STREAMS), jnp.asarray(batch.reset()), jnp.ones(STREAMS, bool)
    )
    act, update = jax.jit(learner.policy), jax.jit(learner.update)
    key = jax.random.fold_in(jax.random.key(SEED), 1)
    for k in range(updates):
        params = history[max(0, k - lag)].params
        seen, made = [observation], []
        for t in range(STEPS):
            logits = act(params, observation)
            now = jax.random.fold_in(key, k * STEPS + t)
            action = np.array(
                [jax.random.categorical(jax.random.fold_in(now, b), logits[b]) for b in range(4)]
            ).astype(np.int32)
            step = batch.step(action)
            observation = host.push(observation, jnp.asarray(step.frame), jnp.asarray(step.first))
            seen.append(observation)
            made.append(Transitions(action, step.reward, step.discount, step.weight, logits))
        transitions = jax.tree.map(lambda *x: jnp.stack(x), *made)
        trajectory = learners.Trajectory(jnp.stack(seen), transitions)
        history.append(update(history[-1], trajectory)[0])
    return history[-1]


def _seeds(streams):
    made = [np.random.SeedSequence([SEED, 0, b]).generate_state(1)[0] for b in range(streams)]
    return np.array(made, np.uint32)


@pytest.mark.parametrize("lag", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_it_is_what_a_slow_loop_computes(lag):
    environment = countdown(Trouble())
    state, _ = ran(environment, 3, 4, lag=lag, threads=1)
    assert_same(state.learner, by_a_slow_loop(countdown(Trouble()), 7, lag), rtol=1e-5)


def test_lags_differ():
    states = [ran(countdown(Trouble()), 7, lag=lag, threads=1)[0] for lag in (0, 1)]
    with pytest.raises(AssertionError):
        assert_same(*(state.learner.params for state in states), rtol=1e-5)


def test_the_same_seed_gives_the_same_bits_whatever_the_timing():
    rng = np.random.default_rng(0)
    shaken = Trouble()
    shaken.delay = lambda: 0.01 * rng.random()
    calm, shaky = ran(countdown(Trouble()), 2, 4), ran(countdown(shaken), 2, 4)
    assert_same(calm[0], shaky[0])
    for one, other in zip(calm[1], shaky[1], strict=True):
        assert_same(one._replace(metrics=dict(one.metrics)), other)


def compare(**options):
    """One thread on one device, and something else."""
    plain, other = ran(ON_CATCH, 8, threads=1), ran(ON_CATCH, 8, **{"threads": 2} | options)
    assert_same(plain[0], other[0], rtol=1e-4)
    np.testing.assert_array_equal(plain[1][0].ended, other[1][0].ended)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"threads": 4}, {"devices": 2}, {"acting": 1}], ids=str)
def test_threads_and_devices_change_nothing_but_rounding(options):
    compare(**options)


@pytest.mark.slow
def test_nor_do_four_devices():
    """In a process of its own: there are two here."""
    flags = "--xla_force_host_platform_device_count=4"
    subprocess.run(
        [sys.executable, "-c", "import test_sebulba; test_sebulba.compare(devices=4)"],
        cwd=Path(__file__).parent,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        check=True,
        timeout=500,
    )


def decided(learner):
    """The learner with a policy that leaves nothing to chance: the same actions for any key."""

    def policy(params, observation):
        flat = observation.reshape(len(observation), -1).astype(jnp.float32)
        choice = (flat @ jnp.arange(flat.shape[1]) % 3).astype(jnp.int32)
        return 1e3 * jax.nn.one_hot(choice, 3)

    def act(params, observation, key):
        logits = policy(params, observation)
        return logits.argmax(-1).astype(jnp.int32), logits

    return learner._replace(policy=policy, act=act)


@pytest.mark.slow
def test_anakin_and_sebulba_give_the_same_parameters_for_the_same_trajectories():
    game = catch.make(time_limit=6)
    learner = decided(learner_for(ON_CATCH))
    with Session(ON_CATCH, learner=learner, threads=1) as session:
        sebulba, (told,) = session.ran(10)
    other = anakin.build(learner, game)
    state = other.init(jax.random.key(SEED))
    environments = jax.vmap(game.init)(jax.vmap(jax.random.key)(_seeds(STREAMS)))
    fresh = jax.tree.map(jnp.copy, learner.init(jax.random.key(SEED)))
    state = state._replace(learner=fresh, environment=environments[0], observation=environments[1])
    state, report = other.run(state, 10)
    np.testing.assert_array_equal(told.episode_return, report.episode_return)
    assert told.ended.sum() > 10
    assert_same(sebulba.learner, state.learner, rtol=1e-5)


@pytest.mark.parametrize("what", ["raise", "jax", "nan", "bad frame", "shape"])
def test_a_failing_actor_starts_anew_and_says_so(what):
    trouble = Trouble(step12=what)
    with Session(countdown(trouble), threads=1) as session:
        state, (report,) = session.ran(6)
        assert int(state.learner.updates) == 6
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.learner.params))
        assert report.metrics["actor_restarts"] == 1
        assert trouble.started == 2
        (said,) = session.said
        assert "actor 0 on countdown" in said
        assert "fresh episodes" in said


def test_what_starts_anew_begins_with_a_pseudo_step_from_where_it_stood():
    learned = []
    trouble = Trouble(step12="raise")
    environment = countdown(trouble)
    with Session(environment, threads=1) as session:
        crew = session.runtime._crew
        crew.publish(0, session.start().learner.params)
        for k in range(4):
            (delivery,) = crew.next()
            crew.publish(k + 1, session.start().learner.params)
            learned.append(delivery)
    before, after = learned[1].unroll, learned[2].unroll
    np.testing.assert_array_equal(actors.observations(before).observation[-1], after.before[0])
    transitions = after.transitions
    for field in ("reward", "discount", "weight"):
        np.testing.assert_array_equal(getattr(transitions, field)[0], 0)
    assert np.asarray(after.first)[0].all()
    # The fresh episodes are those of another seed.
    assert (np.asarray(after.frame)[0, :, 0] != np.asarray(before.frame)[0, :, 0]).any()
    assert np.asarray(transitions.weight)[1:].any()


def test_a_hanging_actor_is_left_behind():
    trouble = Trouble(step12="hang")
    start = time.monotonic()
    try:
        with Session(countdown(trouble), threads=1, timeout=0.5) as session:
            state, _ = session.ran(6)
            assert int(state.learner.updates) == 6
            assert "a step of its environments took over 0.5 s" in session.said[0]
    finally:
        trouble.release.set()
    assert time.monotonic() - start < 30


def test_an_actor_that_keeps_failing_ends_the_run():
    trouble = Trouble(**{f"step{i}": "raise" for i in range(12, 40)})
    with Session(countdown(trouble), threads=1, restarts=2) as session:
        with pytest.raises(ActorFailed, match=r"more than actors\.restarts allows: ValueError"):
            session.ran(6)
        assert len(session.said) == 2


def test_an_environment_that_never_starts_ends_the_run():
    def broken(seeds):
        raise OSError("no ROM")

    environment = dataclasses.replace(countdown(Trouble()), start=broken)
    with (
        Session(environment, threads=2, restarts=1) as session,
        pytest.raises(ActorFailed, match="no ROM"),
    ):
        session.ran(1)


@pytest.mark.parametrize("where", ["start", "reset"])
def test_an_environment_that_hangs_before_its_first_frame_is_left_behind(where):
    plain, release, hung = countdown(Trouble()), threading.Event(), []

    def start(seeds):
        batch = plain.start(seeds)
        reset = batch.reset
        if not hung:
            hung.append(where)
            batch.reset = lambda: (release.wait(30.0), reset())[1]
            return batch if where == "reset" else (release.wait(30.0), batch)[1]
        return batch

    environment = dataclasses.replace(plain, start=start)
    with Session(environment, threads=1, timeout=0.3) as session:
        state, _ = session.ran(2)
        release.set()
        assert int(state.learner.updates) == 2
        assert "starting its environments took over 0.3 s" in session.said[0]


def hangs(release):
    release.wait(30.0)


def breaks(release):
    raise ValueError("no room for it")


def leaves(release):
    sys.exit("gone")


def shrinks(release):
    return np.zeros((STREAMS, 3), np.uint8)


@pytest.mark.parametrize(
    ("save", "said"),
    [
        (hangs, r"TimeoutError: took over 0\.3 s"),
        (breaks, "ValueError: no room for it"),
        (leaves, "SystemExit: gone"),
        (shrinks, r"BadEnvironment: it is uint8\(4, 3\), not uint8\(4, 5\)"),
    ],
)
def test_a_state_that_cannot_be_saved_ends_the_run_in_a_sentence(save, said):
    plain, release = countdown(Trouble()), threading.Event()

    def start(seeds):
        batch = plain.start(seeds)
        batch.save = lambda: save(release)
        return batch

    environment = dataclasses.replace(plain, start=start, state_bytes=5)
    with Session(environment, threads=1, timeout=0.3) as session:
        state, _ = session.ran(1)
        with pytest.raises(ActorFailed, match=f"actor 0 on countdown: .* cannot be saved, {said}"):
            session.runtime.snapshot(state)
        release.set()


def acting_as(session, act):
    """The session's actors act so, as if their device did."""
    crew = session.runtime._crew
    crew._acting = crew._acting._replace(act=act)


def test_a_device_that_hangs_is_not_waited_for_for_ever(monkeypatch):
    environment, release = countdown(Trouble()), threading.Event()
    monkeypatch.setattr(actors, "_DEVICE", 1)
    with Session(environment, threads=1, timeout=1.0, restarts=0) as session:
        acting_as(session, lambda *_: release.wait(30.0))
        with pytest.raises(ActorFailed, match="its device took over 1 s"):
            session.ran(1)
        release.set()


def test_a_device_that_is_gone_is_no_fault_of_the_environment():
    def act(*_):
        raise jax.errors.JaxRuntimeError("INTERNAL: the device is lost")

    with Session(countdown(Trouble()), threads=1) as session:
        acting_as(session, act)
        with pytest.raises(jax.errors.JaxRuntimeError, match="the device is lost"):
            session.ran(1)
        assert session.said == []


def test_a_signal_is_looked_at_between_updates():
    with Session(countdown(Trouble()), threads=1) as session:
        answers = iter([False, False, True])
        session.runtime.stop = lambda: next(answers)
        state, (report,) = session.ran(20)
    assert int(state.learner.updates) == len(report.fault) == len(report.ended) == 3
    assert_same(state.learner, ran(countdown(Trouble()), 3, threads=1)[0].learner)


def signalling(environment, at):
    """The environment; at that step of any batch the process is asked to stop."""
    steps = iter(range(10**6))

    def start(seeds):
        batch = environment.start(seeds)
        step = batch.step

        def signalled(action):
            if next(steps) == at:
                os.kill(os.getpid(), signal.SIGTERM)
            return step(action)

        batch.step = signalled
        return batch

    return dataclasses.replace(environment, start=start)


@pytest.mark.slow
def test_a_run_that_was_asked_to_stop_in_the_middle_of_a_call_goes_on(tmp_path, monkeypatch):
    """One line of metrics is cut in two; what is learned is the same to the bit."""
    # Long after this process would have been ended for its slowness.
    monkeypatch.setenv("EMPHATIC_PATIENCE", "600")
    config = TrainConfig(
        env="catch", learner=CONFIG, steps=35 * STREAMS * STEPS, log_every=30, checkpoint_every=30
    )
    made = {"environment": ON_CATCH}
    learner = learner_for(ON_CATCH)
    monkeypatch.setattr(training, "parts", lambda _: training.Parts(**made, learner=learner))
    options = {"progress": lambda line, seconds: None, "say": print}

    def trained(path):
        return training.train(path, config, command=[], created="", **options)

    assert trained(tmp_path / "whole").finished
    path = tmp_path / "cut"
    made["environment"] = signalling(ON_CATCH, at=30)
    outcome = trained(path)
    assert not outcome.finished
    assert 0 < outcome.updates < 30
    assert training.resume(path, **options).finished
    lines, whole = runs.read_metrics(path), runs.read_metrics(tmp_path / "whole")
    assert [line["update"] for line in lines] == [outcome.updates, 30, 35]
    assert lines[-1] == whole[-1]
    last = [checkpoints.latest(p / "checkpoints").path for p in (path, tmp_path / "whole")]
    assert len({(p / "arrays.bin").read_bytes() for p in last}) == 1


def test_who_sits_elsewhere_begins_episodes_that_nobody_has_played():
    """A stream whose actor was replaced once now sits beside one whose actor was not."""
    with Session(countdown(Trouble()), threads=1, lag=0) as session:
        crew = session.runtime._crew
        generation = np.array([0, 0, 1, 1], np.int32)
        observation = np.zeros((STREAMS, 6), np.float32)
        crew.seat(3, [], Standing(observation, np.zeros((STREAMS, 0), np.uint8), generation))
        assert crew._seats[0].generation == 2


def saved(session, state, folder, updates):
    snapshot = session.runtime.snapshot(state)
    checkpoints.save(folder, step=updates, tree=snapshot)
    return checkpoints.latest(folder)


@pytest.mark.parametrize("lag", [0, 1])
def test_a_run_goes_on_to_the_bit_where_states_can_be_had(lag, tmp_path):
    whole, reports = ran(ON_CATCH, 4, 5, lag=lag)
    with Session(ON_CATCH, lag=lag) as first:
        state, _ = first.ran(4)
        checkpoint = saved(first, state, tmp_path, 4)
        onwards, _ = first.runtime.run(state, 5)
    assert_same(whole, onwards)
    with Session(ON_CATCH, lag=lag) as second:
        state = second.runtime.restore(checkpoint, jax.random.key(9))
        state, report = second.runtime.run(state, 5)
        assert second.said == []
    assert_same(whole, state)
    assert_same(reports[1], report)


def test_a_run_goes_on_with_fresh_episodes_where_they_cannot(tmp_path):
    environment = countdown(Trouble())
    with Session(environment) as first:
        state, _ = first.ran(4)
        checkpoint = saved(first, state, tmp_path, 4)
    learned = []
    with Session(environment, threads=4) as second:
        crew = second.runtime._crew
        received = crew.next
        crew.next = lambda: learned.append(received()) or learned[-1]
        state = second.runtime.restore(checkpoint, jax.random.key(9))
        assert int(state.learner.updates) == 4
        assert "fresh episodes and fresh traces" in second.said[0]
        state, report = second.runtime.run(state, 3)
        assert int(state.learner.updates) == 7
        # The trajectory that waited is the old episodes'; then a pseudo-step and 7 steps.
        weight = np.concatenate([d.unroll.transitions.weight for d in learned[1]], axis=1)
        np.testing.assert_array_equal(weight, np.repeat([[0], [1], [1], [1], [1]], 4, axis=1))
        assert not report.ended[1].any()
        np.testing.assert_array_equal(report.ended[2].nonzero()[0], [2, 2, 2, 2])


def test_nothing_is_compiled_anew(caplog):
    with Session(ON_CATCH) as session:
        state, _ = session.ran(3)
        with jax.log_compiles():
            session.runtime.run(state, 5)
    assert [r.message for r in caplog.records if "Compiling" in r.message] == []


def test_what_does_not_divide_is_named():
    with pytest.raises(UserError, match=r"actors\.threads: must divide the 4 streams"):
        Session(ON_CATCH, threads=3)
    with pytest.raises(UserError, match=r"actors\.lag: must be at least 0"):
        Session(ON_CATCH, lag=-1)
    with pytest.raises(UserError, match=r"actors\.threads: must divide the 2 devices"):
        Session(ON_CATCH, devices=2, threads=3)
    with pytest.raises(UserError, match=r"actors\.devices: must be at most 1, as 1 of the 2"):
        distributed.devices(1, 2)
    with pytest.raises(UserError, match=r"^devices: are 2 here, not 3"):
        distributed.devices(3)


def test_frames_are_stacked_as_they_were_when_acting():
    with Session(countdown(Trouble()), threads=1) as session:
        crew = session.runtime._crew
        crew.publish(0, session.start().learner.params)
        (delivery,) = crew.next()
    stacked = np.asarray(actors.observations(delivery.unroll).observation)
    assert stacked.shape == (STEPS + 1, STREAMS, 6)
    np.testing.assert_array_equal(stacked[-1], delivery.after)
    # At the start of an episode there is no older frame.
    assert (stacked[0, :, :3] == 0).all()
    np.testing.assert_array_equal(stacked[1, :, :3], stacked[0, :, 3:])
    assert host_environments.LENGTH > STEPS


@pytest.mark.parametrize("stack", [1, 2, 4])
def test_an_unroll_is_stacked_as_frame_by_frame(stack):
    """Also where episodes begin within it, one after another."""
    rng = np.random.default_rng(stack)
    frame = jnp.asarray(rng.integers(1, 255, (9, 5, 3, 2, 2)), jnp.uint8)
    first = jnp.asarray(rng.random((9, 5)) < 0.3).at[4:6, 0].set(True)
    before = jnp.asarray(rng.integers(1, 255, (1, 5, 3, 2, 2 * stack)), jnp.uint8)
    nothing = Transitions(*[jnp.zeros((9, 5))] * len(Transitions._fields))
    wanted = [before[0]]
    for arrived in zip(frame, first, strict=True):
        wanted.append(host.push(wanted[-1], *arrived))
    unroll = actors.Unroll(before, frame, first, nothing)
    np.testing.assert_array_equal(actors.observations(unroll).observation, np.stack(wanted))
