"""Run every command that README and docs print, long ones at a small size.

    python tests/docs_commands.py FOLDER

A command is a line of an indented or fenced block, or a code span, that begins with a program's
name. `PLAN` says what becomes of each: a command that nothing there matches is an error, so
whoever documents a new one has to think of it here. All run in this one process, in FOLDER.
"""

import contextlib
import fnmatch
import io
import json
import re
import runpy
import shlex
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

ROOT = Path(__file__).parent.parent
SOURCES = ["docs/index.md", "README.md", "CONTRIBUTING.md", "docs/**/*.md", "results/**/README.md"]
PROGRAMS = r"(emphatic|python|pytest|make|pip|git|source|mkdocs|ray|\.venv/bin/\S+)"
VARIABLES = {"$i": "0", "$MORE": "--env atari/breakout", "…": ""}
"""What a command of the docs takes from the shell around it."""


class Wrong(AssertionError):
    """A command of the docs that does not do."""


class Command(NamedTuple):
    """A command and the first place that prints it."""

    text: str
    where: str


def run(command: str) -> None:
    """As it stands."""
    program, *arguments = shlex.split(command)
    if program == "emphatic":
        _emphatic(arguments)
    else:
        _script(*arguments)


def small(*arguments: str) -> Callable[[str], None]:
    """With these arguments behind its own; of an option given twice the last counts."""

    def smaller(command: str) -> None:
        run(shlex.join([*shlex.split(command), *arguments]))

    return smaller


def of_catch(*arguments: str) -> Callable[[str], None]:
    """The same, of the run that docs/index.md trains."""

    def of_another(command: str) -> None:
        small(*arguments)(re.sub(r"runs/[\w-]+", "runs/catch", command))

    return of_another


def apart(*arguments: str) -> Callable[[str], None]:
    """The same, in a folder of its own: diagnose keeps experiments apart."""

    def elsewhere(command: str) -> None:
        name = re.sub(r"\W+", "-", command)
        run(shlex.join([*shlex.split(command), *arguments, "--out", f"apart/{name}"]))

    return elsewhere


def of_tiny(command: str) -> None:
    """The same, of a study of two short runs of Catch, which is run when first asked for."""
    if not Path("studies/tiny").exists():
        run("emphatic study new tiny --envs catch --agents netd-ace surreal --seeds 1 " + A_MOMENT)
        run("emphatic study run tiny")
    run(re.sub(r"\bmine\b|\b(runs|studies)/minatar5\b", "studies/tiny", command))


def alone(command: str) -> None:
    """One run, or all seeds of one agent, of a study of its own."""
    verb = shlex.split(command)[2]
    if not Path("studies", verb).exists():
        run(f"emphatic study new {verb} --envs catch --agents surreal --seeds 1 " + A_MOMENT)
    run(f"emphatic study {verb} {verb} " + ALONE[verb])


def copied(command: str) -> None:
    """On a copy of the results that it names, figures made but not painted: others are."""
    from matplotlib.figure import Figure

    folder = Path(re.search(r"results/[\w-]+", command)[0])
    if (ROOT / folder).exists() and not folder.exists():
        shutil.copytree(ROOT / folder, folder)
    with mock.patch.object(Figure, "savefig", lambda _, file, **__: Path(file).touch()):
        run(command)


def redrawn(command: str) -> None:
    """From the summaries that are kept: nothing is computed."""
    copied(f"{command} --redraw --out results/diagnostics")


def few_networks(command: str) -> None:
    """The study with networks, on one problem, with one step size and two seeds."""
    from emphatic.diagnostics import networks_study

    few = networks_study.Study(
        problems=("collision-trap",), models=("linear",), lanes=networks_study.LANES[:3], seeds=2,
        sgd=(2.0**-6,), rmsprop=(2.0**-6,), streams=2, updates=100, bins=10,
    )  # fmt: skip
    with mock.patch.object(networks_study, "Study", return_value=few):
        apart()(command)


def aside(command: str) -> None:
    """A second study of a name that the page has used."""
    run(command.replace(" mine ", " another "))


