"""What every trace must obey, as a battery to run on one of your own.

    laws.check(my_trace())

runs every law below on random streams with ratios of 0, state-dependent discounts,
terminations and autoreset steps, and raises `LawError` with a sentence that says which law
failed and where. A law takes a `Case` (a trace and the streams it is tried on), so it can
also be run alone: `laws.causality(laws.Case(my_trace()))`.

Two things a trace may rightly do are told to the battery by name: `period`, the length of
its windows if it is used at window starts (the place in the window goes on across episode
ends), and `uses_own_ratio`, for emphases such as the literal WEVtrace's that depend on the
action they weigh.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.traces import Trace

RTOL = 1e-5
"""Relative difference above which two float32 emphases are not the same."""


class LawError(AssertionError):
    """Which law a trace breaks, and where."""


class Stream(NamedTuple):
    """What a trace is fed with, `[T, *B]` float32 each."""

    rho_tm1: np.ndarray
    discount_t: np.ndarray
    nu_tm1: np.ndarray

    def part(self, first: int, last: int) -> "Stream":
        """Steps `first` to `last`, exclusive."""
        return Stream(*(x[first:last] for x in self))

    def then(self, other: "Stream") -> "Stream":
        """This stream, continued by another."""
        return Stream(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def changed(self, step: int, **fields: float | np.ndarray) -> "Stream":
        """This stream with other values at one step."""
        copies = {name: getattr(self, name).copy() for name in fields}
        for name, value in fields.items():
            copies[name][step] = value
        return self._replace(**copies)


def random_stream(steps: int, batch_shape: tuple[int, ...] = (), seed: int = 0) -> Stream:
    """Ratios (one in eight 0), discounts and ν by chance, with both kinds of episode end.

    One step in eight terminates (discount 0); one in eight is an autoreset step, whose
    discount and ratio are 0, and so ends an episode that was truncated one step before.
    """
    rng = np.random.default_rng(seed)
    shape = (steps, *batch_shape)
    rho = rng.gamma(2.0, 0.5, shape) * (rng.random(shape) > 1 / 8)
    discount = rng.uniform(0.5, 1.0, shape)
    nu = rng.uniform(0.3, 1.0, shape)
    end = rng.integers(8, size=shape)
    discount[end <= 1] = 0.0
    rho[end == 1] = 0.0
    return Stream(*(x.astype(np.float32) for x in (rho, discount, nu)))


@dataclasses.dataclass(frozen=True)
class Case:
    """A trace and what it is tried on."""

    trace: Trace
    _: dataclasses.KW_ONLY
    period: int = 1
    """Length of the trace's windows, 1 if it has none."""
    uses_own_ratio: bool = False
    """Whether the emphasis may depend on the ratio of the step that it weighs."""
    steps: int = 24
    """Unroll length, T."""
    batch: int = 3
    """Number of streams, B."""
    seed: int = 0

    def random(self, variant: int = 0) -> Stream:
        """`[T, B]`; every `variant` is another draw."""
        return random_stream(self.steps, (self.batch,), 1000 * self.seed + variant)

    @functools.cached_property
    def jitted(self) -> Callable[..., Any]:
        """The compiled update."""
        return jax.jit(self.trace.update)

    def unroll(self, stream: Stream, state: Any = None) -> tuple[Any, np.ndarray]:
        """State and emphasis of a stream of any shape, from `state` or from its start.

        Every new shape is compiled, so the laws use few of them.
        """
        if state is None:
            state = self.trace.init(stream.rho_tm1.shape[1:])
        state, emphasis = self.jitted(state, *map(jnp.asarray, stream))
        return state, np.asarray(emphasis)

    def emphasis(self, stream: Stream) -> np.ndarray:
        """Emphasis of a stream from its start."""
        return self.unroll(stream)[1]

    def emphasis_not_compiled(self, stream: Stream) -> np.ndarray:
        """The same, operation by operation."""
        state = self.trace.init(stream.rho_tm1.shape[1:])
        with jax.disable_jit():
            return np.asarray(self.trace.update(state, *map(jnp.asarray, stream))[1])


