"""What a study is: its runs, their configurations, its file, and mistakes in it."""

import json

import pytest

from emphatic import cli
from emphatic.agent import presets as agent_presets
from emphatic.commands import train
from emphatic.errors import UserError
from emphatic.study import presets, spec
from emphatic.study.spec import RunSpec, Study

TOY = Study(environments=("catch",), agents={"surreal": 2, "netd-ace": 1}, steps=6400)


def command(*arguments):
    cli.main(["study", *map(str, arguments)])


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_papers_study_is_the_papers():
    """57 games, 3 seeds, four agents, 200 million frames at four a step, colour screens."""
    study = presets.atari57()
    assert len(study.environments) == 57
    assert study.agents == {"surreal": 3, "netd": 3, "netd-ace": 3, "nevtrace": 3}
    assert len(study.runs) == len({run.name for run in study.runs}) == 684
    config = spec.config(study, study.run("atari-pong-netd-ace-seed2"))
    assert 4 * config.steps == 200_000_000
    assert config.env_settings == {"pixels": "rgb210"}
    assert config.learner == agent_presets.paper_fixed("netd-ace")
    assert config.seed == 2


def test_minatar5_has_ten_seeds_where_the_question_is():
    study = presets.minatar5()
    assert len(study.environments) == 5
    assert {a: n for a, n in study.agents.items() if n == 10} == {"surreal": 10, "netd-ace": 10}
    assert len(study.agents) == 9
    assert len(study.runs) == 5 * (2 * 10 + 7 * 5)
    assert study.steps == 5_000_000
    for run in study.runs[:9]:
        assert spec.config(study, run).learner == agent_presets.minatar(run.agent)


@pytest.mark.parametrize(
    ("env", "agent"),
    [("catch", "netd-ace"), ("minatar/asterix", "wetd"), ("atari/pong", "surreal")],
)
def test_a_run_is_configured_as_train_configures_it(env, agent):
    """Presets, and the defaults that depend on the environment."""
    study = Study(environments=(env,), agents={agent: 4}, steps=12_345)
    defaults = train._defaults(["--env", env, "--agent", agent])
    wanted = {"steps": 12_345, "seed": 3}
    config = spec.config(study, RunSpec(env, agent, 3))
    for field in ("env", "env_settings", "learner", "log_every", "checkpoint_every", "keep"):
        wanted[field] = getattr(defaults, field)
    assert {field: getattr(config, field) for field in wanted} == wanted


def test_overrides_reach_the_configuration():
    overrides = {"learner.optimiser.learning_rate": 0.5, "log_every": 7, "learner.n": 3}
    study = Study(environments=("catch",), agents={"netd": 1}, overrides=overrides)
    config = spec.config(study, study.runs[0])
    assert config.learner.optimiser.learning_rate == 0.5
    assert config.learner.n == 3
    assert config.log_every == 7
    assert spec.override("--entropy-cost") == "learner.entropy_cost"
    assert spec.override("optimiser.learning-rate") == "learner.optimiser.learning_rate"
    assert spec.override("log-every") == "log_every"


def test_runs_come_seed_by_seed_with_names_of_folders():
    names = [run.name for run in TOY.runs]
    assert names == ["catch-surreal-seed0", "catch-netd-ace-seed0", "catch-surreal-seed1"]
    assert RunSpec("minatar/space_invaders", "wetd", 1).name == "minatar-space_invaders-wetd-seed1"


def test_a_control_needs_every_run_of_what_it_controls():
    study = Study(
        environments=("catch", "minatar/asterix"), agents={"netd-ace": 3, "surreal-constant": 1}
    )
    needed = study.needs(RunSpec("catch", "surreal-constant", 0))
    assert needed == tuple(RunSpec("catch", "netd-ace", seed) for seed in range(3))
    assert study.needs(RunSpec("catch", "netd-ace", 0)) == ()


