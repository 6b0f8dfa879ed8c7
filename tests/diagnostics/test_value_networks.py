"""Networks against the linear learners, and against a loop over samples and parameters."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from emphatic import UserError, algorithms, cli, mdp
from emphatic.agent.optimiser import OptimiserConfig
from emphatic.commands import networks as networks_command
from emphatic.diagnostics import (
    garnets,
    learners,
    networks,
    networks_study,
    networks_summary,
    networks_tables,
    problems,
    streams,
    sweeps,
)
from emphatic.diagnostics.networks import Lane

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results" / "networks"
NAMES = ("td", "clip-netd", "vtrace", "nevtrace", "exact-nevtrace", "wetd", "exact-wevtrace")


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def small(states=5):
    """Rewards, ends, γ by state, and features with a constant, as a bias is one."""
    rng = np.random.default_rng(3)
    transition = rng.dirichlet(np.ones(states), size=(states, 3))
    m = mdp.MDP(
        name="small",
        transition=transition,
        reward=rng.normal(size=transition.shape),
        discount=np.broadcast_to([0.9, 0.5, 0.0, 1.0, 0.8], transition.shape),
        target=rng.dirichlet(np.ones(3), size=states),
        behaviour=rng.dirichlet(3 * np.ones(3), size=states),
        features=np.concatenate([rng.normal(size=(states, 2)), np.ones((states, 1))], 1),
        initial_weights=np.array([0.5, -1.0, 0.0]),
    )
    return problems.of_mdp(m)


def case_of(problem, inputs):
    weights = np.stack([problem.weights, np.full(len(inputs), 1 / len(inputs))])
    return networks.Case(*(jnp.asarray(x) for x in (inputs, problem.values, weights)))


def run(problem, plan, params, inputs, alphas, *, streams_=1, updates=60, chunk=20, unroll=10):
    """Errors before each update by optimiser, and the stream."""
    alphas = {k: jnp.asarray(v) for k, v in alphas.items()}
    ahead = max(lane.n for lane in plan) - 1
    stream = streams.sample(7, range(streams_), problem, updates * unroll + ahead)
    state = networks.start(plan, params, {k: len(v) for k, v in alphas.items()})
    traces, errors = networks.trace_states(plan, streams_), []
    for begin in range(0, updates * unroll, chunk * unroll):
        window = slice(begin, begin + chunk * unroll + ahead)
        state, traces, error = networks.advance(
            plan,
            state,
            traces,
            case_of(problem, inputs),
            streams.Stream(*(x[window] for x in stream)),
            alphas,
            updates=chunk,
            total=updates,
            unroll=unroll,
        )
        errors.append(error)
    return {k: np.concatenate([e[k] for e in errors]) for k in alphas}, stream, state


@pytest.mark.usefixtures("float64")
def test_a_linear_network_is_the_linear_learner():
    """One stream, one state an update; the bias is one more feature that is 1."""
    problem, alphas, updates = small(), np.array([2.0**-9, 2.0**-7]), 60
    names = ("td", "clip-netd", "vtrace", "nevtrace", "exact-nevtrace")
    plan = tuple(Lane(name, n) for name in names for n in (1, 3))
    weights = jnp.asarray(problem.mdp.initial_weights[:2])
    ours, stream, _ = run(
        problem,
        plan,
        networks.linear(weights),
        problem.mdp.features[:, :2],
        {"sgd": alphas},
        updates=updates,
        unroll=1,
    )
    theirs = linear_errors(problem, names, alphas, stream, updates)
    for i, lane in enumerate(plan):
        place = learners.lanes(names, (1, 3)).index(learners.Lane(*lane))
        np.testing.assert_allclose(
            ours["sgd"][:, 0, i], theirs[:updates, :, place], rtol=1e-9, err_msg=str(lane)
        )


def linear_errors(problem, names, alphas, stream, steps):
    plan = learners.lanes(names, (1, 3))
    features = problem.mdp.features[None]
    initial = jnp.asarray(features @ problem.mdp.initial_weights)
    state = jax.vmap(lambda v: learners.start(v, plan, len(alphas), steps + 1))(initial)
    case = learners.Case(
        jnp.asarray(features @ features.transpose(0, 2, 1)),
        jnp.asarray(problem.values),
        jnp.asarray(problem.weights),
    )
    state, _ = learners.advance(
        plan,
        state,
        learners.trace_states(plan, 1, problem.mdp.num_states),
        case,
        stream,
        jnp.arange(steps, dtype=jnp.int32),
        jnp.asarray(alphas),
        jnp.asarray(0),
        jnp.asarray(steps),
        steps=steps,
    )
    return np.asarray(state["forward"].curve)[0]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", ["sgd", "rmsprop"])
def test_a_network_equals_a_loop_over_samples(name):
    """jax.grad of the mean loss over T x B states, one lane at a time, optax for the rest."""
    problem, B, updates = small(), 3, 8
    plan = tuple(Lane(x, 2) for x in NAMES)
    inputs, alpha = problem.mdp.features, 0.05
    params = networks.init(jax.random.key(1), (3, 4, 4, 1))
    ours, stream, state = run(
        problem, plan, params, inputs, {name: [alpha]}, streams_=B, updates=updates, chunk=4
    )
    for i, lane in enumerate(plan):
        errors, last = slow(
            problem, lane, params, jnp.asarray(inputs), stream, name, alpha, updates
        )
        np.testing.assert_allclose(ours[name][:, :, i, 0], errors, rtol=1e-7, err_msg=str(lane))
        for a, b in zip(jax.tree.leaves(state[name].params), jax.tree.leaves(last), strict=True):
            np.testing.assert_allclose(a[i, 0], b, rtol=1e-6, atol=1e-9)


def slow(problem, lane, params, inputs, stream, optimiser, alpha, updates, T=10):
    """One learner, its loss over samples; the whole stream's emphasis in one call."""
    built = algorithms.build(*lane)
    trace_state = built.trace.init(stream.rho_tm1.shape[1:], stream.rho_tm1.dtype)
    _, emphasis = built.trace.update(trace_state, stream.rho_tm1, stream.chain_t, stream.nu_tm1)
    config = OptimiserConfig()
    transform = {
        "sgd": optax.sgd(alpha),
        "rmsprop": optax.chain(
            optax.clip_by_global_norm(config.max_gradient_norm),
            optax.rmsprop(optax.linear_schedule(alpha, 0.0, updates), config.decay, config.epsilon),
        ),
    }[optimiser]
    state, errors = transform.init(params), []
    weights = case_of(problem, inputs).weights
    for u in range(updates):
        v = networks.values(params, inputs)
        errors.append(np.sqrt(weights @ np.square(np.asarray(v) - problem.values)))
        size = T + (lane.n - 1 if built.row.scheme == "fixed" else 0)
        now = streams.Stream(*(x[u * T : u * T + size] for x in stream))
        given = (now.reward_t, now.discount_t, now.rho_tm1)
        target = built.target(v[now.state_tm1], v[now.state_t], *given).value_tm1[:T]

        def loss(p, now=now, target=target, u=u):
            out = networks.values(p, inputs[now.state_tm1[:T].reshape(-1)])
            squares = 0.5 * jnp.square(target.reshape(-1) - out)
            return (emphasis[u * T : (u + 1) * T].reshape(-1) * squares).mean()

        move, state = transform.update(jax.grad(loss)(params), state, params)
        params = optax.apply_updates(params, move)
    return np.stack(errors), params