Law = Callable[[Case], None]


def check(
    trace: Trace,
    *,
    period: int = 1,
    uses_own_ratio: bool = False,
    steps: int = 24,
    batch: int = 3,
    seed: int = 0,
) -> None:
    """Run every law on `trace`; the first that is broken raises `LawError`.

    `steps` should be a few times as long as the trace's memory (n).
    """
    case = Case(
        trace,
        period=period,
        uses_own_ratio=uses_own_ratio,
        steps=steps,
        batch=batch,
        seed=seed,
    )
    for law in LAWS:
        law(case)


def one_number_per_step(case: Case) -> None:
    """The emphasis has the shape and dtype of the ratios; it is finite and not negative."""
    stream = case.random()
    emphasis = case.emphasis(stream)
    if emphasis.shape != stream.rho_tm1.shape or emphasis.dtype != stream.rho_tm1.dtype:
        raise LawError(
            f"one_number_per_step: the emphasis is {emphasis.dtype}{list(emphasis.shape)}, "
            f"the ratios are {stream.rho_tm1.dtype}{list(stream.rho_tm1.shape)}"
        )
    wrong = ~(np.isfinite(emphasis) & (emphasis >= 0))
    if wrong.any():
        place = _first(wrong)
        raise LawError(
            f"one_number_per_step: the emphasis must be finite and not negative; "
            f"it is {emphasis[place]} at {_where(place)}"
        )


def state_keeps_its_form(case: Case) -> None:
    """An update returns a state of the same tree, shapes and dtypes, as `lax.scan` demands."""
    state = case.trace.init((case.batch,))
    stream = tuple(map(jnp.asarray, case.random()))
    after = jax.eval_shape(lambda s: case.trace.update(s, *stream)[0], state)
    before = jax.eval_shape(lambda s: s, state)
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise LawError(
            f"state_keeps_its_form: init gives {jax.tree.structure(before)}, "
            f"update returns {jax.tree.structure(after)}"
        )
    leaves = zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True)
    for (path, was), now in leaves:
        if (was.shape, was.dtype) != (now.shape, now.dtype):
            raise LawError(
                f"state_keeps_its_form: state{jax.tree_util.keystr(path)} is {was} "
                f"at the start and {now} after an update"
            )