@pytest.mark.parametrize(
    ("added", "agents", "runs"),
    [
        ({"agents": ("wetd",)}, {"surreal": 2, "netd-ace": 1, "wetd": 1}, 4),
        ({"agents": ("wetd",), "seeds": 3}, {"surreal": 2, "netd-ace": 1, "wetd": 3}, 6),
        ({"seeds": 3}, {"surreal": 3, "netd-ace": 3}, 6),
        ({"agents": ("netd-ace",), "seeds": 2}, {"surreal": 2, "netd-ace": 2}, 4),
        ({"seeds": 1}, {"surreal": 2, "netd-ace": 1}, 3),
        ({"environments": ("minatar/asterix",)}, {"surreal": 2, "netd-ace": 1}, 6),
    ],
)
def test_adding_takes_nothing_away(added, agents, runs):
    study = spec.extended(TOY, **added)
    assert study.agents == agents
    assert len(study.runs) == runs
    assert set(TOY.runs) <= set(study.runs)


def test_a_study_goes_to_its_file_and_back(tmp_path):
    study = presets.atari57()
    spec.create(tmp_path / "s", study)
    assert spec.read(tmp_path / "s") == study


def test_what_is_left_out_of_a_file_has_its_default(tmp_path):
    document = {"format": 1, "environments": ["catch"], "agents": {"surreal": 2}}
    (tmp_path / "study.json").write_text(json.dumps(document | {"resources": {"gpus": 1}}))
    study = spec.read(tmp_path)
    assert study == Study(
        environments=("catch",), agents={"surreal": 2}, resources=spec.Resources(gpus=1.0)
    )


def test_new_and_add_write_what_was_said(here, capsys):
    command("new", "toy", "--envs", "catch", "--agents", "surreal", "netd", "--seeds", 2)
    study = spec.read(here / "studies" / "toy")
    assert study.agents == {"surreal": 2, "netd": 2}
    command("add", "toy", "--agents", "netd", "--seeds", 3, "--envs", "minatar/asterix")
    study = spec.read(here / "studies" / "toy")
    assert study.agents == {"surreal": 2, "netd": 3}
    assert study.environments == ("catch", "minatar/asterix")
    assert "6 more runs, 10 in all" in capsys.readouterr().out
    command(
        "new",
        here / "elsewhere" / "mine",
        "--like",
        "minatar5",
        "--seeds",
        1,
        "--steps",
        10,
        "--envs",
        "minatar/freeway",
    )
    study = spec.read(here / "elsewhere" / "mine")
    assert set(study.agents.values()) == {1}
    assert study.steps == 10
    assert study.preset == "minatar"


def test_names_are_for_scripts(here, capsys):
    spec.create(here / "studies" / "toy", TOY)
    command("status", "toy", "--names")
    assert capsys.readouterr().out.split() == [run.name for run in TOY.runs]


NEW = ["new", "toy", "--envs", "catch", "--agents", "surreal"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["new", "toy", "--agents", "surreal"], "envs"),
        (["new", "toy", "--envs", "catch"], "agents"),
        (["new", "toy", "--like", "atari58"], "like"),
        (["new", "toy", "--envs", "atari/tetris", "--agents", "surreal"], "env"),
        (["new", "toy", "--envs", "nothing/*", "--agents", "surreal"], "env"),
        (["new", "toy", "--envs", "catch", "--agents", "sarsa"], "agent"),
        (["new", "toy", "--envs", "catch", "--agents", "surreal-constant"], "agents"),
        ([*NEW, "--seeds", "0"], "seeds"),
        ([*NEW, "--steps", "0"], "steps"),
        ([*NEW, "--retries", "-1"], "retries"),
        ([*NEW, "--gpus", "-1"], "resources.gpus"),
        ([*NEW, "--preset", "huge"], "preset"),
        ([*NEW, "--settings", "wind=1"], "wind"),
        ([*NEW, "--settings", "wind"], "settings"),
        ([*NEW, "--set", "colour=1"], "overrides.colour"),
        ([*NEW, "--set", "entropy_cost=much"], "config.learner.entropy_cost"),
        ([*NEW, "--set", "seed=4"], "overrides.seed"),
        ([*NEW, "--set", "beta=0.5"], "beta"),
        ([*NEW, "--seeds", "1000000000"], "seeds"),
        ([*NEW, "--episodes", "1" + "0" * 400], "episodes"),
        ([*NEW, "--gpus", "1e300"], "resources.gpus"),
        ([*NEW, "--set", "entropy_cost=" + "[" * 100_000], "config.learner.entropy_cost"),
        ([*NEW, "--set", "entropy_cost=1" + "0" * 400], "entropy_cost"),
        ([*NEW, "--settings", "name=3"], "name"),
        (["plan", "toy"], "study"),
        (["run", "toy"], "study"),
        (["status", "toy"], "study"),
        (["add", "toy", "--seeds", "2"], "study"),
        (["work", "toy", "catch-surreal-seed0"], "study"),
        (["plan", "atari57", "--price", "abacus=1"], "price"),
        (["plan", "atari57", "--price", "h200=free"], "price"),
        (["plan", "atari57", "--utilisation", "v5e-8=1.5"], "utilisation"),
        (["go", "toy"], "study"),
    ],
)
def test_mistakes_get_one_sentence(arguments, field, here, capsys):
    """Exit code 2, the field named, nothing written, before any compute."""
    with pytest.raises(SystemExit) as stop:
        command(*arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"emphatic: {field}: ")
    assert "\n" not in error
    assert list(here.iterdir()) == []


