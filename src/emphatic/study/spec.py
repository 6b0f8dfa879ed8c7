"""What a study is: `study.json`, and the configuration of each of its runs.

studies/NAME/
  study.json                        this, readable and editable
  runs/ENV-AGENT-seedK/             a run folder each (docs/runs.md)
  attempts/ENV-AGENT-seedK.jsonl    how each attempt at it began and ended
  logs/ENV-AGENT-seedK.txt          what its process said
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from emphatic import documents, envs
from emphatic.agent import agents, presets
from emphatic.agent.surreal import AgentConfig
from emphatic.errors import UserError
from emphatic.runtime import configs, files, settings
from emphatic.runtime.settings import TrainConfig

FORMAT = 1
MOST = {"runs": 100_000, "episodes": 1_000_000, "retries": 1000, "resources": 1_000_000}
"""More is a slip of the hand."""
HOME = Path("studies")
"""Where a study lies whose name is not a path."""

CONTROLS = {"surreal-constant": "netd-ace", "surreal-constant-mixed": "wetd-ace"}
"""Agents whose constant is the mean emphasis of another agent's runs on the same environment."""


class RunSpec(NamedTuple):
    """One run of a study."""

    environment: str
    agent: str
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.environment.replace('/', '-')}-{self.agent}-seed{self.seed}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resources:
    """What one run asks for."""

    cpus: float = 1.0
    """Cores, here and on a Ray cluster."""
    gpus: float = 0.0
    """Accelerators, of a Ray cluster; 0.25 lets four runs share one."""
    memory_gb: float | None = None
    """Host memory, of a Ray cluster; None: not reserved."""

    def __post_init__(self):
        for field in ("cpus", "gpus", "memory_gb"):
            value = getattr(self, field)
            if value is not None and not 0 <= value <= MOST["resources"]:
                problem = f"must lie in [0, {MOST['resources']:,}], but is {value}"
                raise UserError(f"resources.{field}", problem)

    @property
    def threads(self) -> int:
        """That XLA computes with. Part of what a run is: sums are rounded as they are divided."""
        return max(1, int(self.cpus))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Environments x agents x seeds, and what is the same for all."""

    environments: tuple[str, ...]
    """Names, written out."""
    agents: dict[str, int]
    """Agent to its number of seeds: 0, 1, ... ."""
    env_settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of the environments, beyond those their preset asks for."""
    preset: str | None = None
    """Of the agents; None: what suits each environment."""
    steps: int = 5_000_000
    """Environment steps of each run."""
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of a run's configuration by dotted name, such as learner.entropy_cost."""
    episodes: int = 100
    """Whole episodes each run is evaluated on after its training."""
    retries: int = 2
    """Times a run that failed is tried again before it is reported."""
    resources: Resources = dataclasses.field(default_factory=Resources)
    """Of each run."""

    def __post_init__(self):
        if not self.environments or not self.agents:
            missing = "agents" if self.environments else "environments"
            raise UserError(missing, "are none: a study needs an environment and an agent")
        for agent, seeds in self.agents.items():
            agents.agent(agent)
            if seeds < 1:
                raise UserError("seeds", f"of {agent} must be at least 1, not {seeds}")
        for field, least in {"steps": 1, "episodes": 1, "retries": 0}.items():
            if getattr(self, field) < least:
                raise UserError(field, f"must be at least {least}, not {getattr(self, field)}")
            if getattr(self, field) > (most := MOST.get(field, math.inf)):
                raise UserError(field, f"must be at most {most:,}, not {getattr(self, field)}")
        count = len(self.environments) * sum(self.agents.values())
        if count > MOST["runs"]:
            problem = f"make {count:,} runs; a study has at most {MOST['runs']:,}"
            raise UserError("seeds", problem)
        for control, other in CONTROLS.items():
            if control in self.agents and other not in self.agents:
                raise UserError("agents", f"{control} takes its constant from {other}: add it")
        if envs.expand(self.environments) != self.environments:
            raise UserError("environments", "must be names written out, each once")
        if len({run.name for run in self.runs}) < len(self.runs):
            raise UserError("environments", "two of them make runs of the same name")

    @property
    def runs(self) -> tuple[RunSpec, ...]:
        """Seed by seed, so that a study that is not through yet has something of everything."""
        return tuple(
            RunSpec(environment, agent, seed)
            for seed in range(max(self.agents.values()))
            for environment in self.environments
            for agent, seeds in self.agents.items()
            if seed < seeds
        )

    def run(self, name: str) -> RunSpec:
        """The run of that name."""
        for run in self.runs:
            if run.name == name:
                return run
        raise UserError("run", f"{name!r} is no run of this study, such as {self.runs[0].name}")

    def needs(self, run: RunSpec) -> tuple[RunSpec, ...]:
        """The runs that must be done before it: those a control takes its constant from."""
        other = CONTROLS.get(run.agent)
        seeds = range(self.agents[other]) if other else ()
        return tuple(RunSpec(run.environment, str(other), seed) for seed in seeds)


