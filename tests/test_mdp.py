"""Reading MDPs: what is right comes back, what is wrong is one sentence."""

import copy
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emphatic import chains, mdp, theory
from emphatic.diagnostics import problems
from emphatic.errors import UserError


def document() -> dict:
    """Three states, two actions, everything given; valid."""
    return {
        "name": "three",
        "transition": [
            [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
            [[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]],
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        ],
        "reward": [[1.0, 0.0], [0.0, -1.0], [0.5, 2.0]],
        "discount": [0.9, 0.0, 1.0],
        "target": [[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]],
        "behaviour": [[0.5, 0.5], [0.75, 0.25], [0.5, 0.5]],
        "features": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
        "initial_weights": [1.0, -1.0],
    }


def changed(field: str, *place: int, to) -> dict:
    """The document with one entry replaced."""
    made = document()
    parent, key = made, field
    for index in place:
        parent, key = parent[key], index
    parent[key] = to
    return made


def test_reads_what_is_written():
    m = mdp.from_json(json.dumps(document()))
    assert (m.num_states, m.num_actions, m.num_features) == (3, 2, 2)
    np.testing.assert_array_equal(m.reward[1, 1], [-1, -1, -1])
    np.testing.assert_array_equal(m.discount[2, 0], [0.9, 0.0, 1.0])
    again = mdp.from_json(mdp.to_json(m))
    for field in ("transition", "reward", "discount", "target", "behaviour", "features"):
        np.testing.assert_array_equal(getattr(again, field), getattr(m, field))


def test_optional_fields_and_forms():
    short = {k: v for k, v in document().items() if k not in ("features", "initial_weights")}
    m = mdp.from_dict(short | {"discount": 0.5})
    np.testing.assert_array_equal(m.features, np.eye(3))
    np.testing.assert_array_equal(m.initial_weights, np.zeros(3))
    assert np.all(m.discount == 0.5)


def test_load(tmp_path):
    path = tmp_path / "three.json"
    path.write_text(json.dumps(document()))
    assert mdp.load(path).name == "three"


def test_rounded_probabilities_are_rescaled():
    m = mdp.from_dict(changed("transition", 0, 0, to=[0.3333333, 0.3333333, 0.3333333]))
    assert m.transition[0, 0].sum() == pytest.approx(1.0, abs=1e-15)


MISSHAPEN = (
    (changed("transition", 1, 0, to=[-0.5, 0.75, 0.75]), "transition", "row [1][0] holds a neg"),
    (changed("transition", 2, to=7), "transition", "row 2 holds a number"),
    (changed("transition", to=[]), "transition", "empty"),
    (changed("transition", to=[[1.0]]), "transition", "[S][A][S]"),
    (changed("transition", to=[[[[1.0]]]]), "transition", "deep"),
    (changed("reward", 1, 1, to="x"), "reward", "row [1][1] is a text"),
    (changed("reward", 1, 1, to=True), "reward", "row [1][1] is a boolean"),
    (changed("reward", 1, 1, to=None), "reward", "row [1][1] is null"),
    (changed("reward", 1, 1, to=10**400), "reward", "row [1][1] is not a finite"),
    (changed("reward", 1, 1, to=1e200), "reward", "row 1 holds a number beyond"),
    (changed("discount", 1, to=1.5), "discount", "[0, 1]"),
    (changed("discount", to=-0.1), "discount", "[0, 1]"),
    (changed("features", to=[1.0, 2.0, 3.0]), "features", "shape [3][d], a row for each state"),
    (changed("name", to=3), "name", "printable"),
    (document() | {"rewards": 1}, "'rewards'", "no field"),
    ({k: v for k, v in document().items() if k != "target"}, "target", "missing"),
)
"""Documents that the schema refuses, the field that the sentence names, and words of it."""

SENSELESS = (
    (changed("transition", 1, 0, to=[0.0, 0.25, 0.7]), "transition", "row [1][0] sums to 0.95"),
    (changed("transition", 1, 0, to=[1.0, 0.0]), "transition", "row [1][0] holds 2 entries"),
    (changed("discount", to=[0.9, 0.9]), "discount", "shape [3]"),
    (changed("discount", to=1), "discount", "from state 0 on"),
    (changed("target", 2, to=[0.5, 0.4]), "target", "row 2 sums to 0.9"),
    (changed("behaviour", 1, to=[1.0, 0.0]), "behaviour", "row 1 never takes action 1"),
    (changed("behaviour", 1, to=[1.0, 1e-30]), "behaviour", "row 1 takes too rarely action 1"),
    (changed("features", to=[[1.0], [2.0]]), "features", "[3][d], a row for each state"),
    (changed("initial_weights", to=[1.0]), "initial_weights", "[2], a weight for each feature"),
    (changed("name", to="\x1b[31m"), "name", "printable"),
)
"""The same of documents whose form is right: the schema says that it leaves these to the reader."""


@pytest.mark.parametrize(("broken", "field", "words"), MISSHAPEN + SENSELESS)
def test_a_mistake_gets_a_sentence(broken, field, words):
    with pytest.raises(UserError) as error:
        mdp.from_json(json.dumps(broken))
    assert error.value.field == field
    assert words in error.value.problem
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("leak", [0.0, 1e-300, 1e-17])
def test_a_target_that_hardly_ends(leak):
    """Undiscounted but for a transition as good as never taken: no value, whatever rounding."""
    made = document() | {"discount": [1.0, 1.0, 0.0], "target": [[0.1, 0.9]] * 3}
    made["transition"] = [[[1.0, 0.0, leak]] * 2, [[0.7, 0.3, 0.0]] * 2, [[1.0, 0.0, 0.0]] * 2]
    made["behaviour"] = [[0.3, 0.7], [0.6, 0.4], [0.7, 0.3]]
    with pytest.raises(UserError, match="from state 0 on"):
        mdp.from_dict(made)


def test_several_recurrent_classes():
    stay = [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]
    two = document() | {"transition": stay, "reward": [[0, 0]] * 2, "discount": 0.9}
    two |= {"target": [[0.5, 0.5]] * 2, "behaviour": [[0.5, 0.5]] * 2}
    del two["features"], two["initial_weights"]
    with pytest.raises(UserError, match="behaviour: its chain has 2 recurrent classes"):
        mdp.from_dict(two)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("{", "not JSON"),
        ("[1, 2]", "JSON object"),
        ("[" * 100_000, "deep"),
        ('{"reward": NaN}', "NaN"),
        ('{"reward": 1, "reward": 2}', "twice"),
        ('{"reward": 1' + "0" * 5000 + "}", "digits"),
    ],
)
def test_texts_that_are_no_document(text, words):
    with pytest.raises(UserError, match=words):
        mdp.from_json(text)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        mdp.load(tmp_path / "missing.json")
    with pytest.raises(UserError, match="cannot be read"):
        mdp.load(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="UTF-8"):
        mdp.load(tmp_path / "binary.json")


