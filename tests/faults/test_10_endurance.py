"""Promise 10: the last update costs what the first one did, in time, memory, files and disk."""

import gc
import os
from pathlib import Path

import jax
import pytest
from small import config_of, trained

from emphatic.agent.networks import NetworkConfig
from emphatic.agent.surreal import AgentConfig
from emphatic.runtime import runs
from emphatic.runtime.actors import ActorsConfig
from emphatic.runtime.settings import TrainConfig

LENGTHS = {
    "Catch, 1,000,000 updates": 1_000_000,
    "Catch, 5,000 updates": 5_000,
    "ALE, 20,000 updates": 20_000,
    "ALE, 200 updates": 200,
}
FULL = 20_000
"""Updates from which throughput is held to the full promise: fewer are over in an instant."""


class Watch:
    """Memory, descriptors and compilations, looked at now and then."""

    def __init__(self):
        self.looks, self.compiled = [], 0

    def __call__(self, line, seconds):
        gc.collect()
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        self.looks.append((resident, len([*Path("/proc/self/fd").iterdir()]), self.compiled))

    def listen(self, event, duration, **_):
        self.compiled += "backend_compile" in event


def catch_of(updates):
    every = updates // 20
    fields = {"log_every": every // 5, "checkpoint_every": every, "record_episodes": False}
    return config_of(updates=updates, streams=1, unroll=3, **fields)


def ale_of(updates):
    learner = AgentConfig(
        n=2, unroll_length=2, num_streams=1, network=NetworkConfig(name="mlp", head_hidden=4)
    )
    every = updates // 20
    return TrainConfig(
        env="atari/pong",
        env_settings={"emulator": "single", "stack": 1},
        learner=learner,
        steps=2 * updates,
        actors=ActorsConfig(threads=1),
        log_every=every // 2,
        checkpoint_every=every,
        record_episodes=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", LENGTHS)
def test_a_long_run_stays_what_it_was(part, tally, tmp_path):
    for _ in tally.cases(10, part):
        updates, watch, path = LENGTHS[part], Watch(), tmp_path / "run"
        config = (catch_of if part.startswith("Catch") else ale_of)(updates)
        jax.monitoring.register_event_duration_secs_listener(watch.listen)
        try:
            # One thread of actors: descriptors and memory are then those of the loop.
            assert trained(path, config, progress=watch).finished
        finally:
            jax.monitoring.unregister_event_duration_listener(watch.listen)
        assert_flat(watch.looks)
        assert_bounded(path, config)
        ratio = throughput(path)
        print(f"{part}: the last tenth ran at {ratio:.3f} of the speed of the first")
        assert ratio >= (0.97 if updates >= FULL else 0.6)


def assert_flat(looks):
    """After a fifth of the run everything that is made once has been made."""
    early, late = looks[len(looks) // 5], looks[-1]
    assert late[0] <= 1.03 * early[0] + 2**21, "resident memory grew"
    assert late[1] <= early[1], "descriptors grew"
    assert late[2] == early[2], "something was compiled anew"


def assert_bounded(path, config):
    found = sorted((path / "checkpoints").iterdir())
    assert len(found) == config.keep
    sizes = {sum(f.stat().st_size for f in one.iterdir()) // 4096 for one in found}
    assert len(sizes) == 1
    lines = config.num_updates // config.log_every
    assert (path / "metrics.jsonl").stat().st_size < 1500 * lines


def throughput(path):
    """Updates for CPU second in the last tenth, over those in the first after warming up."""
    timing = runs.read_lines(path / "timing.jsonl")
    tenth = max(2, len(timing) // 10)

    def speed(lines):
        updates = lines[-1]["update"] - lines[0]["update"]
        return updates / (lines[-1]["cpu_seconds"] - lines[0]["cpu_seconds"])

    return speed(timing[-tenth - 1 :]) / speed(timing[1 : tenth + 2])
