"""Promise 1: killed at any moment and gone on with, a run is the one that nobody killed."""

import random
import time

import pytest
from processes import deterministic, finished, process

CATCH = ["--env", "catch", "--agent", "netd-ace", "--steps", "12800", "--seed", "3"]
CATCH += ["--log-every", "2", "--checkpoint-every", "4", "--settings", "time_limit=7"]
PONG = ["--env", "atari/pong", "--agent", "netd-ace", "--seed", "3", "--steps", "480"]
PONG += ["--settings", "emulator=single", "stack=1", "--network.name", "mlp"]
PONG += ["--network.head-hidden", "4", "--num-streams", "2", "--n", "3", "--unroll-length", "6"]
PONG += ["--log-every", "2", "--checkpoint-every", "4"]
RUNS = {"Anakin": CATCH, "ALE": PONG}
LINES = 20
"""Of metrics, in either run."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    """The run that nobody killed, by name; made when it is asked for."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("whole") / name
            code, output = finished(cache, "train", *RUNS[name], "--out", made[name])
            assert code == 0, output
        return made[name]

    return of


def killed(cache, rng, path, arguments, lines):
    """Start, wait for so many lines of metrics and a moment more, kill; whether it was in time."""
    running = process(cache, *arguments)
    file, patience = path / "metrics.jsonl", time.monotonic() + 300
    while running.poll() is None and time.monotonic() < patience:
        if (file.read_bytes().count(b"\n") if file.exists() else 0) >= lines:
            break
        time.sleep(0.005)
    time.sleep(rng.random() * (3.0 if lines == 0 else 0.3))
    in_time = running.poll() is None
    running.kill()
    running.communicate()
    return in_time


def onwards(path, name):
    """How to go on: one that was killed before it had a configuration starts anew."""
    if (path / "config.json").exists():
        return ["train", "--resume", path]
    return ["train", *RUNS[name], "--out", path]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", RUNS)
def test_killed_at_random_and_resumed_is_bit_identical(name, tally, cache, whole, tmp_path):
    """Parameters, optimiser, traces, PRNG, environments, episodes and metrics."""
    for case in tally.cases(1, name):
        rng, path = random.Random(case), tmp_path / f"{name}{case}"
        lines = rng.randrange(LINES)
        while not killed(cache, rng, path, onwards(path, name), lines):
            # It was done before it could be killed: that one does not count.
            path = path.with_name(f"{path.name}x")
            lines //= 2
        if case % 2:
            killed(cache, rng, path, onwards(path, name), lines + 1)
        code, output = finished(cache, *onwards(path, name))
        assert code == 0, output
        assert deterministic(path) == deterministic(whole(name))
