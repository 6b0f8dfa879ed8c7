"""What computes a study: machines as data, each figure with its source.

The rate a network reaches is measured where somebody measured it; elsewhere it is a share of the
peak that is assumed, and said to be. Prices change: each is an argument of
`emphatic study plan --price NAME=DOLLARS`, and its default says whose and when it was.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from emphatic.errors import UserError
from emphatic.study.costs import RunCost


class Rate(NamedTuple):
    """Operations per second of one device (on a CPU: of one core) and where that is from."""

    rate: float
    source: Literal["measured", "assumed"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine, or a slice of one, that is paid for by the hour."""

    name: str
    title: str
    devices: int
    """Runs at a time: accelerators, or a CPU's cores."""
    cores: int
    """Of the host, which step the emulators."""
    peak: float
    """Operations per second of a device, in the precision JAX multiplies float32 in there."""
    reached: Mapping[str, float]
    """Network to the rate measured with it, operations per second of a device."""
    shares: Mapping[str, float]
    """Network to the share of the peak that is assumed where nobody measured; `any` for others."""
    step_latency: float
    """Seconds that a step of acting takes however small: launches of kernels."""
    memory: float
    """Bytes of a device."""
    price: float
    """Dollars an hour, the whole machine."""
    priced: str
    """Whose price that is, and of when."""
    source: str
    """Of the other figures."""

    @property
    def cpu(self) -> bool:
        """Whether the cores that learn step the emulators too."""
        return self.devices == self.cores

    def rate(self, network: str) -> Rate:
        """What a device reaches with that network."""
        if network in self.reached:
            return Rate(self.reached[network], "measured")
        share = self.shares.get(network, self.shares["any"])
        return Rate(share * self.peak, "assumed")


EMULATED = 9_000.0
"""Atari frames per second of one core, through `ale_py`'s vector environment, either `pixels`.
Measured: 9,000 to 10,000 per CPU-second on one core of a two-core cloud machine (Breakout, Space
Invaders; docs/cost-model.md)."""

_SHARES_OF_H200 = {"paper": 0.278, "minatar": 0.06}
"""Of 495 TFLOP/s, from docs/cost-model.md: `paper` from 4,300 steps/s of learning, `minatar` from
14.5 million steps/s at 8,192 streams. Other accelerators are assumed to reach the same shares."""
_ASSUMED = {**_SHARES_OF_H200, "any": 0.1}
"""`any`: networks between those two in size."""
_LATENCY = 1e-4
"""Measured on the H200: 318,000 steps/s at 32 streams are 1.0 ms for ten steps of acting."""

_BLOCKS = "AWS EC2 Capacity Blocks, end of 2024"
_TPU = "Google Cloud, US, on demand, 2025"

MACHINES: dict[str, Machine] = {
    machine.name: machine
    for machine in (
        Machine(
            name="cpu2",
            title="2 CPU cores",
            devices=2,
            cores=2,
            peak=2.5e11,
            reached={"minatar": 1.1e11, "nature": 1.5e11},
            shares={"any": 0.4},
            step_latency=0.0,
            memory=8e9,
            price=0.18,
            priced="AWS c7i.xlarge, US, on demand, 2024",
            source="measured on a two-core cloud machine, idle (docs/cost-model.md)",
        ),
        Machine(
            name="h200",
            title="1 H200",
            devices=1,
            cores=16,
            peak=4.95e14,
            reached={name: share * 4.95e14 for name, share in _SHARES_OF_H200.items()},
            shares=_ASSUMED,
            step_latency=_LATENCY,
            memory=1.41e11,
            price=5.41,
            priced=f"an eighth of p5e.48xlarge, {_BLOCKS}",
            source="measured (docs/cost-model.md); peak: NVIDIA, TF32, dense",
        ),
        Machine(
            name="8xh100",
            title="8 H100",
            devices=8,
            cores=96,
            peak=4.95e14,
            reached={},
            shares=_ASSUMED,
            step_latency=_LATENCY,
            memory=8e10,
            price=39.33,
            priced=f"p5.48xlarge, {_BLOCKS}",
            source="peak: NVIDIA, TF32, dense",
        ),
        Machine(
            name="v3-8",
            title="TPU v3-8, 4 chips",
            devices=4,
            cores=48,
            peak=1.23e14,
            reached={},
            shares=_ASSUMED,
            step_latency=_LATENCY,
            memory=3.4e10,
            price=8.80,
            priced=f"4 chips, {_TPU}",
            source="peak: Google, bf16, which float32 products take there",
        ),
        Machine(
            name="v5e-8",
            title="TPU v5e-8, 8 chips",
            devices=8,
            cores=112,
            peak=1.97e14,
            reached={},
            shares=_ASSUMED,
            step_latency=_LATENCY,
            memory=1.6e10,
            price=9.60,
            priced=f"8 chips, {_TPU}",
            source="peak: Google, bf16, which float32 products take there",
        ),
    )
}


class Estimate(NamedTuple):
    """A run on a machine."""

    seconds_per_update: float
    steps_per_second: float
    limit: Literal["learning", "emulators", "latency", "network", "memory"]
    """What it waits for; `memory`: it does not fit on a device."""
    source: Literal["measured", "assumed"]
    frames_needed: float
    """Emulated frames per second that would keep the device busy."""


def estimate(
    cost: RunCost,
    network: str,
    machine: Machine,
    *,
    sharing: int = 1,
    bandwidth: float = math.inf,
) -> Estimate:
    """How fast a run is on its share of a machine: one device, and as many cores as it has.

    On an accelerator the emulators step while it learns, so the slower of the two counts; on a
    CPU they take turns on the same core.

    Where devices share a run, each with streams of its own that `cost` is of, an update ends with
    the all-reduce of its gradient over links of so many bytes per second.
    """
    rate, source = machine.rate(network)
    steps = cost.steps_per_update
    computing = steps * cost.step / rate
    waiting = cost.unroll_length * machine.step_latency
    cores = 1.0 if machine.cpu else machine.cores / machine.devices
    emulating = steps * cost.frames / (EMULATED * cores)
    exchanging = cost.all_reduce(sharing) / bandwidth
    together = computing + waiting
    seconds = together + emulating if machine.cpu else max(together, emulating)
    seconds += exchanging
    parts = {"learning": computing, "emulators": emulating, "latency": waiting}
    parts["network"] = exchanging
    limit = max(parts, key=parts.__getitem__)
    return Estimate(
        seconds_per_update=seconds,
        steps_per_second=steps / seconds,
        limit="memory" if cost.memory > machine.memory else limit,  # pyright: ignore
        source=source,
        frames_needed=steps / (together + exchanging) * cost.frames,
    )


def chosen(prices: Mapping[str, float], shares: Mapping[str, float]) -> tuple[Machine, ...]:
    """The machines with the prices and the shares of their peaks that are given."""
    for option, given in (("price", prices), ("utilisation", shares)):
        for name in given:
            if name not in MACHINES:
                known = ", ".join(MACHINES)
                raise UserError(option, f"no machine is named {name!r}; choose from {known}")
    for name, share in shares.items():
        if share > 1:
            raise UserError("utilisation", f"of {name} is a share of its peak, not {share:g}")
    changed = []
    for name, machine in MACHINES.items():
        if name in prices:
            machine = dataclasses.replace(machine, price=prices[name], priced="given")
        if name in shares:
            machine = dataclasses.replace(machine, shares={"any": shares[name]}, reached={})
        changed.append(machine)
    return tuple(changed)
