"""What every environment must keep to, checked on what it does.

`check(environment)` is the whole battery for an environment in JAX; `conformance_host` has
that for one on the host. Parts of it work on a `Stream`, arrays `[T, B]` recorded from a
batch, and so serve both: `check_same` on a replay, `check_probe` on what is made of a game
whose every observation tells where it belongs.

What is broken is a `NonconformingError`, which says the rule and the place.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.envs import base

PROBE_LIMIT = 7
"""The probe truncates an episode after this many steps."""
PROBE_END = 2
"""The probe's action that terminates."""


class NonconformingError(AssertionError):
    """An environment that breaks the contract of `envs.base`."""


class Stream(NamedTuple):
    """What a batch of environments did, NumPy: `[T, B]`, observations `[T+1, B, ...]`."""

    action: np.ndarray
    observation: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    weight: np.ndarray
    ended: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray


class Recorder:
    """Plays a batch of an environment in JAX; compiled once per number of steps."""

    def __init__(self, environment: base.Environment):
        self._init = jax.jit(jax.vmap(environment.init))
        step = jax.vmap(environment.step)
        self._unroll = jax.jit(lambda state, actions: jax.lax.scan(step, state, actions))

    def start(self, seed: int, batch: int) -> tuple[Any, jax.Array]:
        """State and first observation of `batch` environments."""
        return self._init(jax.random.split(jax.random.key(seed), batch))

    def play(self, start: tuple[Any, jax.Array], action: np.ndarray) -> tuple[Any, Stream]:
        """`action[T, B]` from (state, observation): the same after it, and the stream."""
        state, first = start
        state, steps = self._unroll(state, jnp.asarray(action, jnp.int32))
        observation = np.concatenate([np.asarray(first)[None], np.asarray(steps.observation)])
        rest = (np.asarray(getattr(steps, field)) for field in Stream._fields[2:])
        return (state, steps.observation[-1]), Stream(np.asarray(action), observation, *rest)


def check(
    environment: base.Environment,
    *,
    steps: int = 200,
    batch: int = 4,
    seed: int = 0,
    policy: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] | None = None,
) -> Stream:
    """Everything an environment in JAX must do; the stream of the test, for more checks.

    Plays `2 steps` with uniform actions, or with those of `policy(rng, shape)`. At least
    one episode has to end in that time, or nothing would be known of its end.
    """
    rng = np.random.default_rng(seed)
    shape = (2 * steps, batch)
    action = policy(rng, shape) if policy else rng.integers(environment.num_actions, size=shape)
    recorder = Recorder(environment)
    start = recorder.start(seed, batch)
    _check_state(start[0])
    middle, head = recorder.play(start, action[:steps])
    _, tail = recorder.play(middle, action[steps:])
    stream = joined(head, tail)
    check_stream(stream, environment)
    require(bool(stream.ended.any()), "an episode ends", f"none in {2 * steps} steps: play more")

    # Again: from the same key, through a copy of the state, other actions on pseudo-steps.
    other = np.where(stream.weight == 0, (action + 1) % environment.num_actions, action)
    middle, again = recorder.play(recorder.start(seed, batch), other[:steps])
    _, rest = recorder.play(_copied(middle), other[steps:])
    check_same(stream, joined(again, rest))

    _, different = recorder.play(recorder.start(seed + 1, batch), action[:steps])
    check_different(head, different)
    return stream


def joined(head: Stream, tail: Stream) -> Stream:
    """One stream out of two that follow each other."""
    require(
        bool(np.array_equal(head.observation[-1], tail.observation[0])),
        "a stream goes on where it stopped",
        "the last observation of one is not the first of the next",
    )
    whole = {
        field: np.concatenate([getattr(head, field), getattr(tail, field)])
        for field in Stream._fields
        if field != "observation"
    }
    observation = np.concatenate([head.observation, tail.observation[1:]])
    return Stream(observation=observation, **whole)


def check_stream(stream: Stream, environment: Any) -> None:
    """The rules that need nothing but the stream, and of the environment its numbers.

    Shapes and types; discount and weight; where pseudo-steps stand; and the episodes'
    returns and lengths, recomputed from the raw rewards.
    """
    check_arrays(stream, environment)
    _check_ends(stream)
    check_episodes(stream)


def check_same(stream: Stream, replay: Stream) -> None:
    """The same key and actions give the same stream, to the bit."""
    for field in Stream._fields[1:]:
        ours, theirs = getattr(stream, field), getattr(replay, field)
        same = ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
        require(same, "the same key and actions give the same stream", f"{field} differs")


def check_different(stream: Stream, other: Stream) -> None:
    """Other keys, and the members of a batch, give other streams."""

    def differ(one: Stream, two: Stream, b: int, c: int) -> bool:
        return any(
            not np.array_equal(getattr(one, field)[:, b], getattr(two, field)[:, c])
            for field in Stream._fields[1:]
        )

    batch = stream.reward.shape[1]
    keys = any(differ(stream, other, b, b) for b in range(batch))
    require(keys, "different keys differ", "two keys gave the same batch of streams")
    members = batch == 1 or any(differ(stream, stream, 0, b) for b in range(1, batch))
    require(members, "members of a batch differ", "all of them did the same")


