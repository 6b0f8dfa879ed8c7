"""What a run is: `TrainConfig`."""

import dataclasses
from typing import Annotated, Any

import tyro

from emphatic import envs
from emphatic.agent.surreal import AgentConfig
from emphatic.errors import UserError
from emphatic.runtime.actors import ActorsConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A run: what learns where, for how long, and what is written down."""

    env: str = "minatar/breakout"
    """Environment: catch, minatar/GAME, atari/GAME or gymnasium:ID (docs/environments.md)."""
    env_settings: tyro.conf.Suppress[dict[str, Any]] = dataclasses.field(default_factory=dict)
    """Settings of the environment, such as sticky_actions."""
    learner: Annotated[AgentConfig, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=AgentConfig
    )
    """The agent."""
    steps: int = 5_000_000
    """Environment steps, all streams together; over them the learning rate goes to 0. Paper:
    50,000,000 (200e6 frames, four a step)."""
    seed: int = 0
    """Of parameters, environments and actions."""
    log_every: int = 100
    """Updates that one line of metrics.jsonl sums up; they run as one call."""
    checkpoint_every: int = 2000
    """Updates between checkpoints, rounded up to a multiple of log_every."""
    keep: int = 3
    """Checkpoints kept."""
    devices: int = 1
    """Devices of each process that learn; the streams are spread over them."""
    actors: ActorsConfig = dataclasses.field(default_factory=ActorsConfig)
    """Environments on the host: who steps them."""
    record_episodes: bool = True
    """Write every episode's return and length to episodes.jsonl."""
    halt_after: int = 10
    """Stop when that many updates in a row had a gradient that was not finite."""

    def __post_init__(self):
        for field in ("steps", "log_every", "checkpoint_every", "keep", "devices", "halt_after"):
            if getattr(self, field) < 1:
                raise UserError(field, f"must be at least 1, not {getattr(self, field)}")
        if self.num_updates >= 2**31:
            raise UserError("steps", f"must make fewer than 2^31 updates, not {self.num_updates}")
        check_seed(self.seed)
        if self.learner.num_streams % self.devices:
            raise UserError(
                "num_streams",
                f"must be a multiple of the {self.devices} devices, not {self.learner.num_streams}",
            )

    @property
    def num_updates(self) -> int:
        """Updates that consume at least `steps`."""
        return -(-self.steps // self.learner.steps_per_update)


def resolved(config: TrainConfig) -> dict[str, Any]:
    """What names in a configuration stand for, as JSON data: the network, layer by layer.

    Without what only decides how it is computed: micro-batches, recomputation.
    """
    network = config.learner.network.architecture._asdict()
    del network["microbatch"], network["recompute"]
    layers = [{"kind": type(x).__name__.lower(), **x._asdict()} for x in network["torso"]]
    return {"network": {**network, "torso": layers, "dense": list(network["dense"])}}


def check_resolved(stored: Any, config: TrainConfig) -> None:
    """Whether the names in a run's configuration still stand for what they did; None: untold."""
    if stored is None:
        return
    before = stored.get("network") if isinstance(stored, dict) else None
    before, now = before if isinstance(before, dict) else {}, resolved(config)["network"]
    for field in {**now, **before}:
        was, is_now = before.get(field), now.get(field)
        if was != is_now:
            raise UserError(
                "network",
                f"{config.learner.network.name!r} had {field!r} {was!r} in the run, but has "
                f"{is_now!r} in this version of emphatic; go on with the version that made it",
            )


def check_seed(seed: int) -> None:
    """What a key can be made of, and an emulator started with."""
    if not 0 <= seed < 2**32:
        raise UserError("seed", f"must lie in [0, 2^32), not {seed}")


def cadence(env: str) -> dict[str, Any]:
    """Fields whose default is another for environments on the host.

    An update takes a thousand times as long there as one of MinAtar.
    """
    return {"log_every": 5, "checkpoint_every": 250} if envs.on_host(env) else {}