def parsed(command: str) -> None:
    """Options read and checked, nothing computed."""
    from emphatic.commands import parsing

    class Stop(BaseException):
        """The options were read."""

    read = parsing.parsed

    def stop(*args, **kwargs):
        read(*args, **kwargs)
        raise Stop

    with contextlib.suppress(Stop), mock.patch.object(parsing, "parsed", stop):
        _emphatic(shlex.split(command)[1:])
        raise Wrong(f"{command}: has no options to read")


def target(command: str) -> None:
    """A target of the Makefile, which CI runs anyway or would take long."""
    name = command.split()[1]
    if not re.search(rf"^{name}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M):
        raise Wrong(f"{command}: the Makefile has no {name}")


def exists(command: str) -> None:
    """A script or tests that are run elsewhere: there, and a script can be read."""
    program, path, *_ = shlex.split(command)
    if program == "pytest" and any((ROOT / path).glob("test_*.py")):
        return
    if not (ROOT / path).is_file():
        raise Wrong(f"{command}: there is no {path}")
    source = (ROOT / path).read_text(encoding="utf-8")
    compile(source, path, "exec")
    if program == "python" and f"python {path}" not in source:
        raise Wrong(f"{command}: {path} does not say how it is run")


def installs(command: str) -> None:
    """Extras that exist; the dependencies are here already."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for extra in re.findall(r"[a-z]+", "".join(re.findall(r"\[([^]]*)\]", command))):
        if extra not in known["project"]["optional-dependencies"]:
            raise Wrong(f"{command}: there is no extra {extra}")


def taken_as_read(command: str) -> None:
    """Nothing to try here."""


A_MOMENT = "--steps 3200 --episodes 5"
ALONE = {"work": "catch-surreal-seed0", "seeds": "catch surreal"}
ONE_UPDATE = ("--steps", "3200", "--out", "runs/breakout")
ONE_SWEEP = ("--runs", "2", "--steps", "100", "--seeds", "0", "--n", "1", "--alphas", "2^-8")

PLAN: list[tuple[str, Callable[[str], None]]] = [
    # Later rows are for what no earlier one matches.
    ("git clone *", taken_as_read),
    ("source .venv/bin/activate", taken_as_read),
    (".venv/bin/pre-commit install", taken_as_read),
    ("pip install *", installs),
    ("make *", target),
    ("ray *", taken_as_read),
    ("pytest *", exists),
    ("python tests/*", exists),
    ("python benchmarks/definiteness.py", small("4")),
    ("python benchmarks/*", exists),
    # These run in tests/test_examples.py, which looks at what they print.
    ("python examples/*", exists),
    # What docs/contributing.md adds is there, and used, in tests/test_contributing.py.
    ("* fading-netd*", taken_as_read),
    ("* stairs*", taken_as_read),
    ("* walk *", taken_as_read),
    ("emphatic algorithms", run),
    ("emphatic theory *", run),
    ("emphatic diagnose * --redraw --out results/*", copied),
    ("emphatic diagnose all*", parsed),
    ("emphatic diagnose claims", redrawn),
    ("emphatic diagnose networks*", few_networks),
    ("emphatic diagnose *", apart(*ONE_SWEEP, "--algorithms", "td", "netd")),
    ("emphatic train --env catch * --out runs/catch", small("--steps", "100_000")),
    ("emphatic train --env gymnasium:CartPole-v1 * --out runs/cartpole", small("--steps", "1600")),
    ("emphatic train --resume *", of_catch()),
    ("emphatic train --env minatar/breakout --agent netd-ace * --seed 0", small(*ONE_UPDATE)),
    ("emphatic train *", parsed),
    ("emphatic evaluate *", of_catch("--episodes", "10")),
    ("emphatic watch *", of_catch("--steps", "10")),
    ("emphatic study new mine --like *", aside),
    ("emphatic study new *", run),
    ("emphatic study add *", run),
    ("emphatic study status *", run),
    ("emphatic study plan *", run),
    ("emphatic study run mine --ray *", parsed),
    ("emphatic study run mine*", of_tiny),
    ("emphatic study work mine *", alone),
    ("emphatic study seeds mine *", alone),
    ("emphatic report mine*", of_tiny),
    ("emphatic report runs/minatar5*", of_tiny),
    ("emphatic report studies/minatar5*", of_tiny),
    ("emphatic report results/*", copied),
    ("emphatic report *", of_catch("--out", "pages/catch")),
]


def commands() -> Iterator[Command]:
    """Every command of the docs once, in order of reading."""
    seen = set()
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            for text in in_text(path.read_text(encoding="utf-8")):
                if text not in seen:
                    seen.add(text)
                    yield Command(text, str(path.relative_to(ROOT)))


def in_text(text: str) -> Iterator[str]:
    """Commands in a page of Markdown."""
    text = re.sub(r"^```(python|json|text)\n.*?^```$", "", text, flags=re.M | re.S)
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```$", text, flags=re.M | re.S))
    text = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.M | re.S)
    indented = "\n".join(re.findall(r"^ {4,}(.*)$", text, flags=re.M))
    for line in re.sub(r"\s*\\\n\s*", " ", f"{fenced}\n{indented}").splitlines():
        # Behind a prompt, a variable that is set, or what starts it elsewhere.
        before = rf"^(\$ |([A-Z_]+=\S+ |srun |mpirun |-\S+ )+(?={PROGRAMS} ))"
        line = re.sub(before, "", line.strip())
        if re.match(rf"{PROGRAMS} ", line):
            # What follows two blanks, a hash or an ampersand is no part of the command.
            line = re.split(r" {2,}|\s+#|\s+&$", line)[0]
            yield line.rstrip('"') if line.count('"') % 2 else line
    for span in re.findall(r"`([^`\n]+)`", text):
        # `emphatic evaluate` alone names a verb; what has an argument is a command.
        if re.fullmatch(r"emphatic (study )?[a-z]+", span):
            yield f"{span} --help"
        elif re.match(rf"{PROGRAMS} \S", span):
            yield span


def planned(command: str) -> Callable[[str], None]:
    """What becomes of a command."""
    if re.fullmatch(r"emphatic (study )?[a-z]+ --help", command):
        return run
    if re.search(r"\b(NAME|PROBLEM)\b|^emphatic evaluate RUN\b", command.replace("runs/NAME", "")):
        return taken_as_read
    for pattern, action in PLAN:
        if fnmatch.fnmatchcase(command, pattern):
            return action
    raise Wrong(f"{command!r} is new: say in tests/docs_commands.py how it is tried")


def _emphatic(arguments: list[str]) -> None:
    """The command line, in this process."""
    from emphatic import cli

    try:
        cli.main(arguments)
    except SystemExit as stop:
        if stop.code not in (0, None):
            raise Wrong(f"emphatic {shlex.join(arguments)}: exit code {stop.code}") from None


def _script(path: str, *arguments: str) -> None:
    with mock.patch.object(sys, "argv", [path, *arguments]):
        runpy.run_path(str(ROOT / path), run_name="__main__")


def notebook(path: Path) -> str:
    """What the cells of a notebook print, run from top to bottom."""
    content, names, out = json.loads(path.read_text(encoding="utf-8")), {}, io.StringIO()
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(out):
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    return out.getvalue()


def main(folder: Path) -> None:
    """All of them, each with what it took; the first that fails ends it. Then the notebook."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "examples" / "my_mdp.json", folder)
    with contextlib.chdir(folder):
        for command, where in commands():
            action, start, out = planned(command), time.process_time(), io.StringIO()
            for name, value in VARIABLES.items():
                command = re.sub(rf"{re.escape(name)}(?!\w)", value, command)
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                    action(command)
            except BaseException:
                print(out.getvalue(), f"{where}: {command}", sep="\n", file=sys.stderr)
                raise
            seconds = time.process_time() - start
            print(f"{seconds:6.1f} s  {action.__name__:<14} {where:<28} {command}", flush=True)
        print(notebook(ROOT / "examples" / "reading_a_run.ipynb"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
