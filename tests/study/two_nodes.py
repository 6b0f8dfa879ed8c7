"""A study on a real Ray cluster of two nodes, with a worker and then a node killed under it.

    python tests/study/two_nodes.py FOLDER

The same study runs undisturbed on this machine without Ray, then on the cluster, whose nodes are
processes on loopback with token authentication on. As soon as a run is half-way its worker is
killed (-9); when both nodes work again, the second node is killed with all its processes. The
study must complete on what is left, and metrics.jsonl, episodes.jsonl and evaluation.json of every
run must be, to the byte, those of the undisturbed study. Prints what happens; exit code 0 if so.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

for name in ("XLA_FLAGS", "RAY_ADDRESS"):
    os.environ.pop(name, None)
os.environ |= {
    "JAX_PLATFORMS": "cpu",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray takes 127.0.0.1 for the address of this machine unless it is told not to leave it.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}

import psutil  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from emphatic.study import ledger, spec  # noqa: E402

NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}
COMPARED = ("metrics.jsonl", "episodes.jsonl", "evaluation.json")
STEPS = 320_000
BEGAN = time.monotonic()


def say(text):
    print(f"{time.monotonic() - BEGAN:6.1f} s  {text}", flush=True)


def emphatic(*arguments):
    """The command, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "emphatic", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process):
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0, output
    return output


def new(folder):
    arguments = ["--envs", "catch", "--agents", "surreal", "netd-ace", "--seeds", 2]
    arguments += ["--steps", STEPS, "--episodes", 20, "--retries", 3]
    arguments += ["--set", "log_every=20", "checkpoint_every=60"]
    finished(emphatic("study", "new", folder, *arguments))
    return spec.read(folder)


def under_way(folder, study, least):
    """Runs that a process has now and that have `least` lines of metrics: name to process id."""
    found = {}
    for run in study.runs:
        lines = ledger.run_folder(folder, run.name) / "metrics.jsonl"
        if ledger.claimed(folder, run.name) and lines.exists():
            last = ledger.attempts(folder, run.name)[-1]
            if lines.read_bytes().count(b"\n") >= least and last["event"] == "started":
                found[run.name] = last["pid"]
    return found


def waited(found, running, seconds=600):
    """What `found` returns once that is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := found():
            return result
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.05)
    raise AssertionError("waited too long")


def kill_a_worker(folder, study, running):
    name, pid = next(iter(waited(lambda: under_way(folder, study, 15), running).items()))
    os.kill(pid, signal.SIGKILL)
    say(f"killed worker {pid}, which had {name}")
    waited(
        lambda: len([a for a in ledger.attempts(folder, name) if a["event"] == "started"]) > 1,
        running,
    )
    say(f"{name} goes on in another worker")
    return name


def kill_a_node(cluster, node, folder, study, running):
    raylet = node.all_processes["raylet"][0].process.pid

    def on_it():
        pids = under_way(folder, study, 5).items()
        return [
            name
            for name, pid in pids
            if psutil.pid_exists(pid) and psutil.Process(pid).ppid() == raylet
        ]

    name = waited(on_it, running)[0]
    cluster.remove_node(node, allow_graceful=False)
    say(f"killed the second node, which had {name}")
    return name


def equal(calm, shaken, study):
    for run in study.runs:
        for file in COMPARED:
            one, other = (ledger.run_folder(f, run.name) / file for f in (calm, shaken))
            assert one.read_bytes() == other.read_bytes(), f"{run.name}/{file} differs"
    say(f"{len(study.runs)} runs: {', '.join(COMPARED)} equal those of the undisturbed study")


def spoken(output):
    """What `study run` said, without what Ray adds: the state of the node that was killed."""
    lines = [line for line in output.splitlines() if line.strip()]
    return [line for line in lines if "(raylet)" not in line and not line.startswith("    ")]


def main(out):
    calm, shaken = out / "calm", out / "shaken"
    study = new(calm)
    new(shaken)
    finished(emphatic("study", "run", calm))
    say("the undisturbed study is done, on this machine without Ray")
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    second = cluster.add_node(**NODE)
    say("two nodes are up")
    running = emphatic("study", "run", shaken, "--ray", cluster.address)
    try:
        hurt = [kill_a_worker(shaken, study, running)]
        hurt.append(kill_a_node(cluster, second, shaken, study, running))
        output = finished(running)
    finally:
        if running.poll() is None:
            running.kill()
        cluster.shutdown()
    say("the study completed:")
    print("\n".join(f"          {line}" for line in spoken(output)))
    for name in dict.fromkeys(hurt):
        events = [line["event"] for line in ledger.attempts(shaken, name)]
        assert "lost" in events, events
        assert events[-1] == "done", events
        say(f"{name}: {', '.join(events)}")
    equal(calm, shaken, study)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
