"""Promise 6: whatever is asked for, a mistake is exit code 2 and one sentence, before any compute.

Hypothesis makes the mistakes. A few of what it makes are none: those get as far as where
computing would begin (`Accepted`), and are counted as kept too, since nothing else may happen.
"""

import copy
import json
import re
import shutil
import warnings

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from promises import MODE, PROMISES

from emphatic import cli
from emphatic.commands import theory
from emphatic.evaluation import episodes
from emphatic.runtime import checkpoints, configs, runs, training
from emphatic.runtime.checkpoints import DamagedCheckpointWarning
from emphatic.runtime.settings import TrainConfig

SENTENCE = re.compile(r"emphatic: [^\n]+?: [^\n]+\n")


class Accepted(BaseException):
    """Computing would begin now."""


class StubRuntime:
    """Takes the place of what computes; a checkpoint is read and compared, as by the real one."""

    def init(self, key):
        raise Accepted

    def restore(self, checkpoint, key):
        checkpoint.restore({"w": np.zeros(3)})
        raise Accepted

    def close(self):
        pass


@pytest.fixture(autouse=True)
def _no_compute(monkeypatch):
    def accept(*_, **__):
        raise Accepted

    def create(_, path, config, **__):
        runs.refuse_existing(path, config)
        raise Accepted

    def found(folder, **options):
        if checkpoints.latest(folder, **options) is not None:
            raise Accepted

    def runtime_of(config, made, say):
        streams = made.learner.config.num_streams
        if streams % config.devices or config.devices > len(jax.devices()):
            return real(config, made, say)
        if config.learner.network.name != "mlp":
            jax.eval_shape(made.learner.init, jax.random.key(0))
        return StubRuntime()

    real = training.runtime_of
    monkeypatch.setattr(training, "runtime_of", runtime_of)
    monkeypatch.setattr(runs.Run, "create", classmethod(create))
    monkeypatch.setattr(episodes, "latest", found)
    monkeypatch.setattr(theory, "_findings", accept)


@pytest.fixture
def asked(tmp_path, monkeypatch, capsys):
    """`asked(argv)`: what came of it, "refused" or "accepted"; anything else fails."""
    monkeypatch.chdir(tmp_path)

    def ask(argv):
        before = contents(tmp_path)
        capsys.readouterr()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DamagedCheckpointWarning)
                cli.main(argv)
        except Accepted:
            return "accepted"
        except SystemExit as stop:
            output = capsys.readouterr()
            assert (stop.code, argv) == (2, argv), output  # noqa: PT017
            assert SENTENCE.fullmatch(output.err), (argv, output.err)
            assert "Traceback" not in output.out + output.err
            assert contents(tmp_path) == before, argv
            return "refused"
        raise AssertionError(f"{argv} was neither refused nor accepted")

    return ask


