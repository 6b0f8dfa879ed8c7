"""What the battery's promises rest on: nothing of a stranger is executed, nobody listens."""

import ast
from pathlib import Path

import pytest
from small import config_of, trained

SOURCES = sorted((Path(__file__).parents[2] / "src").rglob("*.py"))
MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
CALLS = {"eval", "exec", "compile", "__import__"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_pickle_and_no_eval(path):
    """The checkpoint tests load one with pickle taken away; here nothing even imports it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not MODULES & {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.module.split(".")[0] not in MODULES
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in CALLS
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False


def listening():
    """Inodes of this process's sockets that listen on a port."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            own.add(str(descriptor.readlink()))
        except OSError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                found.append(fields[1])
    return found


@pytest.mark.slow
def test_nothing_listens_while_training(tmp_path):
    before, during = listening(), []
    trained(tmp_path / "run", config_of(updates=4), progress=lambda *_: during.append(listening()))
    assert during
    assert all(found == before for found in during)


def test_a_listener_would_be_seen():
    import socket

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert len(listening()) >= 1
