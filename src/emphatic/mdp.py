"""A finite MDP with a target policy, a behaviour policy and features; its JSON form.

`load` reads a file, `from_json` a text, `to_json` writes one. The format is published as
`mdp.schema.json` (`schema()`). What is wrong with a document is said in one sentence
that names the field and the row.
"""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from emphatic import chains, documents
from emphatic.errors import UserError

LARGEST = 1e60
"""Bound on the size of rewards, features and weights: their products stay finite."""

LARGEST_RATIO = 1e15
"""Bound on π/μ, and on how long an episode of π lasts (expected, discounted)."""

ROUNDING = 1e-6
"""How far probabilities may be from summing to 1: JSON holds 0.333333. They are rescaled."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MDP:
    """What off-policy prediction needs to know; float64 NumPy arrays throughout.

    The arrays may share leading axes: a batch of MDPs of one size.
    """

    name: str
    transition: np.ndarray
    """p(s'|s, a), `[S, A, S]`; rows sum to 1."""
    reward: np.ndarray
    """r(s, a, s'), `[S, A, S]`."""
    discount: np.ndarray
    """γ on arrival in s' from (s, a), `[S, A, S]`, in [0, 1]; 0 ends an episode."""
    target: np.ndarray
    """π(a|s), `[S, A]`."""
    behaviour: np.ndarray
    """μ(a|s), `[S, A]`; positive wherever π is."""
    features: np.ndarray
    """φ(s), `[S, d]`."""
    initial_weights: np.ndarray
    """Where learning starts, `[d]`."""

    @property
    def num_states(self) -> int:
        """S."""
        return self.transition.shape[-1]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.transition.shape[-2]

    @property
    def num_features(self) -> int:
        """d."""
        return self.features.shape[-1]

    @property
    def rho(self) -> np.ndarray:
        """π/μ, `[S, A]`; 0 where neither acts."""
        never = self.target == 0
        return np.where(never, 0.0, self.target / np.where(never, 1.0, self.behaviour))

    def nu(self, clip_rho: float = 1.0) -> np.ndarray:
        """ν(s) = Σₐ min(ρ̄ μ(a|s), π(a|s)), `[S]`."""
        if np.isinf(clip_rho):
            return self.target.sum(-1)
        return np.minimum(clip_rho * self.behaviour, self.target).sum(-1)

    def chain(self, policy: np.ndarray) -> np.ndarray:
        """P(s, s') = Σₐ policy(a|s) p(s'|s, a), `[S, S]`, without the discount."""
        return np.einsum("...sa,...sax->...sx", policy, self.transition)

    def discounted(self, weight: np.ndarray, power: int = 1) -> np.ndarray:
        """M(s, s') = Σₐ μ(a|s) w(s, a) p(s'|s, a) γ(s, a, s'), `[S, S]`.

        One step of the sampled process; with w = ρ it is P_π Γ. `power` is that of γ
        (second moments need γ²).
        """
        weighted = self.behaviour * weight
        discounted = self.transition * self.discount**power
        return np.einsum("...sa,...sax->...sx", weighted, discounted)

    def expected_reward(self, weight: np.ndarray) -> np.ndarray:
        """Σₐ μ(a|s) w(s, a) Σₛ' p(s'|s, a) r(s, a, s'), `[S]`."""
        weighted = self.behaviour * weight
        return np.einsum("...sa,...sax->...s", weighted, self.transition * self.reward)


def load(path: str | Path) -> MDP:
    """The MDP in a JSON file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(str(path), "no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(str(path), f"cannot be read: {reason}") from None
    return from_json(text, source=str(path))


def from_json(text: str, source: str = "document") -> MDP:
    """The MDP in a JSON text; `source` is what to call a text that is no JSON object."""
    if not text.strip():
        raise UserError(source, "is empty; an MDP is a JSON object")
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except UserError:
        raise
    except RecursionError:
        raise UserError(source, "is nested too deeply to be an MDP") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UserError(source, f"is not JSON: {error.msg} at {where}") from None
    except ValueError:
        raise UserError(source, "holds a number with too many digits") from None
    if not isinstance(document, dict):
        raise UserError(source, "must be a JSON object with the fields of an MDP")
    return from_dict(document)


def to_json(mdp: MDP) -> str:
    """The JSON text of an MDP; `from_json` gives it back."""
    fields = dataclasses.asdict(mdp)
    return json.dumps({k: v if k == "name" else v.tolist() for k, v in fields.items()})


def schema() -> str:
    """The published JSON Schema (draft 2020-12) of an MDP, as text."""
    return Path(__file__).with_suffix(".schema.json").read_text(encoding="utf-8")


def from_dict(document: dict[str, Any]) -> MDP:
    """The MDP in a parsed JSON document, checked."""
    required = ("name", "transition", "reward", "discount", "target", "behaviour")
    known = (*required, "features", "initial_weights")
    for field in document:
        if field not in known:
            raise UserError(_quoted(field), f"is no field of an MDP; they are {', '.join(known)}")
    for field in required:
        if field not in document:
            raise UserError(field, "is missing")
    transition = _transition(document["transition"])
    S, A, _ = transition.shape
    features = _features(document["features"], S) if "features" in document else np.eye(S)
    d = features.shape[1]
    weights = document.get("initial_weights", [0.0] * d)
    mdp = MDP(
        name=_name(document["name"]),
        transition=transition,
        reward=_reward(document["reward"], (S, A, S)),
        discount=_discount(document["discount"], (S, A, S)),
        target=_shaped("target", _array("target", document["target"]), (S, A)),
        behaviour=_shaped("behaviour", _array("behaviour", document["behaviour"]), (S, A)),
        features=features,
        initial_weights=_initial_weights(weights, d),
    )
    return checked(mdp)


def checked(mdp: MDP) -> MDP:
    """The same MDP with probabilities rescaled to sum to 1 exactly, or a `UserError`."""
    mdp = dataclasses.replace(
        mdp,
        transition=_distributions("transition", mdp.transition),
        target=_distributions("target", mdp.target),
        behaviour=_distributions("behaviour", mdp.behaviour),
    )
    outside = np.argwhere((mdp.discount < 0) | (mdp.discount > 1))
    if len(outside):
        value = mdp.discount[tuple(outside[0])]
        place = f"from {_row(outside[0][:2])} to state {outside[0][2]}"
        raise UserError("discount", f"must lie in [0, 1], but is {value:g} {place}")
    for field in ("reward", "features", "initial_weights"):
        large = np.argwhere(np.abs(getattr(mdp, field)) > LARGEST)
        if len(large):
            raise UserError(field, f"row {large[0][0]} holds a number beyond {LARGEST:g}")
    _check_cover(mdp)
    _check_behaviour_chain(mdp)
    _check_target_ends(mdp)
    return mdp


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no field appears twice."""
    document = dict(pairs)
    if len(document) < len(pairs):
        twice = next(k for k, _ in pairs if sum(k == other for other, _ in pairs) > 1)
        raise UserError(_quoted(twice), "appears twice")
    return document


def _no_constant(constant: str) -> float:
    raise UserError("document", f"holds {constant}; every number must be finite")


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise UserError("name", "must be a text of printable characters")
    return name


def _array(field: str, value: Any) -> np.ndarray:
    """Nested lists of numbers as an array: not ragged, no booleans or texts, all finite."""
    if not isinstance(value, list):
        raise UserError(field, f"must be a list, not {_kind(value)}")
    shape, flat = [], [value]
    while flat and isinstance(flat[0], list):
        length = len(flat[0])
        for index, row in enumerate(flat):
            if not isinstance(row, list) or len(row) != length:
                where = _row(np.unravel_index(index, shape)) if shape else "the list"
                found = f"{len(row)} entries" if isinstance(row, list) else _kind(row)
                raise UserError(field, f"{where} holds {found} where others hold {length} entries")
        if length == 0:
            where = _row(np.unravel_index(0, shape)) if shape else "the list"
            raise UserError(field, f"{where} is empty")
        shape.append(length)
        if len(shape) > 3:
            raise UserError(field, "is nested more than three lists deep")
        flat = [entry for row in flat for entry in row]
    numbers = [_number(field, x, np.unravel_index(i, shape)) for i, x in enumerate(flat)]
    return np.array(numbers, dtype=np.float64).reshape(shape)


def _number(field: str, value: Any, index: tuple) -> float:
    """A finite float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(field, f"{_row(index)} is {_kind(value)}, not a number")
    number = documents.number(value)
    if not math.isfinite(number):
        raise UserError(field, f"{_row(index)} is not a finite number")
    return number


def _shaped(field: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape != shape:
        raise UserError(
            field, f"must have shape {_shape(shape)} like transition, not {_shape(array.shape)}"
        )
    return array


def _transition(value: Any) -> np.ndarray:
    """`[S, A, S]`; it decides S and A."""
    array = _array("transition", value)
    if array.ndim != 3 or array.shape[0] != array.shape[2]:
        raise UserError(
            "transition",
            f"must have shape [S][A][S], states and actions, not {_shape(array.shape)}",
        )
    return array


def _reward(value: Any, shape: tuple[int, int, int]) -> np.ndarray:
    """`[S][A]` or `[S][A][S]`."""
    array = _array("reward", value)
    if array.ndim == 3:
        return _shaped("reward", array, shape)
    return np.broadcast_to(_shaped("reward", array, shape[:2])[:, :, None], shape).copy()


def _discount(value: Any, shape: tuple[int, int, int]) -> np.ndarray:
    """A number, `[S]` on arrival, or `[S][A][S]`."""
    if not isinstance(value, list):
        return np.full(shape, _number("discount", value, ()))
    array = _array("discount", value)
    if array.ndim == 3:
        return _shaped("discount", array, shape)
    return np.broadcast_to(_shaped("discount", array, shape[2:])[None, None], shape).copy()


def _features(value: Any, states: int) -> np.ndarray:
    """`[S, d]`; it decides d."""
    array = _array("features", value)
    if array.ndim != 2 or len(array) != states:
        raise UserError(
            "features",
            f"must have shape [{states}][d], a row for each state of transition, "
            f"not {_shape(array.shape)}",
        )
    return array


def _initial_weights(value: Any, size: int) -> np.ndarray:
    """`[d]`."""
    array = _array("initial_weights", value)
    if array.shape != (size,):
        raise UserError(
            "initial_weights",
            f"must have shape [{size}], a weight for each feature, not {_shape(array.shape)}",
        )
    return array


def _distributions(field: str, array: np.ndarray) -> np.ndarray:
    """Rows that are probability distributions, rescaled by what rounding left."""
    negative = np.argwhere(array < 0)
    if len(negative):
        value = array[tuple(negative[0])]
        raise UserError(field, f"{_row(negative[0][:-1])} holds a negative number, {value:g}")
    totals = array.sum(-1)
    off = np.argwhere(~(np.abs(totals - 1.0) <= ROUNDING))
    if len(off):
        raise UserError(field, f"{_row(off[0])} sums to {totals[tuple(off[0])]:.9g}, not to 1")
    return array / totals[..., None]


def _check_cover(mdp: MDP) -> None:
    """μ acts wherever π does, and not vanishingly rarely."""
    for state, action in np.argwhere(mdp.target > mdp.behaviour * LARGEST_RATIO):
        how = "never takes" if mdp.behaviour[state, action] == 0 else "takes too rarely"
        raise UserError(
            "behaviour",
            f"{_row((state,))} {how} action {action}, which the target takes with "
            f"probability {mdp.target[state, action]:g}",
        )


def _check_behaviour_chain(mdp: MDP) -> None:
    """One recurrent class, and a stationary distribution that can be computed."""
    P = mdp.chain(mdp.behaviour)
    classes = chains.recurrent_classes(P)
    if len(classes) > 1:
        states = " and ".join(str(c.tolist()) for c in classes[:2])
        raise UserError(
            "behaviour",
            f"its chain has {len(classes)} recurrent classes, such as states {states}; "
            "it needs a single one to have a stationary distribution",
        )
    try:
        with np.errstate(all="ignore"):
            d = chains.stationary(P)
    except np.linalg.LinAlgError:
        d = np.full(mdp.num_states, np.nan)
    if not (np.abs(d @ P - d).max() < 1e-9 and d.min() >= 0):
        raise UserError(
            "transition", "mixes too slowly for the behaviour's stationary distribution"
        )


def _check_target_ends(mdp: MDP) -> None:
    """From every state π meets a discount below 1: I - P_π Γ is regular."""
    lost = mdp.target[:, :, None] * mdp.transition * (1.0 - mdp.discount)
    ends = np.flatnonzero(lost.sum((1, 2)) > 0)
    endless = ~chains.reachable(mdp.chain(mdp.target))[:, ends].any(1)
    if not np.any(endless):
        endless = ~(_lifetimes(mdp) < LARGEST_RATIO)
    if np.any(endless):
        raise UserError(
            "discount",
            f"from state {np.flatnonzero(endless)[0]} on, the target policy neither ends an "
            "episode nor is discounted, so it has no value",
        )


def _lifetimes(mdp: MDP) -> np.ndarray:
    """Expected discounted number of steps of π from each state, `[S]`; inf if beyond float64."""
    M = mdp.discounted(mdp.rho)
    try:
        steps = np.linalg.solve(np.eye(len(M)) - M, np.ones(len(M)))
    except np.linalg.LinAlgError:
        return np.full(len(M), np.inf)
    return np.where(steps > 0, steps, np.inf)


def _kind(value: Any) -> str:
    """What JSON calls it."""
    names = {bool: "a boolean", str: "a text", dict: "an object", list: "a list"}
    return "null" if value is None else names.get(type(value), "a number")


def _row(index: tuple | np.ndarray) -> str:
    """`row 3` or `row [3][0]`: a place counted from 0."""
    if len(index) == 0:
        return "the value"
    if len(index) == 1:
        return f"row {int(index[0])}"
    return "row " + "".join(f"[{int(i)}]" for i in index)


def _shape(shape: tuple[int, ...]) -> str:
    return "".join(f"[{size}]" for size in shape)


def _quoted(field: str) -> str:
    """A field's name from outside, safe and short to print."""
    return ascii(field)[:60]
