"""What a study takes before anyone spends it: operations, bytes, hours and cost by machine."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Group
from rich.table import Table

from emphatic import envs
from emphatic.study import costs, machines, spec
from emphatic.study.costs import RunCost
from emphatic.study.machines import Machine
from emphatic.study.spec import RunSpec, Study


class Kind(NamedTuple):
    """Runs that cost the same but for their number of actions."""

    family: str
    network: str
    scheme: str
    heads: int


class Part(NamedTuple):
    """The runs of an agent on an environment."""

    kind: Kind
    cost: RunCost
    on_cpu: RunCost
    """There the architecture decides what is recomputed."""
    runs: int


def parts(study: Study) -> list[Part]:
    """A study's runs, costed by environment and agent."""
    found = []
    for environment in study.environments:
        facts = None
        for agent, seeds in study.agents.items():
            config = spec.config(study, RunSpec(environment, agent, 0))
            facts = facts or costs.facts(envs.make(environment, **config.env_settings))
            learner = config.learner
            scheme = "fixed" if learner.lookahead else "mixed"
            family = environment.split("/")[0]
            kind = Kind(family, learner.network.name, scheme, learner.num_heads)
            again = learner.network.architecture.recompute
            cost = costs.run(learner, facts)
            found.append(Part(kind, cost, costs.run(learner, facts, recompute=again), seeds))
    return found


class Total(NamedTuple):
    """A study on one kind of machine."""

    machine: Machine
    steps_per_second: float
    """Of one run, over all of them."""
    device_hours: float
    machine_hours: float
    """With one such machine, all of its devices busy."""
    cost: float
    limits: tuple[str, ...]
    measured: bool


def total(study: Study, found: Sequence[Part], machine: Machine) -> Total:
    """Hours and cost on a machine."""
    seconds, limits, sources = 0.0, {}, set()
    for part in found:
        cost = part.on_cpu if machine.cpu else part.cost
        estimate = machines.estimate(cost, part.kind.network, machine)
        seconds += part.runs * study.steps / estimate.steps_per_second
        limits[estimate.limit] = None
        sources.add(estimate.source)
    hours = seconds / 3600
    alone = hours / machine.devices
    rate = study.steps * len(study.runs) / seconds
    measured = sources == {"measured"}
    return Total(machine, rate, hours, alone, alone * machine.price, tuple(limits), measured)


def shown(name: str, study: Study, chosen: Sequence[Machine]) -> Group:
    """The plan as text and tables."""
    found = parts(study)
    steps = study.steps * len(study.runs)
    work = sum(part.cost.step * part.runs for part in found) * study.steps
    frames = sum(part.cost.frames * part.runs for part in found) * study.steps
    played = f", {quantity(frames)} emulated frames" if frames else ""
    agents = ", ".join(f"{agent} x {seeds}" for agent, seeds in study.agents.items())
    return Group(
        f"{name}: {len(study.runs)} runs of {study.steps:,} steps: {len(study.environments)} "
        f"environments; {agents} seeds",
        f"in all {quantity(steps)} steps{played}, {quantity(work)} floating-point operations",
        "",
        _kinds(found),
        _machines([total(study, found, machine) for machine in chosen], found),
        *_notes(chosen),
    )


def _kinds(found: Sequence[Part]) -> Table:
    """What a step and an update of each kind of run cost, a column a kind."""
    grouped: dict[Kind, list[Part]] = {}
    for part in found:
        grouped.setdefault(part.kind, []).append(part)
    table = _table("a run")
    for kind in grouped:
        heads = "1 head" if kind.heads == 1 else f"{kind.heads} heads"
        what = f"{kind.family}, {kind.network},\n{kind.scheme}, {heads}"
        table.add_column(what, justify="right", no_wrap=True)
    columns = [_facts(group) for group in grouped.values()]
    for row in columns[0]:
        table.add_row(row, *(column[row] for column in columns))
    return table


def _facts(group: Sequence[Part]) -> dict[str, str]:
    """Of one kind: operations as means over its runs, bytes of its largest."""
    runs = sum(part.runs for part in group)
    largest = max(group, key=lambda part: part.cost.step).cost
    step = sum(part.cost.step * part.runs for part in group) / runs
    act = sum(part.cost.act * part.runs for part in group) / runs
    return {
        "runs": f"{runs}",
        "operations a step": f"{quantity(step)}FLOP",
        "of these to act": f"{quantity(act)}FLOP",
        "parameters": f"{largest.network.parameters:,}",
        "to the device, a step": f"{quantity(largest.wire)}B" if largest.wire else "-",
        "all-reduce, an update": f"{quantity(largest.all_reduce(8))}B",
        "memory of the device": f"{quantity(largest.memory)}B",
    }


def _machines(totals: Sequence[Total], found: Sequence[Part]) -> Table:
    """Hours and cost by kind of machine."""
    table = _table("machines")
    for column in ("steps/s", "device hours", "hours", "$", "emulators", "limit"):
        table.add_column(column, justify="right", no_wrap=True)
    for t in totals:
        table.add_row(
            t.machine.name,
            f"{'' if t.measured else '~'}{t.steps_per_second:,.0f}",
            _number(t.device_hours),
            _number(t.machine_hours),
            _number(t.cost),
            _cores(t.machine, found),
            ", ".join(t.limits),
        )
    return table


def _table(title: str) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title=title, title_style="bold"
    )
    table.title_justify = "left"
    table.add_column("", no_wrap=True)
    return table


def _cores(machine: Machine, found: Sequence[Part]) -> str:
    """Of the host, busy with emulators while every device is kept busy."""
    frames = max(
        machines.estimate(part.cost, part.kind.network, machine).frames_needed for part in found
    )
    cores = frames * machine.devices / machines.EMULATED
    return f"{cores:.2g} of {machine.cores} cores" if cores and not machine.cpu else "-"


def _number(number: int | float) -> str:
    return f"{number:,.1f}" if number < 100 else f"{number:,.0f}"


def _notes(chosen: Sequence[Machine]) -> list[str]:
    """Where the figures are from."""
    lines = [
        "steps/s: of a run on one device (a core of cpu2); ~ where the rate is assumed.",
        "hours: one such machine, all of its devices busy. all-reduce: of each of 8",
        "devices, if they shared a run. memory: at least. Evaluation is not counted.",
    ]
    for machine in chosen:
        lines += [
            f"{machine.name}: {machine.title}; {machine.source};",
            f"    {machine.price:g} $ an hour: {machine.priced}",
        ]
    return lines


def quantity(number: int | float) -> str:
    """With a prefix, three digits."""
    for size, prefix in _PREFIXES.items():
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return f"{number:.3g} "


_PREFIXES: Mapping[float, str] = {
    1e21: "Z",
    1e18: "E",
    1e15: "P",
    1e12: "T",
    1e9: "G",
    1e6: "M",
    1e3: "k",
}