def test_what_diverges_stands_still_and_touches_no_other():
    """A step size of 8 beside one of 1/64: the latter as if it were alone."""
    problem = problems.problem("baird")
    plan = (Lane("td", 1), Lane("netd", 1))
    params = networks.linear(jnp.asarray(problem.mdp.initial_weights, jnp.float32))
    inputs = problem.mdp.features.astype(np.float32)
    both, _, state = run(problem, plan, params, inputs, {"sgd": [2.0**-6, 8.0]}, streams_=2)
    alone, _, _ = run(problem, plan, params, inputs, {"sgd": [2.0**-6]}, streams_=2)
    np.testing.assert_allclose(both["sgd"][..., :1], alone["sgd"], rtol=1e-5)
    assert (both["sgd"][-1, :, :, 1] == networks.LIMIT).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(state["sgd"].params))


def test_a_last_update_that_diverges_is_counted():
    """No error that is returned has seen it."""
    problem, alphas = problems.problem("baird"), [2.0**-6, 1e6]
    params = networks.linear(jnp.asarray(problem.mdp.initial_weights, jnp.float32))
    inputs = problem.mdp.features.astype(np.float32)
    errors, _, state = run(
        problem, (Lane("td", 1),), params, inputs, {"sgd": alphas}, updates=1, chunk=1
    )
    assert (errors["sgd"] < networks.LIMIT).all()
    found = networks.diverged(state["sgd"], case_of(problem, inputs))
    np.testing.assert_array_equal(found, [[False, True]])


