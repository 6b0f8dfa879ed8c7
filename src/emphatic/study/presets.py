"""Studies by name: `emphatic study new NAME --like minatar5`."""

from collections.abc import Callable

from emphatic import envs
from emphatic.errors import UserError
from emphatic.study.spec import Resources, Study


def atari57() -> Study:
    """The paper's: 57 games, 3 seeds, 200 million frames, its fixed scheme to the letter.

    A step is four frames. A run wants an accelerator to itself and cores for its emulators.
    """
    return Study(
        environments=envs.expand(["atari/*"]),
        agents=dict.fromkeys(("surreal", "netd", "netd-ace", "nevtrace"), 3),
        preset="paper-fixed",
        steps=50_000_000,
        resources=Resources(cpus=16.0, gpus=1.0, memory_gb=16.0),
    )


def minatar5() -> Study:
    """What a machine of two cores can answer: five games, 5 million steps, with controls.

    `surreal` and `netd-ace`, whose difference is the question, have ten seeds.
    """
    agents = dict.fromkeys(("impala", "surreal", "netd", "netd-ace", "nevtrace-ace"), 5)
    agents |= dict.fromkeys(("exact-nevtrace-ace", "surreal-mixed", "wetd-ace"), 5)
    agents |= {"surreal-constant": 5, "surreal": 10, "netd-ace": 10}
    return Study(
        environments=envs.expand(["minatar/*"]),
        agents=agents,
        preset="minatar",
    )


PRESETS: dict[str, Callable[[], Study]] = {"atari57": atari57, "minatar5": minatar5}


def preset(name: str) -> Study:
    """The study of that name."""
    if name not in PRESETS:
        raise UserError("like", f"no study is named {name!r}; choose from {', '.join(PRESETS)}")
    return PRESETS[name]()