STICKY = {"sticky_actions": 10**400}
GOOD = {"format": 1, "environments": ["catch"], "agents": {"surreal": 1}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"format": 2}, "study"),
        ({"colour": 1}, "study.colour"),
        ({"steps": "many"}, "study.steps"),
        ({"steps": True}, "study.steps"),
        ({"environments": "catch"}, "study.environments"),
        ({"environments": []}, "environments"),
        ({"environments": ["minatar/*"]}, "environments"),
        ({"environments": ["pong"]}, "env"),
        ({"environments": [3]}, "study.environments[0]"),
        ({"agents": {}}, "agents"),
        ({"agents": ["surreal"]}, "study.agents"),
        ({"agents": {"surreal": "5"}}, "seeds"),
        ({"agents": {"surreal": True}}, "seeds"),
        ({"agents": {"sarsa": 1}}, "agent"),
        ({"overrides": 3}, "study.overrides"),
        ({"overrides": {"learner.n.x": 3}}, "overrides.learner.n.x"),
        ({"overrides": {"learner": 3}}, "config.learner"),
        ({"resources": {"cpus": "all"}}, "study.resources.cpus"),
        ({"resources": []}, "study.resources"),
        ({"env_settings": {"balls": "two"}}, "balls"),
        ({"environments": ["minatar/asterix"], "env_settings": STICKY}, "sticky_actions"),
        ({"env_settings": {"name": "pong"}}, "name"),
        ({"agents": {"surreal": 1_000_000_000}}, "seeds"),
        ({"steps": 10**400}, "steps"),
        ({"resources": {"cpus": 10**400}}, "resources.cpus"),
        ({"resources": {"memory_gb": 1e300}}, "resources.memory_gb"),
        ({"retries": 10**400}, "retries"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_damaged_file_gets_one_sentence(verb, change, field, here, capsys):
    folder = here / "studies" / "toy"
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps(GOOD | change))
    with pytest.raises(SystemExit) as stop:
        command(verb, "toy")
    assert stop.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"emphatic: {field}: ")
    assert "\n" not in error
    assert [file.name for file in folder.iterdir()] == ["study.json"]


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"steps": NaN}'])
def test_a_file_that_is_no_json_is_named(here, text):
    (here / "study.json").write_text(text)
    with pytest.raises(UserError, match="is not JSON"):
        spec.read(here)


def test_nothing_is_written_over(here, capsys):
    command(*NEW)
    before = (here / "studies" / "toy" / "study.json").read_bytes()
    (here / "studies" / "other").mkdir()
    (here / "studies" / "other" / "thesis.tex").touch()
    for name in ("toy", "other"):
        with pytest.raises(SystemExit) as stop:
            command(NEW[0], name, *NEW[2:], "--seeds", 3)
        assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        command("add", "toy", "--agents", "surreal")
    assert stop.value.code == 2
    assert "nothing to add" in capsys.readouterr().err
    assert (here / "studies" / "toy" / "study.json").read_bytes() == before