def contents(folder):
    """Every file there and what it holds; a lock holds nothing and says nothing."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lock")
    return {str(path): path.read_bytes() for path in files}


def held(tally, part, strategy, check):
    """`check` on as many draws as the part has cases; at least nine of ten must be mistakes."""
    found = []

    @settings(
        max_examples=PROMISES[6].parts[part][MODE == "full"],
        deadline=None,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(draw):
        found.append(check(draw))

    run()
    for case in tally.cases(6, part):
        assert case < len(found)
    assert found.count("refused") >= 0.8 * len(found), f"{found.count('accepted')} accepted"


# Options of `emphatic train`.

BAD = {
    int: ["0", "-1", "1.5", "x", "", "nan", "inf", "1e3", "99999999999999999999", "0x10", "³"],
    float: ["-1", "x", "", "nan", "-inf", "1,5", "--"],
}
INTEGERS = ["--n", "--unroll-length", "--num-streams", "--steps", "--log-every"]
INTEGERS += ["--checkpoint-every", "--keep", "--devices", "--halt-after", "--actors.threads"]
FLOATS = ["--clip-rho", "--clip-pg-rho", "--lambda-", "--value-cost", "--entropy-cost"]
FLOATS += ["--optimiser.learning-rate", "--optimiser.decay", "--optimiser.epsilon"]
FLOATS += ["--optimiser.max-gradient-norm", "--policy-cost", "--actors.timeout"]
IMPOSSIBLE = [
    ["--agent", "netd", "--preset", "paper-mixed"],
    ["--agent", "wetd", "--preset", "paper-fixed"],
    ["--agent", "wetd", "--n", "7"],
    ["--agent", "netd", "--beta", "0.9"],
    ["--agent", "netd", "--eta", "0.5"],
    ["--agent", "nevtrace", "--clip-trace", "2"],
    ["--agent", "surreal", "--constant", "2"],
    ["--agent", "surreal", "--bound", "3"],
    ["--agent", "netd", "--bound", "0.5"],
    ["--agent", "netd", "--discounts", "0.9"],
    ["--discounts", "1.0", "0.9"],
    ["--discounts", "0.99999999999", "0.9"],
    ["--discounts", "-0.1", "0.9"],
    ["--discounts"],
    ["--devices", "3"],
    ["--devices", "2", "--num-streams", "3"],
    ["--devices", "64", "--num-streams", "64"],
    ["--n", "100000000"],
    ["--unroll-length", "100000000"],
    ["--steps", "9999999999999999"],
    ["--num-streams", "1000000000"],
    ["--seed", "-1"],
    ["--seed", "4294967296"],
    ["--network.name", "nature"],
    ["--network.head-hidden", "0"],
    ["--network.head-hidden", "1000000000"],
    ["--settings", "balls=0"],
    ["--settings", "balls=true"],
    ["--settings", "balls=[1]"],
    ["--settings", "=3"],
    ["--settings", "wind=1"],
    ["--settings", "time_limit=0"],
    ["--settings", "time_limit=-5"],
    ["--reward", "doubled"],
    ["--reduction", "max"],
    ["--preset", "huge"],
    ["--agent", "sarsa"],
    ["--env", "minatar/tetris"],
    ["--env", "atari/"],
    ["--env", "gymnasium:"],
    ["--env", "gymnasium:Nothing-v7"],
    ["--env", "gymnasium:a:b:c"],
    ["--env", ""],
    ["--resume", "nowhere"],
    ["--resume", ""],
    ["--constant-from", "nowhere", "--agent", "surreal-constant"],
    ["--coordinator", "here"],
    ["--process", "one"],
    ["--out", "file"],
    ["--out", "taken"],
]

letters = st.text("abcdefghijklmnopqrstuvwxyz-._=0123456789", min_size=1, max_size=12)
option_mistakes = st.one_of(
    st.tuples(st.sampled_from(INTEGERS), st.sampled_from(BAD[int])).map(list),
    st.tuples(st.sampled_from(FLOATS), st.sampled_from(BAD[float])).map(list),
    st.sampled_from([*INTEGERS, *FLOATS]).map(lambda flag: [flag]),
    st.tuples(letters.map("--zz-{}".format), letters).map(list),
    letters.map(lambda word: [f"zz{word}"]),
    st.text(min_size=1, max_size=6).map(lambda word: ["--agent", f"z{word}"]),
)
BASES = [
    ["--env", "catch"],
    ["--env", "catch", "--agent", "wetd-ace"],
    ["--env", "catch", "--n", "2"],
]


def test_options_of_train(tally, asked, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("mine")
    for mistake in IMPOSSIBLE:
        assert asked(["train", "--env", "catch", *mistake]) == "refused", mistake
    draws = st.tuples(st.sampled_from(BASES), option_mistakes)
    held(tally, "options", draws, lambda draw: asked(["train", *draw[0], *draw[1]]))


# Documents: what a run, an MDP and a study are made of.

words = st.text(max_size=3) | st.sampled_from(["inf", "-inf", "nan", "netd", "catch", "\x00", "é"])
numbers = (
    st.integers()
    | st.floats(allow_nan=True)
    | st.sampled_from([0, 1, -1, 10**400, 2**31, 2**63, 1e-300, 1e300, -0.0, True, False])
)
values = st.recursive(
    st.none() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@st.composite
def corrupted(draw, made):
    """A document of which a part is replaced, removed, repeated or added; or no document."""
    made = copy.deepcopy(made)
    for _ in range(draw(st.integers(1, 3))):
        corrupt(draw, made)
    text = json.dumps(made)
    broken = draw(st.integers(0, 9))
    if broken == 0:
        return text[: draw(st.integers(0, len(text) - 2))].encode()
    if broken == 1:
        return draw(st.binary(max_size=20) | st.sampled_from([b"[" * 100_000, b"null", b'""']))
    return text.encode()


def corrupt(draw, made):
    if not made:
        return
    parent, key = made, draw(st.sampled_from(sorted(made)))
    while isinstance(parent[key], dict | list) and parent[key] and draw(st.integers(0, 3)):
        parent = parent[key]
        inside = sorted(parent) if isinstance(parent, dict) else range(len(parent))
        key = draw(st.sampled_from(list(inside)))
    how = draw(st.sampled_from(["replace", "replace", "remove", "repeat", "add"]))
    if how == "remove":
        del parent[key]
    elif how == "repeat" and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    elif how == "add" and isinstance(parent, dict):
        parent[draw(st.text(max_size=5))] = draw(values)
    else:
        parent[key] = draw(values)


def run_document():
    config = configs.to_json(TrainConfig(env="catch", learner=learner_of_catch()))
    environment = {"name": "catch", "balls": 1}
    fields = {"format": 1, "config": config, "environment": environment, "seed": 0}
    return json.loads(json.dumps(fields | {"command": [], "created": "", "versions": {}}))


def learner_of_catch():
    from emphatic.agent import presets

    return presets.preset("catch", "netd-ace")


def mdp_document():
    return {
        "name": "two",
        "transition": [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]],
        "reward": [[1.0, 0.0], [0.0, -1.0]],
        "discount": [0.9, 0.5],
        "target": [[1.0, 0.0], [0.5, 0.5]],
        "behaviour": [[0.5, 0.5], [0.75, 0.25]],
        "features": [[1.0, 0.0], [0.0, 1.0]],
        "initial_weights": [1.0, -1.0],
    }


def a_run(folder):
    """A run with logs and two checkpoints, without the hours."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(run_document()))
    run, _ = runs.Run.resume(folder)
    with run:
        for step in (1, 2):
            run.metrics.append({"update": step, "emphasis": [1.0, 2.0, 2.0]})
            run.save(step, {"w": np.full(3, float(step))}, {"skipped_in_row": 0})


