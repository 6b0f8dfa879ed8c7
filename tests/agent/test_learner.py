"""The learner is the paper's Algorithm 3, for every agent name."""

import itertools
from typing import NamedTuple

import algorithm3
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.agent import faults, learner, networks
from emphatic.agent.agents import AGENTS
from emphatic.agent.optimiser import OptimiserConfig
from emphatic.agent.surreal import AgentConfig, Transitions

STREAMS, ACTIONS, HIDDEN = 2, 3, 3


class Tiny(NamedTuple):
    """45 parameters with three heads, smooth, and the same in JAX and NumPy."""

    num_actions: int
    num_heads: int

    def init(self, key, observation_shape):
        shapes = {
            "bias": (HIDDEN,),
            "hidden": (*observation_shape, HIDDEN),
            "policy": (self.num_heads, HIDDEN, self.num_actions),
            "value": (self.num_heads, HIDDEN),
        }
        keys = jax.random.split(key, len(shapes))
        return {
            name: jax.random.normal(k, shape)
            for k, (name, shape) in zip(keys, shapes.items(), strict=True)
        }

    def apply(self, params, observation):
        bias = params["bias"].reshape(*[1] * (observation.ndim - 1), -1)
        hidden = jnp.tanh(observation @ params["hidden"] + bias)
        logits = jnp.einsum("...k,hka->...ha", hidden, params["policy"])
        return networks.HeadOutputs(logits, jnp.einsum("...k,hk->...h", hidden, params["value"]))

    def act(self, params, observation):
        return self.apply(params, observation)[0][..., 0, :]

    @staticmethod
    def slow(params, observation):
        """`apply` in NumPy, on the leaves of the parameters."""
        bias, hidden, policy, value = params
        features = np.tanh(observation @ hidden + bias)
        logits = np.stack([features @ head for head in policy], axis=1)
        return logits, np.stack([features @ head for head in value], axis=1)


@pytest.fixture(autouse=True)
def _tiny_network(monkeypatch):
    def build(config, num_actions, num_heads, **choices):
        del config, choices
        tiny = Tiny(num_actions, num_heads)
        return networks.Network(*(getattr(tiny, name) for name in networks.Network._fields))

    monkeypatch.setattr(networks, "build", build)


def experience(steps, seed=0, dtype=np.float32, ends=True):
    """A trajectory of `steps` transitions by chance, with both kinds of episode end.

    What a pseudo-step shows as action, reward and behaviour is nonsense on purpose.
    """
    rng = np.random.default_rng(seed)
    shape = (steps, STREAMS)
    end = rng.random(shape) if ends else np.ones(shape)
    pseudo = np.zeros(shape, bool)
    pseudo[1:] = end[:-1] < 0.1
    discount = np.where(pseudo | ((end > 0.1) & (end < 0.2)), 0.0, 1.0)
    return learner.Trajectory(
        jnp.asarray(rng.normal(size=(steps + 1, STREAMS, 2)).round(2), dtype),
        Transitions(
            action=jnp.asarray(rng.integers(ACTIONS, size=shape), jnp.int32),
            reward=jnp.asarray(rng.normal(0.0, 1.5, shape), dtype),
            discount=jnp.asarray(discount, dtype),
            weight=jnp.asarray(~pseudo, dtype),
            behaviour_logits=jnp.asarray(rng.normal(size=(*shape, ACTIONS)), dtype),
        ),
    )


def cut(whole, unroll_length):
    """The trajectory, one unroll at a time."""
    for first in range(0, len(whole.transitions.action), unroll_length):
        steps = slice(first, first + unroll_length)
        transitions = Transitions(*(x[steps] for x in whole.transitions))
        yield learner.Trajectory(whole.observation[first : steps.stop + 1], transitions)


# Small and run a few times: compiling is what costs.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def build(config):
    """The learner, and its `init` and `update` compiled."""
    built = learner.build(
        config,
        num_actions=ACTIONS,
        observation_shape=(2,),
        observation_dtype=np.float64 if jax.config.jax_enable_x64 else np.float32,
        num_updates=SCHEDULE,
    )
    init, update = (jax.jit(f, compiler_options=QUICK) for f in (built.init, built.update))
    return built._replace(init=init), update


def in_float64(tree):
    """The same, every float in double precision."""
    return jax.tree.map(
        lambda x: x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree
    )


# Every setting away from the value that could hide it, and the other reading of each choice.
COMMON = {
    "num_streams": STREAMS,
    "discounts": (0.95, 0.9, 0.8),
    "clip_rho": 1.3,
    "clip_c": 0.95,
    "clip_pg_rho": 1.1,
    "lambda_": 0.9,
    "policy_cost": 0.8,
    "value_cost": 0.6,
    "entropy_cost": 0.05,
}
# The schedule is single precision whatever else is double: its numbers are powers of two.
SCHEDULE = 64
OPTIMISER = OptimiserConfig(learning_rate=1 / 64, epsilon=0.01, max_gradient_norm=0.4)
READINGS = (
    {"optimiser": OPTIMISER},
    {
        "reward": "raw",
        "reduction": "sum",
        "optimiser": OptimiserConfig(
            learning_rate=1 / 64,
            end_learning_rate=1 / 256,
            decay=0.9,
            epsilon=0.1,
            epsilon_inside_root=False,
            momentum=0.3,
            max_gradient_norm=10.0,
        ),
    },
)
STABILISED = {"clip_trace": 0.9, "beta": 0.85, "eta": 0.7, "bound_recursion": 4.0, "bound": 2.5}
USABLE = {"netd": ("clip_trace", "bound"), "wetd": tuple(STABILISED)}