def test_the_schema_takes_what_the_reader_takes_and_sees_what_is_misshapen():
    """As a validator of its draft reads it; the reader takes or refuses the same documents."""
    schema = json.loads(mdp.schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    valid = jsonschema.Draft202012Validator(schema).is_valid
    example = Path(__file__).parent.parent / "examples" / "my_mdp.json"
    assert valid(document())
    assert valid(json.loads(example.read_text(encoding="utf-8")))
    for make in problems.named().values():
        assert valid(json.loads(mdp.to_json(make())))
    for broken, field, words in MISSHAPEN:
        assert not valid(broken), (field, words)
    for broken, field, words in SENSELESS:
        assert valid(broken), (field, words)


def test_schema_names_the_readers_fields():
    """The published schema and the reader know the same fields and the same limits."""
    schema = json.loads(mdp.schema())
    assert set(schema["properties"]) == set(document())
    assert set(schema["required"]) == set(document()) - {"features", "initial_weights"}
    assert schema["$defs"]["number"]["maximum"] == mdp.LARGEST
    for field in schema["required"]:
        with pytest.raises(UserError, match=f"{field}: is missing"):
            mdp.from_dict({k: v for k, v in document().items() if k != field})


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e-16, 1 - 1e-16, 1e300, 0.5])
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def corrupt(draw, made):
    """Replaces, removes or repeats a random part of a document, or adds one."""
    parent, key = made, draw(st.sampled_from(sorted(made)))
    while isinstance(parent[key], list) and parent[key] and draw(st.integers(0, 3)):
        parent, key = parent[key], draw(st.integers(0, len(parent[key]) - 1))
    how = draw(st.sampled_from(["replace", "remove", "repeat", "add"]))
    if how == "remove":
        del parent[key]
    elif how == "repeat" and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    elif how == "add" and isinstance(parent, dict):
        parent[draw(st.text(max_size=5))] = draw(values)
    else:
        parent[key] = draw(values)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_corrupted_documents_are_user_errors_or_usable(data):
    """Never another exception; and what is accepted can be analysed to finite numbers."""
    made = document()
    for _ in range(data.draw(st.integers(1, 3))):
        if made:
            corrupt(data.draw, made)
    try:
        m = mdp.from_json(json.dumps(made))
    except UserError:
        return
    for name in ("td", "netd", "exact-wevtrace"):
        analysis = theory.analyse(m, name, 2)
        assert np.isfinite(analysis.key).all()
        assert np.isfinite(analysis.A).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_chains_by_long_runs(seed, size):
    """Recurrence and d against powers of the (lazy) chain."""
    rng = np.random.default_rng(seed)
    P = rng.random((size, size)) * (rng.random((size, size)) < 0.3) + np.eye(size) * 0.1
    P /= P.sum(1, keepdims=True)
    late = np.linalg.matrix_power((P + np.eye(size)) / 2, 2**30)
    np.testing.assert_array_equal(chains.recurrent(P), (late > 1e-9).any(0))
    classes = chains.recurrent_classes(P)
    assert sorted(s for c in classes for s in c) == np.flatnonzero(chains.recurrent(P)).tolist()
    if len(classes) == 1:
        np.testing.assert_allclose(chains.stationary(P), late[0], atol=1e-6)