def test_what_diverged_once_stays_counted():
    problem = problems.problem("baird")
    params = networks.linear(jnp.asarray(problem.mdp.initial_weights, jnp.float32))
    inputs = problem.mdp.features.astype(np.float32)
    _, _, state = run(problem, (Lane("td", 1),), params, inputs, {"sgd": [8.0]}, streams_=2)
    learner, case = state["sgd"], case_of(problem, inputs)
    assert networks.diverged(learner, case).all()
    missing = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), learner.params)
    sound = learner._replace(error=jnp.zeros_like(learner.error))
    assert networks.diverged(sound._replace(params=missing), case).all(), "NaN is divergence"


@pytest.mark.parametrize(("name", "n"), [("td", 1), ("td", 3), ("vtrace", 3)])
def test_targets_end_where_an_episode_is_cut(name, n):
    """The sum over transitions of each episode by itself, which bootstraps from its last state."""
    problem = problems.problem("collision-trap")
    v = jnp.asarray(np.random.default_rng(0).normal(size=problem.mdp.num_states), jnp.float32)
    cut = streams.sample(3, range(2), problem, 260)
    whole = networks_study.continuous(cut, 260)
    built = algorithms.build(name, n)
    given = (whole.reward_t, whole.discount_t, whole.rho_tm1)
    error = built.target(v[whole.state_tm1], v[whole.state_t], *given).value_tm1
    error = np.asarray(error - v[whole.state_tm1])
    # Two cuts in 260 steps: after 100 transitions, and after 200.
    pseudo = np.isin(np.arange(260), (100, 201))
    np.testing.assert_array_equal(whole.discount_t[pseudo], 0.0)
    np.testing.assert_array_equal(error[pseudo], 0.0)
    expected = errors_of_episodes(cut, np.asarray(v), n, clip=1.0 if name == "vtrace" else np.inf)
    ours = error[~pseudo][:250]
    np.testing.assert_allclose(ours, expected[:250], atol=1e-5)


def errors_of_episodes(stream, v, n, clip):
    """Σₖ ∏ⱼ₌₀ᵏ⁻¹ (cⱼ γⱼ) ρₖ δₖ, transition by transition, not across a cut."""
    stream = streams.Stream(*(np.asarray(x) for x in stream))
    rho = np.minimum(clip, stream.rho_tm1)
    delta = stream.reward_t + stream.discount_t * v[stream.state_t] - v[stream.state_tm1]
    out = np.zeros_like(delta)
    for t in range(len(delta)):
        product = np.ones(delta.shape[1])
        for k in range(t, min(t + n, len(delta))):
            out[t] += product * rho[k] * delta[k]
            product *= rho[k] * stream.chain_t[k]
    return out