CUTS = {False: ((3, 5), (3, 3), (4, 2), (1, 1)), True: ((3, 3), (2, 4))}
"""(n, T) of the fixed and the mixed scheme."""


def config_of(name, n, unroll_length, reading):
    """An agent's configuration; the second reading has the stabilisers it can use."""
    trace = name.removesuffix("-ace")
    extra = {"constant": 1.7} if name.startswith("surreal-constant") else {}
    if reading and AGENTS[name].row.trace != "none":
        extra = {field: STABILISED[field] for field in USABLE.get(trace, ("bound",))}
    settings = COMMON | READINGS[reading] | extra
    return AgentConfig(agent=name, n=n, unroll_length=unroll_length, **settings)


def check_updates(config, num_updates, seed=0):
    """Both learn on their own from the same experience; after every update they agree."""
    with jax.enable_x64(True):
        built, update = build(config)
        state = in_float64(built.init(jax.random.key(seed)))
        params = [np.array(leaf) for leaf in jax.tree.leaves(state.params)]
        slow = algorithm3.Agent(config, Tiny.slow, params, SCHEDULE)
        whole = experience(num_updates * config.unroll_length, seed, np.float64)
        for unroll in cut(whole, config.unroll_length):
            state, metrics = update(state, unroll)
            total, norm = slow.update(*map(np.asarray, (unroll.observation, *unroll.transitions)))
            check_metrics(metrics, slow, total, norm)
            assert bool(metrics["clipped_update"]) == (norm > config.optimiser.max_gradient_norm)
            for got, wanted in zip(jax.tree.leaves(state.params), slow.params, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)
        assert update._cache_size() == 1
        assert int(state.updates) == num_updates


def check_metrics(metrics, slow, total, norm):
    """Loss, norm and the means per head of what is logged."""
    np.testing.assert_allclose(metrics["loss"], total, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=1e-6, atol=1e-9)
    assert not metrics["skipped_update"]
    for h in range(slow.heads):
        f = [x.emphasis for x in slow.lessons if x.head == h and x.weight]
        if f:
            np.testing.assert_allclose(metrics["emphasis"][h], np.mean(f), rtol=1e-7)
            np.testing.assert_allclose(metrics["emphasis_max"][h], np.max(f), rtol=1e-7)


def cases():
    """Name, n, T and reading: every agent with every cut, the readings in turn."""
    return [
        (name, *cut, (i + place) % 2)
        for place, name in enumerate(AGENTS)
        for i, cut in enumerate(CUTS[AGENTS[name].row.scheme == "mixed"])
    ]


@pytest.mark.parametrize(
    ("name", "n", "unroll_length", "reading"),
    [
        ("impala", 3, 5, 1),
        ("surreal-mixed", 2, 4, 0),
        ("surreal-constant", 3, 3, 1),
        ("main-only", 3, 5, 0),
        ("netd", 4, 2, 0),
        ("netd-ace", 3, 5, 1),
        ("netd-ace", 1, 1, 0),
        ("wetd-ace", 2, 4, 1),
        ("nevtrace-ace", 4, 2, 1),
        ("wevtrace", 3, 3, 0),
        ("wevtrace-literal-ace", 2, 4, 0),
        ("exact-nevtrace-ace", 4, 2, 0),
        ("exact-nevtrace-nu", 3, 3, 1),
        ("exact-wevtrace-ace", 3, 3, 1),
    ],
)
def test_the_learner_is_algorithm_3(name, n, unroll_length, reading):
    """Every trace and both schemes, with T above, at and below n."""
    check_updates(config_of(name, n, unroll_length, reading), 8)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n", "unroll_length", "reading"), cases())
def test_the_learner_is_algorithm_3_over_50_updates(name, n, unroll_length, reading):
    check_updates(config_of(name, n, unroll_length, reading), 50)


def run(config, whole, seed=0):
    """The learner's state before the first unroll and after each, and what each logged."""
    built, update = build(config)
    states, logged = [built.init(jax.random.key(seed))], []
    for unroll in cut(whole, config.unroll_length):
        state, metrics = update(states[-1], unroll)
        states.append(state)
        logged.append(metrics)
    return states, logged


def assert_same_params(first, second, rtol=1e-5):
    for name in first:
        np.testing.assert_allclose(first[name], second[name], rtol=rtol, atol=1e-7)