DAMAGE = ["no checkpoints", "no logs", "short log", "garbled metrics", "other metrics"]
DAMAGE += ["hostile manifest", "another tree", "files for folders"]


def damage(folder, how, garbage):
    """A run folder that cannot be gone on with, nor evaluated where that needs the part."""
    saved = sorted((folder / "checkpoints").iterdir())
    if how == "no checkpoints":
        for path in saved:
            (path / "arrays.bin").write_bytes(garbage)
    elif how == "no logs":
        for name in runs.LOGS:
            (folder / name).unlink()
    elif how == "short log":
        (folder / "metrics.jsonl").write_bytes(b"{}")
    elif how == "garbled metrics":
        (folder / "metrics.jsonl").write_bytes(b"{" + garbage + b"\n")
    elif how == "other metrics":
        (folder / "metrics.jsonl").write_bytes(b'{"emphasis":3}\n')
    elif how == "hostile manifest":
        for path in saved:
            manifest = json.loads((path / "manifest.json").read_bytes())
            manifest.pop("sha256")
            manifest["extra"] = {"log_sizes": garbage.decode("latin-1")}
            (path / "manifest.json").write_bytes(checkpoints._encode(manifest))
    elif how == "another tree":
        shutil.rmtree(folder / "checkpoints")
        sizes = dict.fromkeys(runs.LOGS, 0)
        extra = {"log_sizes": sizes, "skipped_in_row": 0}
        tree = {"x": np.zeros(2)}
        checkpoints.save(folder / "checkpoints", step=3, tree=tree, extra=extra)
    else:
        shutil.rmtree(folder / "checkpoints")
        (folder / "checkpoints").write_bytes(garbage)


NEEDS = {"no logs": "train", "short log": "train", "another tree": "train"}
NEEDS |= {"hostile manifest": "train", "garbled metrics": "constant", "other metrics": "constant"}
RUN_VERBS = {
    "train": ["train", "--resume", "run"],
    "evaluate": ["evaluate", "run"],
    "watch": ["watch", "run"],
    "constant": [
        *["train", "--env", "catch", "--agent", "surreal-constant"],
        *["--constant-from", "run"],
    ],
}
documents = st.one_of(
    st.tuples(
        st.just("config"),
        corrupted(run_document()),
        st.sampled_from(["train", "evaluate", "watch"]),
    ),
    st.tuples(st.just("mdp"), corrupted(mdp_document()), st.just("theory")),
    st.tuples(
        st.just("damage"),
        st.sampled_from(DAMAGE),
        st.binary(min_size=1, max_size=8),
        st.sampled_from(["train", "evaluate", "watch"]),
    ),
)


@pytest.mark.slow
def test_documents(tally, asked, tmp_path):
    a_run(tmp_path / "template")

    def check(draw):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(tmp_path / "template", tmp_path / "run")
        kind, what, *rest = draw
        if kind == "mdp":
            (tmp_path / "mdp.json").write_bytes(what)
            return asked(["theory", "mdp.json", "--n", "1"])
        if kind == "config":
            (tmp_path / "run" / "config.json").write_bytes(what)
            return asked(RUN_VERBS[rest[0]])
        garbage, verb = rest
        damage(tmp_path / "run", what, garbage)
        return asked(RUN_VERBS[NEEDS.get(what, verb)])

    held(tally, "documents", documents, check)