def test_emphasis_starts_anew_where_an_episode_is_cut():
    cut = streams.sample(3, range(2), problems.problem("collision-trap"), 260)
    whole = networks_study.continuous(cut, 260)
    real = ~np.isin(np.arange(260), (100, 201))
    for name in ("netd", "exact-nevtrace"):
        trace = algorithms.build(name, 1).trace
        expected, found = (
            trace.update(trace.init((2,)), s.rho_tm1[:m], s.chain_t[:m], s.nu_tm1[:m])[1]
            for s, m in ((cut, 258), (whole, 260))
        )
        np.testing.assert_allclose(np.asarray(found)[real], expected, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("furthest", [1.0, 0.2])
def test_garnets_are_standard_and_as_far_apart_as_asked(furthest):
    p = garnets.garnet(np.random.default_rng(0), 30, furthest)
    assert mdp.checked(p.mdp).num_states == 30
    d = p.weights
    np.testing.assert_allclose([d @ p.values, d @ p.values**2], [0, 1], atol=1e-9)
    apart = 1 - p.mdp.nu()
    assert 0.7 * furthest < apart.max() <= 0.8 * furthest
    assert apart.min() < 0.1 * furthest
    other = garnets.garnet(np.random.default_rng(1), 30, furthest)
    assert not np.allclose(p.mdp.transition, other.mdp.transition)
    assert dataclasses.is_dataclass(other)


def tiny(**changes):
    """One problem, few of everything."""
    settings = {"problems": ("collision-restart",), "models": ("linear", "mlp"), "seeds": 3}
    settings |= {"sgd": (2.0**-9, 8.0), "rmsprop": (2.0**-6, 2.0**-3), "updates": 100}
    settings |= {"lanes": (Lane("td", 1), Lane("netd", 1)), "streams": 2, "bins": 10}
    return networks_study.Study(**{**settings, **changes})


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished study, its folder and what the command printed."""
    folder = tmp_path_factory.mktemp("study")
    networks_command.run(tiny(), folder / "out", redraw=False)
    return folder / "out"


def tables(page):
    """The Markdown tables of a page, each as lines."""
    return [part.splitlines() for part in page.split("\n\n") if part.startswith("|")]


def cells(table):
    return [line.split("|") for line in table]


def test_a_study_leaves_units_summaries_table_and_figures(done):
    rows = json.loads((done / "table.json").read_text())
    assert len(rows) == 2 * 2 * 2
    assert {row["seeds"] for row in rows} == {3}
    assert all(row["run_interval"][0] <= row["run"] <= row["run_interval"][1] for row in rows)
    names = [f"{model}-{x}" for model in ("linear", "mlp") for x in ("divergences", "step-sizes")]
    names += ["mlp-curves", "errors"]
    drawn = {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert {path.name for path in (done / "figures").iterdir()} == drawn
    page = (done / "tables.md").read_text()
    assert all(len(set(map(len, cells(table)))) == 1 for table in tables(page))
    row = next(row for row in rows if row["algorithm"] == "netd")
    assert f"| NETD | 1 | {row['run']:.3f} (" in page
    config = json.loads((done / "config.json").read_text())
    assert config["experiment"]["networks"]["seeds"] == 3


def test_a_study_goes_on_where_it_stopped(done, tmp_path, monkeypatch):
    """Broken off in the third unit, it keeps two and ends with the same numbers."""
    monkeypatch.setattr(networks_study, "BLOCK", 2)
    study, heard = tiny(models=("linear",)), []

    def stop():
        heard.append(1)
        if len(heard) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        networks_study.run(study, tmp_path, stop)
    assert networks_study.work(study, tmp_path) == (3, 2)
    networks_study.run(study, tmp_path)
    again = np.concatenate([sweeps.read_arrays(u.path(tmp_path))["sgd"] for u in study.units])
    whole = sweeps.read_arrays(done / "units" / "collision-restart-linear-000-003.npz")["sgd"]
    np.testing.assert_allclose(again, whole, rtol=1e-5)
    counted = sweeps.read_arrays(done / "units" / "collision-restart-linear-000-003.npz")
    np.testing.assert_array_equal(counted["sgd_diverged"], [[[False, True]] * 2] * 3)


def test_redraw_computes_nothing_and_gives_the_same(done, monkeypatch):
    before = {p: p.read_bytes() for p in done.rglob("*.*") if "units" not in p.parts}
    monkeypatch.setattr(networks_study, "run", None)
    networks_command.run(tiny(), done, redraw=True)
    assert {"table.json", "tables.md", "errors.png"} <= {p.name for p in before}
    assert all(p.read_bytes() == data for p, data in before.items())


def test_another_study_does_not_take_the_folder(done):
    with pytest.raises(UserError, match="another experiment"):
        networks_command.run(tiny(seeds=4), done, redraw=False)


def test_step_sizes_are_the_other_halfs_choice():
    """Even seeds are best at 0, odd ones at 1; each is judged where the others are best."""
    by_alpha = np.array([[[1.0, 2.0]], [[2.0, 1.0]]] * 3)
    np.testing.assert_array_equal(networks_summary.choose(by_alpha), [[1], [0]])


LANES = (Lane("td", 2), Lane("netd", 2), Lane("td-mixed", 2), Lane("wetd", 2))


def made(run, diverged=(), alphas=(0.25, 0.5, 1.0), **changes):
    """A summary of errors `[s, L]` over the run; `diverged` are (seed, lane, step size)."""
    run = np.asarray(run, np.float32)
    study = networks_study.Study(
        lanes=LANES, sgd=alphas, rmsprop=alphas, problems=("garnet-50",), bins=2
    )
    errors = np.broadcast_to(run[:, None, None, :, None], (len(run), 2, 2, 4, len(alphas)))
    found = np.zeros((len(run), 4, len(alphas)), bool)
    for place in diverged:
        found[place] = True
    arrays = {"sgd": errors, "sgd_diverged": found}
    arrays |= {k: np.ones((len(run), 2), np.float32) for k in ("start", "bias")}
    summary = networks_summary._summary(study, "garnet-50", "mlp", "sgd", arrays)
    return dataclasses.replace(summary, **changes)


def test_divergences_are_counted_however_late():
    """Errors below the limit in every bin, as of a run that diverges at its end."""
    summary = made(np.ones((4, 4)), diverged=[(0, 1, 0), (3, 1, 0), (2, 1, 2), (2, 3, 2)])
    rows = networks_summary.table([summary])
    assert [row["diverged"] for row in rows] == [0, 2, 0, 0], "at the chosen step size"
    assert [row["safe_alpha"] for row in rows] == [1.0, None, 1.0, 0.5]
    np.testing.assert_array_equal(summary.diverged_at, [[0] * 3, [2, 0, 1], [0] * 3, [0, 0, 1]])


def test_each_is_compared_with_its_own_scheme_and_ties_are_left_out():
    """NETD loses to TD, WETD is better than mixed TD on two seeds and level on two."""
    run = np.array([[1, 2, 4, 3], [1, 2, 4, 3], [1, 2, 4, 4], [1, 2, 4, 4]])
    td, netd, td_mixed, wetd = networks_summary.table([made(run)])
    adjusted = {"p_adjusted": 0.25}
    lost = {"algorithm": "td", "wins": 0, "losses": 4, "p": 0.125}
    won = {"algorithm": "td-mixed", "wins": 2, "losses": 0, "p": 0.5}
    assert netd["against"] == [lost | adjusted]
    assert wetd["against"] == [won | {"p_adjusted": 0.5}]
    assert td["against"] == td_mixed["against"] == []


def test_ours_are_compared_with_the_papers_too():
    def names(name, n, lanes=networks_study.LANES):
        return [rival.name for rival in networks_summary.rivals(Lane(name, n), lanes)]

    assert names("exact-nevtrace", 1) == ["vtrace", "nevtrace"]
    assert names("exact-wevtrace", 5) == ["vtrace-mixed", "wevtrace"]
    assert names("exact-wevtrace", 5, (Lane("vtrace-mixed", 5),)) == ["vtrace-mixed"]
    assert names("nevtrace", 5) == ["vtrace"]
    assert names("vtrace-mixed", 5) == []


def test_the_order_has_baselines_first():
    order = [networks_study.LANES[i] for i in networks_summary.ordered(networks_study.LANES)]
    assert [lane.n for lane in order] == [1] * 6 + [5] * 11
    assert [lane.name for lane in order[6:]] == [
        *("td", "netd", "clip-netd", "td-mixed", "wetd"),
        *("vtrace", "nevtrace", "exact-nevtrace", "vtrace-mixed", "wevtrace", "exact-wevtrace"),
    ]


def test_ending_worse_than_begun_is_counted():
    """Errors before learning are 1 in `made`."""
    summary = made(np.array([[1.0, 2.0, 0.5, 1.5]] * 3))
    np.testing.assert_array_equal(summary.worse_at, [[0] * 3, [3] * 3, [0] * 3, [3] * 3])


def test_a_verdict_needs_a_small_adjusted_p():
    def verdict(wins, losses, p):
        test = {"wins": wins, "losses": losses, "p_adjusted": p}
        return networks_tables.verdict({"against": [test]})

    assert verdict(9, 1, 0.01) == "+"
    assert verdict(1, 9, 0.01) == "-"
    assert verdict(9, 1, 0.06) == "="
    assert networks_tables.verdict({"against": []}) == ""


def test_p_is_adjusted_for_all_tests_of_a_problem():
    """Of four tests, Holm multiplies the smallest p by 4; another problem has two of its own."""
    won, even = np.array([[2, 1, 2, 1]] * 8), np.array([[2, 1, 2, 1], [1, 2, 1, 2]] * 4)
    here = [made(won), made(even, optimiser="rmsprop"), made(won, problem="baird")]
    tests = [test for row in networks_summary.table(here) for test in row["against"]]
    p = 2 * 0.5**8
    assert [test["p"] for test in tests] == pytest.approx([p, p, 1, 1, p, p], rel=1e-3)
    adjusted = [test["p_adjusted"] for test in tests]
    assert adjusted == pytest.approx([4 * p, 4 * p, 1, 1, 2 * p, 2 * p], rel=1e-3)


def test_the_command_takes_no_other_options(capsys):
    for argv in (["--runs", "3"], ["--alphas", "0.1"], ["--n", "2"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["diagnose", "networks", *argv])
        assert stop.value.code == 2
        assert "networks: is one study" in capsys.readouterr().err


def test_what_is_kept_is_of_the_study_as_it_is():
    """Tables are those of the summaries beside them, and the page shows theirs."""
    config = json.loads((RESULTS / "config.json").read_text())["experiment"]["networks"]
    assert config == json.loads(json.dumps(networks_study.Study().config()))
    found = networks_summary.load(RESULTS / "summaries")
    rows = networks_summary.table(found)
    assert rows == json.loads((RESULTS / "table.json").read_text())
    page = (RESULTS / "tables.md").read_text()
    assert page == networks_tables.page(found, rows)
    verdicts = tables(page)[1]
    assert verdicts in tables((ROOT / "docs" / "networks.md").read_text())