def test_surreal_is_netd_ace_where_nothing_came_before():
    """Every step terminates: each state is the first of its episode and F = 1."""
    whole = experience(12)
    ended = whole.transitions._replace(discount=jnp.zeros_like(whole.transitions.discount))
    whole = whole._replace(transitions=ended)
    plain, emphatic = (
        run(config_of(name, 3, 3, 0), whole)[0][-1].params for name in ("surreal", "netd-ace")
    )
    assert_same_params(plain, emphatic)


def test_a_constant_of_one_is_surreal_and_another_is_not():
    whole = experience(12)
    config = config_of("surreal-constant", 3, 3, 0)
    plain = run(config_of("surreal", 3, 3, 0), whole)[0][-1].params
    one, other = (
        run(AgentConfig(**{**vars(config), "constant": c}), whole)[0][-1].params for c in (1.0, 3.0)
    )
    assert_same_params(plain, one)
    assert np.abs(plain["value"] - other["value"]).max() > 1e-3


def test_main_only_leaves_the_auxiliary_heads_alone():
    states, logged = run(config_of("main-only", 3, 3, 0), experience(12))
    for name in ("policy", "value"):
        first, last = states[0].params[name], states[-1].params[name]
        np.testing.assert_array_equal(first[1:], last[1:])
        assert (first[0] != last[0]).all()
    assert logged[-1]["value_loss"].shape == (3,)


@pytest.mark.parametrize(
    "name",
    [
        "netd-ace",
        pytest.param("exact-nevtrace-ace", marks=pytest.mark.slow),
        pytest.param("wetd-ace", marks=pytest.mark.slow),
    ],
)
def test_two_updates_are_one_of_twice_the_length(name):
    """With parameters that stand still: same trace, same waiting, same loss in sum."""
    still = OptimiserConfig(learning_rate=1e-30)
    whole, settings = experience(12), {"optimiser": still, "reduction": "sum"}
    short, long = (
        AgentConfig(**{**vars(config_of(name, 3, steps, 0)), **settings}) for steps in (6, 12)
    )
    (*_, twice), logged_twice = run(short, whole)
    (*_, once), logged_once = run(long, whole)
    left, right = ((s.trace, s.waiting) for s in (twice, once))
    for got, wanted in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    total = sum(float(m["loss"]) for m in logged_twice)
    np.testing.assert_allclose(total, logged_once[0]["loss"], rtol=1e-5)


def test_an_emphasis_is_that_of_the_parameters_it_arrived_with():
    """What waits keeps its emphasis, however far the parameters move before it is learned."""
    fast = {**vars(config_of("netd-ace", 4, 2, 0)), "optimiser": OptimiserConfig(learning_rate=5.0)}
    states, _ = run(AgentConfig(**fast), experience(12, ends=False))
    waited = [np.asarray(s.waiting.emphasis) for s in states[1:]]
    for before, after in itertools.pairwise(waited):
        np.testing.assert_array_equal(before[2:], after[:1])
    assert waited[-1].max() > 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("reward", ["raw", "clip"])
def test_a_reward_that_is_not_finite_skips_the_update_that_sees_it(bad, reward):
    """n = 4, T = 2: what waited is dropped with it, and the next update has nothing to learn."""
    whole = experience(20, ends=False)
    poisoned = whole.transitions._replace(reward=whole.transitions.reward.at[3, 1].set(bad))
    config = AgentConfig(**{**vars(config_of("netd-ace", 4, 2, 0)), "reward": reward})
    states, logged = run(config, whole._replace(transitions=poisoned))
    assert [bool(m["skipped_update"]) for m in logged] == [False, True] + 8 * [False]
    assert faults.decode(logged[1]["fault"]) == ("reward", 1, 1, None)
    for k, (before, after) in enumerate(itertools.pairwise(states)):
        same = jax.tree.map(np.array_equal, before.params, after.params)
        assert all(jax.tree.leaves(same)) == (k in (0, 1, 2))
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(after))
    assert int(states[-1].updates) == 10


def test_the_main_head_acts():
    built, _ = build(config_of("netd-ace", 3, 3, 0))
    params = built.init(jax.random.key(0)).params
    params["policy"] = params["policy"].at[0].set(0.0).at[0, :, 1].set(50.0)
    params["bias"] = params["bias"] + 3.0
    action, logits = built.act(params, jnp.zeros((5, 2)), jax.random.key(1))
    np.testing.assert_array_equal(action, np.ones(5))
    wanted = Tiny(ACTIONS, 3).apply(params, jnp.zeros((5, 2))).logits
    np.testing.assert_allclose(logits, wanted[:, 0], rtol=1e-6)


def test_nothing_is_learned_while_everything_waits():
    """n = 4, T = 2: the first update has only pseudo-steps to learn, and moves nothing."""
    states, logged = run(config_of("netd-ace", 4, 2, 0), experience(2))
    assert float(logged[0]["gradient_norm"]) == 0.0
    np.testing.assert_array_equal(states[0].params["value"], states[1].params["value"])
