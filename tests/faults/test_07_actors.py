"""Promise 7: an environment that fails costs an episode or ends the run; nobody waits for ever."""

import random
import time

import jax
import numpy as np
import pytest
from host_environments import Trouble, countdown
from test_sebulba import Session

from emphatic.runtime.crew import ActorFailed

FAULTS = ("raise", "nan", "bad frame", "shape", "exit", "hang")
UPDATES = 6


class Worse(Trouble):
    """Also ends its thread, and is slow now and then."""

    def __call__(self, step):
        if self.at.get(self.steps + 1) == "exit":
            del self.at[self.steps + 1]
            self.steps += 1
            raise SystemExit("the emulator left")
        return super().__call__(step)


def plan(case):
    """What goes wrong, when, and how it is met."""
    rng = random.Random(case)
    kinds = [FAULTS[case % len(FAULTS)], *rng.choices(FAULTS, k=rng.randrange(3))]
    steps = sorted(rng.sample(range(2, 20), len(kinds)))
    trouble = Worse(**{f"step{step}": kind for step, kind in zip(steps, kinds, strict=True)})
    if rng.random() < 0.3:
        trouble.delay = lambda: 0.01 * rng.random()
    threads = rng.choice((1, 2))
    # With one actor exactly what is needed, or one too few; two share the faults by chance.
    restarts = len(kinds) - (threads == 1 and case % 4 == 3)
    return trouble, len(kinds), {"threads": threads, "timeout": 0.5, "restarts": restarts}


@pytest.mark.slow
def test_every_fault_is_met_and_counted_or_ends_the_run(tally):
    for case in tally.cases(7, "fault"):
        trouble, faults, options = plan(case)
        start = time.monotonic()
        try:
            with Session(countdown(trouble), **options) as session:
                if faults > options["restarts"] * options["threads"]:
                    # More than its seat can take: a clean end that names actor and fault.
                    with pytest.raises(ActorFailed, match=r"than actors\.restarts allows: "):
                        session.ran(UPDATES)
                    continue
                state, (report,) = session.ran(UPDATES)
                met = int(report.metrics["actor_restarts"])
                assert met == len(session.said) == faults - len(trouble.at)
                assert int(state.learner.updates) == UPDATES
                learned = jax.tree.leaves(state.learner)
                assert all(np.isfinite(np.asarray(x)).all() for x in learned)
        finally:
            trouble.release.set()
            assert time.monotonic() - start < 30, "half a minute, whatever happens"