def two_unrolls_equal_one(case: Case) -> None:
    """The carried state makes the unroll length invisible, down to single steps."""
    stream = case.random()
    whole = case.emphasis(stream)
    third = max(1, case.steps // 3)
    for lengths in ([1] * case.steps, [third] * 2 + [case.steps - 2 * third], _ragged(case)):
        emphasis = _in_parts(case, stream, lengths)
        _same("two_unrolls_equal_one", emphasis, whole, f"unrolls of {_brief(lengths)} steps")


def causality(case: Case) -> None:
    """An emphasis holds only the past: no ratio or discount of its own or a later step.

    ν is a function of the state, so a step's own ν may be used, and no later one.
    `uses_own_ratio` exempts the step's own ratio.
    """
    stream, other = case.random(), case.random(1)
    emphasis = case.emphasis(stream)
    for step in range(case.steps):
        own = step + case.uses_own_ratio
        changed = Stream(
            np.concatenate([stream.rho_tm1[:own], other.rho_tm1[own:] + 1.0]),
            np.concatenate([stream.discount_t[:step], 0.5 * other.discount_t[step:]]),
            np.concatenate([stream.nu_tm1[: step + 1], other.nu_tm1[step + 1 :]]),
        )
        _same(
            "causality",
            case.emphasis(changed)[: step + 1],
            emphasis[: step + 1],
            f"with other ratios and discounts from step {step} on",
        )


def elementwise_over_batch(case: Case) -> None:
    """Streams do not mix: `[T]`, `[T, B]` and `[T, B, heads]` agree."""
    stream = case.random()
    emphasis = case.emphasis(stream)
    for b in range(case.batch):
        alone = case.emphasis(Stream(*(x[:, b] for x in stream)))
        _same("elementwise_over_batch", alone, emphasis[:, b], f"stream {b} alone")
    heads = Stream(*(np.stack([x, x[:, ::-1]], axis=-1) for x in stream))
    both = np.stack([emphasis, emphasis[:, ::-1]], axis=-1)
    _same("elementwise_over_batch", case.emphasis(heads), both, "with an axis of heads")


def vmap_over_streams(case: Case) -> None:
    """`vmap` of the trace on single streams is the trace on all of them."""
    stream = case.random()

    def alone(rho_tm1, discount_t, nu_tm1):
        return case.trace.update(case.trace.init(()), rho_tm1, discount_t, nu_tm1)[1]

    mapped = jax.jit(jax.vmap(alone, in_axes=1, out_axes=1))(*map(jnp.asarray, stream))
    _same("vmap_over_streams", np.asarray(mapped), case.emphasis(stream), "under vmap")


def termination_starts_anew(case: Case) -> None:
    """After a discount of 0 the past is gone and the emphasis is that of a new stream."""
    for step in (0, case.steps // 3, case.steps // 2):
        first, second = _past_and_present(case, step, 0), _past_and_present(case, step, 1)
        after = slice(step + 1, None)
        _same(
            "termination_starts_anew",
            case.emphasis(first.changed(step, discount_t=0.0))[after],
            case.emphasis(second.changed(step, discount_t=0.0))[after],
            f"two pasts that end at step {step}",
        )
    past, fresh = _loud(case, 2).changed(-1, discount_t=0.0), case.random(3)
    _same(
        "termination_starts_anew",
        _after_past(case, past, fresh),
        case.emphasis(fresh),
        "a new stream beside one after a termination",
    )


def autoreset_starts_anew(case: Case) -> None:
    """After a truncation and its autoreset step (discount 0, ρ 0) the emphasis starts anew.

    The last real step keeps its discount. What lies on the far side of the autoreset
    step changes nothing before it, and the autoreset step's own ν changes nothing at all.
    """
    step = case.steps // 2
    autoreset = {"discount_t": 0.0, "rho_tm1": 0.0}
    first = _past_and_present(case, step, 0).changed(step, **autoreset)
    second = _past_and_present(case, step, 1).changed(step, **autoreset, nu_tm1=0.5)
    after = slice(step + 1, None)
    emphasis = case.emphasis(first)
    what = f"two pasts and the autoreset step {step}"
    _same("autoreset_starts_anew", case.emphasis(second)[after], emphasis[after], what)

    future = first.part(0, step + 1).then(case.random(4).part(step + 1, case.steps))
    what = f"another episode after the autoreset step {step}"
    before = slice(0, step + 1)
    _same("autoreset_starts_anew", case.emphasis(future)[before], emphasis[before], what)

    past, fresh = _loud(case, 2).changed(-1, **autoreset), case.random(3)
    what = "a new stream beside one after an autoreset step"
    _same("autoreset_starts_anew", _after_past(case, past, fresh), case.emphasis(fresh), what)


def no_gradient(case: Case) -> None:
    """No gradient flows through an emphasis, also not across unrolls; it is 0, never NaN."""
    stream = case.random()

    def total(rho_tm1, discount_t, nu_tm1):
        state, first = case.trace.update(
            case.trace.init((case.batch,)), rho_tm1, discount_t, nu_tm1
        )
        _, second = case.trace.update(state, *map(jnp.asarray, stream))
        return (first + second).sum()

    gradients = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(*map(jnp.asarray, stream))
    for name, gradient in zip(Stream._fields, gradients, strict=True):
        flows = np.asarray(gradient) != 0
        if flows.any():
            place = _first(flows)
            raise LawError(
                f"no_gradient: the gradient with respect to {name} is "
                f"{gradient[place]} at {_where(place)}, not 0"
            )


def jit_changes_nothing(case: Case) -> None:
    """The compiled update gives what the update gives step by step."""
    stream = case.random()
    plain = case.emphasis_not_compiled(stream)
    _same("jit_changes_nothing", case.emphasis(stream), plain, "compiled")


def same_input_same_output(case: Case) -> None:
    """A trace is a pure function: a second call gives the same bits."""
    stream = case.random()
    for name, call in (("compiled", case.emphasis), ("plain", case.emphasis_not_compiled)):
        first, second = call(stream), call(stream)
        if (first != second).any():
            place = _first(first != second)
            raise LawError(
                f"same_input_same_output: the {name} update gives {first[place]} and then "
                f"{second[place]} at {_where(place)}"
            )


LAWS: tuple[Law, ...] = (
    one_number_per_step,
    state_keeps_its_form,
    same_input_same_output,
    jit_changes_nothing,
    causality,
    two_unrolls_equal_one,
    elementwise_over_batch,
    vmap_over_streams,
    termination_starts_anew,
    autoreset_starts_anew,
    no_gradient,
)
"""The battery, in the order in which a failure is easiest to understand."""


def _loud(case: Case, variant: int) -> Stream:
    """A past nobody could overlook: no episode ends and large ratios."""
    stream = case.random(variant)
    shape = stream.rho_tm1.shape
    return stream._replace(
        rho_tm1=(stream.rho_tm1 + 2.0).astype(np.float32),
        discount_t=np.full(shape, 0.95, np.float32),
    )


def _past_and_present(case: Case, step: int, variant: int) -> Stream:
    """Variants differ up to `step` and agree afterwards."""
    past = _loud(case, 10 + variant).part(0, step + 1)
    return past.then(case.random(3).part(step + 1, case.steps))


def _after_past(case: Case, past: Stream, fresh: Stream) -> np.ndarray:
    """Emphasis of `fresh` after as much of `past` as makes whole windows."""
    steps = case.period * max(1, len(past.rho_tm1) // 2 // case.period)
    past = past.part(len(past.rho_tm1) - steps, len(past.rho_tm1))
    return _in_parts(case, past.then(fresh), [1] * steps + [case.steps])[steps:]


def _in_parts(case: Case, stream: Stream, lengths: list[int]) -> np.ndarray:
    """Emphasis of a stream in unrolls of these lengths."""
    state, first, parts = None, 0, []
    for length in lengths:
        state, emphasis = case.unroll(stream.part(first, first + length), state)
        parts.append(emphasis)
        first += length
    return np.concatenate(parts)


def _ragged(case: Case) -> list[int]:
    """Single steps, a third, single steps: cuts at odd places in only two lengths."""
    third = max(1, case.steps // 3)
    before = third // 2
    return [1] * before + [third] + [1] * (case.steps - third - before)


def _brief(lengths: list[int]) -> str:
    """A list of lengths, repetitions counted."""
    runs = ((length, len(list(run))) for length, run in itertools.groupby(lengths))
    return ", ".join(f"{count} x {length}" if count > 1 else f"{length}" for length, count in runs)


def _same(law: str, got: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Raise with the first place where two emphases differ."""
    if got.shape != wanted.shape:
        raise LawError(f"{law}: {what}: shape {list(got.shape)}, not {list(wanted.shape)}")
    different = ~np.isclose(got, wanted, rtol=RTOL, atol=RTOL)
    if different.any():
        place = _first(different)
        raise LawError(
            f"{law}: {what}: {got[place]} at {_where(place)}, where it must be {wanted[place]}"
        )


def _first(mask: np.ndarray) -> tuple[int, ...]:
    """Index of the first True, earliest step first."""
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _where(place: tuple[int, ...]) -> str:
    """An index in words."""
    return f"step {place[0]}" + "".join(f", batch index {i}" for i in place[1:])