def probe() -> base.Environment:
    """A game whose observation is (episode's tag, steps so far, last action + 1), float32.

    It pays steps + 10 x action, terminates on action `PROBE_END`, is truncated after
    `PROBE_LIMIT` steps, and draws its tag from the key of each episode. For an adapter,
    write the same game on the other side and put its stream through `check_probe`.
    """

    def reset(key):
        tag = jax.random.randint(key, (), 0, 2**20).astype(jnp.float32)
        return jnp.stack([tag, jnp.zeros(()), jnp.zeros(())])

    def step(state, action, key):
        del key
        action = action.astype(jnp.float32)
        state = jnp.stack([state[0], state[1] + 1.0, action + 1.0])
        reward = state[1] + 10.0 * action
        return state, base.Outcome(reward, action == PROBE_END, jnp.zeros((), bool))

    return base.environment(
        base.Game(reset, step, lambda state: state),
        name="probe",
        num_actions=3,
        time_limit=PROBE_LIMIT,
    )


def check_probe(stream: Stream) -> None:
    """Reward, discount, weight and observation of the probe stand where they belong.

    The slow definition: each step is derived from the observation before it alone.
    """
    for t, b in np.ndindex(stream.reward.shape):
        action = int(stream.action[t, b])
        tag, count, _ = stream.observation[t, b].tolist()
        after = stream.observation[t + 1, b].tolist()
        given = (stream.reward[t, b], stream.discount[t, b], stream.weight[t, b])
        place = f"at step {t}, environment {b}"
        if count == PROBE_LIMIT:  # The final observation of a truncated episode.
            expected, new = (0.0, 0.0, 0.0), True
        else:
            new = action == PROBE_END
            expected = (count + 1 + 10 * action, 0.0 if new else 1.0, 1.0)
        require(given == expected, "reward, discount, weight of the step", f"{given} {place}")
        if new:
            started = after[1:] == [0.0, 0.0] and after[0] != tag
            require(started, "an end leads to a new episode's first observation", place)
        else:
            right = after == [tag, count + 1, action + 1]
            require(right, "an observation is the one its action led to", place)


def check_arrays(stream: Stream, environment: Any) -> None:
    """Shapes and types; numbers are finite and actions those there are."""
    steps, batch = stream.reward.shape
    shape = (steps + 1, batch, *environment.observation_shape)
    observation = stream.observation
    require(observation.shape == shape, "T + 1 observations", f"{observation.shape}, not {shape}")
    types = {
        "observation": environment.observation_dtype,
        "reward": np.float32,
        "discount": np.float32,
        "weight": np.float32,
        "ended": np.bool_,
        "episode_return": np.float32,
        "episode_length": np.int32,
    }
    for field, dtype in types.items():
        array = getattr(stream, field)
        require(array.dtype == dtype, "types", f"{field} is {array.dtype}, not {np.dtype(dtype)}")
        if field != "observation":
            fits = array.shape == (steps, batch)
            require(fits, "one number per step", f"{field} has shape {array.shape}")
    for field in ("observation", "reward"):
        finite = np.isfinite(getattr(stream, field)).all()
        require(bool(finite), "all numbers are finite", f"{field} is not")
    actions = (stream.action >= 0) & (stream.action < environment.num_actions)
    require(bool(actions.all()), "actions lie in [0, num_actions)", "some do not")


def _check_ends(stream: Stream) -> None:
    for field in ("discount", "weight"):
        values = getattr(stream, field)
        require(bool(np.isin(values, (0.0, 1.0)).all()), f"{field} is 0 or 1", "some are not")
    real = stream.weight == 1
    over = stream.discount == 0
    nowhere(real & over & ~stream.ended, "discount 0 on a real step ends the episode")
    nowhere(~real & ~over, "a pseudo-step has discount 0")
    nowhere(~real & (stream.reward != 0), "a pseudo-step has reward 0")
    nowhere(~real & stream.ended, "a pseudo-step ends no episode")
    truncated = stream.ended & ~over
    nowhere(truncated[:-1] & real[1:], "a truncation is followed by a pseudo-step")
    nowhere(~real[1:] & ~truncated[:-1], "a pseudo-step follows a truncation")
    nowhere(~real[:1], "a stream starts with a real step")


def check_episodes(stream: Stream) -> None:
    """Returns and lengths, recomputed from raw rewards and weights."""
    steps, batch = stream.reward.shape
    for b in range(batch):
        total, length = 0.0, 0
        for t in range(steps):
            total += float(stream.reward[t, b])
            length += int(stream.weight[t, b])
            ended = bool(stream.ended[t, b])
            expected = (total, length) if ended else (0.0, 0)
            given = (float(stream.episode_return[t, b]), int(stream.episode_length[t, b]))
            same = bool(np.isclose(given[0], expected[0], rtol=1e-5)) and given[1] == expected[1]
            place = f"{given}, not {expected}, at step {t}, environment {b}"
            require(same, "return and length of the episode that ended, else 0", place)
            if ended:
                total, length = 0.0, 0


def _check_state(state: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        name = jax.tree_util.keystr(path)
        array = isinstance(leaf, jax.Array)
        require(array, "the state is a pytree of arrays", f"{name} is a {type(leaf).__name__}")
        strong = not jax.typeof(leaf).weak_type
        require(strong, "no weak types in the state: a checkpoint has none", f"{name} is one")


def _copied(start: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
    """The same through NumPy, as a checkpoint would have it."""

    def copy(leaf: jax.Array) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = np.asarray(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(jnp.asarray(data), impl=jax.random.key_impl(leaf))
        return jnp.asarray(np.asarray(leaf))

    return jax.tree.map(copy, start)


def nowhere(bad: np.ndarray, rule: str) -> None:
    """A breach of `rule` where `bad[T, B]` is set."""
    if bad.any():
        t, b = (int(i[0]) for i in np.nonzero(bad))
        raise NonconformingError(f"{rule}: not so at step {t}, environment {b}")


def require(holds: bool, rule: str, what: str) -> None:
    """A breach of `rule` if it does not hold."""
    if not holds:
        raise NonconformingError(f"{rule}: {what}")
