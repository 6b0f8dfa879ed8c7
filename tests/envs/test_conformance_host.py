"""The battery for host environments passes what keeps to the contract and names each breach."""

import dataclasses

import numpy as np
import pytest

from emphatic import envs
from emphatic.envs import bridge, conformance, conformance_host, host
from emphatic.envs.conformance import NonconformingError


class Counter:
    """Frames count steps, episodes are of 4 steps, ended by both kinds in turn."""

    def __init__(self, seeds):
        self.ledger = host.Ledger(len(seeds))
        self.count = np.zeros(len(seeds), np.int64)
        self.episode = np.zeros(len(seeds), np.int64)
        self.seeds = np.asarray(seeds, np.int64)

    def frame(self):
        return np.stack([self.seeds % 1000, self.episode, self.count], -1).astype(np.float32)

    def reset(self):
        return self.frame()

    def step(self, action):
        over = self.count == 4
        self.episode = self.episode + over
        self.count = np.where(over, 0, self.count + 1)
        done, even = self.count == 4, self.episode % 2 == 0
        return self.ledger.step(self.frame(), action + 1, done & even, done & ~even)

    def save(self):
        state = np.stack([self.count, self.episode, self.seeds], -1)
        return np.concatenate([self.ledger.save(), host.as_bytes(state)], axis=1)

    def load(self, saved):
        size = host.Ledger.state_bytes
        self.ledger.load(saved[:, :size])
        state = host.from_bytes(saved[:, size:], np.dtype(np.int64)).reshape(-1, 3)
        self.count, self.episode, self.seeds = state.T

    def close(self):
        pass


def environment(kind=Counter, **changes):
    facts = {"name": "counter", "num_actions": 3, "frame_shape": (3,)}
    facts |= {"frame_dtype": np.dtype(np.float32), "state_bytes": host.Ledger.state_bytes + 24}
    return host.HostEnvironment(**{**facts, "start": kind, **changes})


def test_what_keeps_to_the_contract_passes():
    stream = conformance_host.check(environment(), steps=20).stream
    truncated = stream.ended & (stream.discount == 1)
    assert truncated.any()
    assert (stream.ended & ~truncated).any()


class OneBuffer(Counter):
    """Hands out the same memory again and again."""

    def frame(self):
        if not hasattr(self, "memory"):
            self.memory = super().frame()
        self.memory[:] = super().frame()
        return self.memory


class Neighbourly(Counter):
    """A stream that depends on where in the batch it is."""

    def frame(self):
        return super().frame() + np.arange(len(self.seeds), dtype=np.float32)[:, None]


class Deaf(Counter):
    """The same, whatever the seed."""

    def frame(self):
        return super().frame() * np.float32([0, 1, 1])


class Forgetful(Counter):
    """Its state lacks the episodes so far."""

    def load(self, saved):
        super().load(saved)
        self.episode = self.episode * 0


class Saver(Counter):
    """Is not the same after it was saved."""

    def save(self):
        saved = super().save()
        self.count = self.count * 0
        return saved


class Listener(Counter):
    """Hears the action of a pseudo-step."""

    def step(self, action):
        heard = np.where(self.count == 4, action, 0)
        step = super().step(action)
        return step._replace(frame=step.frame + heard[:, None].astype(np.float32))


def altered(**fields):
    """A counter some of whose fields are made otherwise: `field=function(step)`."""

    class Altered(Counter):
        def step(self, action):
            step = super().step(action)
            return step._replace(**{name: make(step) for name, make in fields.items()})

    return Altered


BREACHES = {
    "one buffer": (OneBuffer, "never written to again"),
    "neighbours": (Neighbourly, "its seed alone"),
    "deaf": (Deaf, "different keys differ|members of a batch"),
    "forgetful": (Forgetful, "loaded state goes on"),
    "changed by saving": (Saver, "saving changes nothing"),
    "hears pseudo-steps": (Listener, "same stream"),
    "float64": (altered(reward=lambda s: s.reward.astype(np.float64)), "types"),
    "first of numbers": (altered(first=lambda s: s.first.astype(int)), "types"),
    "half a discount": (altered(discount=lambda s: s.discount / 2), "0 or 1"),
    "a life lost": (
        altered(discount=lambda s: s.discount * (s.frame[:, 2] != 2)),
        "on a real step ends",
    ),
    "weighed pseudo-step": (altered(weight=lambda s: s.weight * 0 + 1), "on a real step ends"),
    "discounted pseudo-step": (altered(discount=lambda s: s.discount * 0 + 1), "has discount 0"),
    "rewarded pseudo-step": (altered(reward=lambda s: s.reward + 1), "reward 0|return and length"),
    "never first": (altered(first=lambda s: s.first & False), "shows the first"),
    "always first": (altered(first=lambda s: s.first | True), "only a termination"),
    "clipped returns": (
        altered(episode_return=lambda s: s.episode_return.clip(0, 1)),
        "return and length",
    ),
    "wrong length": (altered(episode_length=lambda s: s.episode_length * 2), "return and length"),
    "no ends": (altered(ended=lambda s: s.ended & False), "ends the episode|follows an end"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_found(breach):
    kind, rule = BREACHES[breach]
    with pytest.raises(NonconformingError, match=rule):
        conformance_host.check(environment(kind), steps=22)


def test_a_wrong_description_is_found():
    with pytest.raises(NonconformingError, match="state_bytes"):
        conformance_host.check(environment(state_bytes=3), steps=20)
    with pytest.raises(NonconformingError, match=r"T \+ 1 observations"):
        conformance_host.check(environment(frame_shape=(4,)), steps=20)
    with pytest.raises(NonconformingError, match="an episode ends"):
        conformance_host.check(environment(), steps=1)


def test_a_lost_life_is_allowed_where_the_settings_say_so():
    kind, _ = BREACHES["a life lost"]
    conformance_host.check(environment(kind, settings={"life_loss": True}), steps=20)


def test_a_termination_may_show_the_next_episode_but_a_truncation_may_not():
    game = bridge.from_jax(envs.make("catch", time_limit=5))
    recorded = conformance_host.check(game, steps=20)
    stream, first = recorded
    assert (stream.ended & (stream.discount == 1)).any()
    early = first | stream.ended
    with pytest.raises(NonconformingError, match="only a termination"):
        conformance_host.check_stream(recorded._replace(first=early), game)


def test_the_probe_of_jax_is_in_its_place_on_the_host():
    recorded = conformance_host.check(bridge.from_jax(conformance.probe()), steps=40)
    conformance.check_probe(recorded.stream)
    assert dataclasses.is_dataclass(bridge.from_jax(conformance.probe()))
