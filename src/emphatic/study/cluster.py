"""Runs on a Ray cluster: a task each.

Ray finds the resources, notices a worker or a node that is gone, and performs the task again
elsewhere; ours are the checkpoints it goes on from, in the study's folder, which every node must
see under the same path. A task has a process to itself (`max_calls=1`), as on one machine.
"""

import os
import socket
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from emphatic.errors import UserError
from emphatic.runtime import compilation
from emphatic.study import ledger, spec, work
from emphatic.study.runner import Ended
from emphatic.study.spec import Study

PATIENCE = 120.0
"""Seconds a task waits for the claim of a predecessor whose machine is given up but still runs."""
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0, Ray listens on loopback only, on every system; else even 127.0.0.1 becomes the
machine's address in the network."""
CANCEL = 60.0
"""Seconds that tasks get to write their checkpoints when the runner is stopped."""


class RayPool:
    """All runs at once: Ray keeps those that find no room."""

    tries = 1
    """Trying again is Ray's business."""

    def __init__(self, folder: Path, study: Study, address: str):
        self._ray = _connect(address)
        self._folder = folder.resolve()
        self._asked = asked = study.resources
        memory = {} if asked.memory_gb is None else {"memory": asked.memory_gb * 1e9}
        self._task = self._ray.remote(
            num_cpus=asked.cpus,
            num_gpus=asked.gpus,
            max_retries=study.retries,
            retry_exceptions=True,
            max_calls=1,
            **memory,
        )(task)
        self._names: dict[Any, str] = {}

    def free(self) -> int:
        return 1

    def start(self, name: str) -> None:
        reference = self._task.options(name=name).remote(
            str(self._folder), name, os.environ.get("XLA_FLAGS", "")
        )
        self._names[reference] = name

    def ended(self) -> list[Ended]:
        return self._ended(0.5)

    def stop(self) -> list[Ended]:
        for reference in self._names:
            self._ray.cancel(reference, force=False)
        found: list[Ended] = []
        for _ in range(round(CANCEL / 0.5)):
            if not self._names:
                break
            found += self._ended(0.5)
        self._ray.shutdown()
        return [e._replace(outcome="stopped") if e.outcome == "failed" else e for e in found]

    def shortage(self) -> str | None:
        """What no node has enough of; a run then waits for one that has."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for what, asked in (("CPU", self._asked.cpus), ("GPU", self._asked.gpus)):
            most = max((node.get(what, 0.0) for node in nodes), default=0.0)
            if asked > most:
                return f"a run asks for {asked:g} {what}, the largest node has {most:g}: waiting"
        return None

    def close(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()

    def _ended(self, seconds: float) -> list[Ended]:
        if not self._names:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._names), num_returns=1, timeout=seconds)
        return [self._outcome(reference) for reference in ready]

    def _outcome(self, reference: Any) -> Ended:
        name = self._names.pop(reference)
        try:
            return Ended(name, self._ray.get(reference))
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            return Ended(name, "failed", work.sentence(cause or error))
        except self._ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else ""
            return Ended(name, "failed", f"{type(error).__name__}: {first}"[:300])


def task(folder: str, name: str, flags: str) -> str:
    """A run on a node: `done`, `stopped`, or `busy` where another runner has it.

    `flags` are the XLA_FLAGS of the runner, for those a node was started with may be others.
    """
    if not Path(folder).is_dir():
        node = socket.gethostname()
        raise UserError("study", f"{node} does not see {folder}: it must be shared by all nodes")
    os.environ["XLA_FLAGS"] = flags
    work.use_threads(spec.read(Path(folder)))
    compilation.cached()
    try:
        return work.perform(Path(folder), name, patience=PATIENCE)
    except ledger.Busy:
        return "busy"


def _ray() -> ModuleType:
    try:
        import ray
    except ImportError:
        problem = "needs Ray: pip install 'emphatic[cluster]'"
        raise UserError("ray", problem) from None
    return ray


def _connect(address: str) -> ModuleType:
    """Ray, in the cluster that is asked for; `local` starts one that does not leave this machine.

    Ray itself would try an address where nobody listens for a quarter of an hour.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    if address == "local":
        os.environ.setdefault(LOOPBACK, "0")
        options["include_dashboard"] = False
    ray = _ray()
    _refuse_silence(address)
    try:
        ray.init(address=address, **options)
    except ConnectionError as error:
        found = "no Ray cluster was found here" if address == "auto" else work.sentence(error)
        problem = f"{found}; start one (`ray start --head`), name its address, or say local"
        raise UserError("ray", problem) from None
    except (RuntimeError, ValueError) as error:
        raise UserError("ray", _of_token(error) or work.sentence(error)) from None
    return ray


def _refuse_silence(address: str) -> None:
    """HOST:PORT where nobody answers."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "/" in address:
        if address not in ("auto", "local") and not address.startswith("ray://"):
            raise UserError("ray", f"must be auto, local or HOST:PORT, not {address!r}")
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
    except (OSError, OverflowError) as error:
        raise UserError("ray", f"nobody answers at {address} ({error})") from None


def _of_token(error: Exception) -> str | None:
    """What to do about a missing or wrong token, if that is what it is."""
    text = str(error).lower()
    if "token" not in text and "authenticat" not in text:
        return None
    return (
        "the cluster wants its token: put it into ~/.ray/auth_token, or name the file that holds "
        "it in RAY_AUTH_TOKEN_PATH, and set RAY_AUTH_MODE=token (docs/studies.md)"
    )