def config(study: Study, run: RunSpec, *, constant: float = 1.0) -> TrainConfig:
    """The configuration of a run, as `emphatic train` would make it, with the overrides."""
    preset = study.preset or presets.for_environment(run.environment)
    learner = presets.preset(preset, run.agent)
    plain = TrainConfig(
        env=run.environment,
        env_settings=presets.env_settings(preset, run.environment) | study.env_settings,
        learner=dataclasses.replace(learner, constant=constant),
        steps=study.steps,
        seed=run.seed,
    )
    data = configs.to_json(plain) | settings.cadence(run.environment)
    for field, value in study.overrides.items():
        _put(data, field, value)
    return configs.from_json(TrainConfig, data)


def checked(study: Study) -> Study:
    """The study, if every one of its runs could start: agents, settings, overrides."""
    made = set()
    for environment in study.environments:
        for agent in study.agents:
            one = config(study, RunSpec(environment, agent, 0))
            family = environment if ":" in environment else environment.split("/")[0]
            if (family, str(one.env_settings)) not in made:
                made.add((family, str(one.env_settings)))
                envs.make(environment, **one.env_settings)
    return study


def extended(
    study: Study,
    environments: Iterable[str] = (),
    agents: Iterable[str] = (),
    seeds: int | None = None,
) -> Study:
    """The study with more environments, agents or seeds; nothing is ever taken away.

    New agents get `seeds`, or as many as the study's least. Without new agents or environments,
    `seeds` is for all agents; with named ones it is for those.
    """
    named, environments = list(agents), envs.expand(environments)
    wanted = dict(study.agents)
    for agent in named or (study.agents if seeds is not None and not environments else ()):
        fallback = wanted.get(agent, min(study.agents.values()))
        wanted[agent] = max(fallback if seeds is None else seeds, wanted.get(agent, 0))
    more = tuple(dict.fromkeys((*study.environments, *environments)))
    return dataclasses.replace(study, environments=more, agents=wanted)


def locate(name: str | Path) -> Path:
    """The folder of a study: a path that exists or has a slash, else one under `studies`."""
    path = Path(name)
    if (path / "study.json").exists() or len(path.parts) != 1:
        return path
    return HOME / path


def read(folder: Path) -> Study:
    """The study at `folder`, all of study.json checked."""
    file = folder / "study.json"
    try:
        document = documents.decoded(file.read_bytes())
    except OSError:
        raise UserError("study", f"{folder} is no study: no study.json to read there") from None
    except ValueError as error:
        raise UserError("study", f"{file} is not JSON ({error})") from None
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise UserError("study", f"{file} is not of a study of this version")
    try:
        return of_json(document)
    except UserError as error:
        raise UserError(error.field, f"{error.problem} ({file})") from None


def of_json(document: Mapping[str, Any]) -> Study:
    """A study of JSON data; what is left out has its default."""
    defaults = {
        f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(Study)
        if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
    }
    defaults["resources"] = configs.to_json(Resources())
    if isinstance(given := document.get("agents"), Mapping):
        for agent, seeds in given.items():
            if type(seeds) is not int:
                raise UserError("seeds", f"of {agent} must be a whole number, not {seeds!r}")
    if isinstance(given := document.get("resources"), Mapping):
        document = {**document, "resources": {**defaults["resources"], **given}}
    return configs.from_json(Study, {**defaults, **document}, "study")


def create(folder: Path, study: Study) -> None:
    """A new study at `folder`, where there is nothing yet."""
    if (folder / "study.json").exists():
        raise UserError("study", f"{folder} exists; `emphatic study add` adds runs to it")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError("study", f"{folder} holds other things; choose another name")
    write(folder, study)


def write(folder: Path, study: Study) -> None:
    """study.json, whole or as it was."""
    data = json.dumps({"format": FORMAT, **configs.to_json(study)}, indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.write_whole(folder / "study.json", data.encode())
    except OSError as error:
        raise UserError("study", f"cannot write {folder}: {error.strerror or error}") from error


def override(field: str) -> str:
    """The dotted name of a field, given as in config.json or as an option of `train`."""
    name = field.lstrip("-").replace("-", "_")
    of_agent = {f.name for f in dataclasses.fields(AgentConfig)}
    return f"learner.{name}" if name.split(".")[0] in of_agent else name


_STATED = ("env", "env_settings", "steps", "seed", "learner.agent", "learner.constant")
"""Fields that a study says elsewhere, or finds itself."""


def _put(data: dict[str, Any], field: str, value: Any) -> None:
    """Set a field of nested JSON data that is there."""
    if field in _STATED:
        raise UserError(f"overrides.{field}", "is no override: the study itself decides it")
    *parents, last = field.split(".")
    inner: Any = data
    for parent in parents:
        inner = inner.get(parent) if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or last not in inner:
        raise UserError(f"overrides.{field}", "is no field of a run's configuration")
    inner[last] = value
