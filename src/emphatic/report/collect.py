"""Runs of any number of folders as one collection, and what is wrong with it in sentences.

A path may be a run folder, a study (`study.json` and `runs/`) or its name, a summary (`*.json`), a
folder of summaries, or any folder with these at most three levels down. What cannot be read
becomes a problem, and the report is made of the rest.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emphatic.errors import UserError
from emphatic.report import folders, planned, summaries, variants
from emphatic.report.summaries import RunSummary
from emphatic.study import spec
from emphatic.study.spec import Study

DEPTH = 3
"""Levels below a given folder at which runs are looked for."""
_OF_A_RUN = ("metrics.jsonl", "episodes.jsonl", "timing.jsonl", "checkpoints", "lock")
"""What tells a run folder without its config.json from any other folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Collection:
    """Runs in order of environment, agent and seed, and what kept others out."""

    runs: tuple[RunSummary, ...]
    problems: tuple[str, ...]
    """One sentence each."""
    labels: Mapping[str, str]
    """Run to the name of its variant: its agent, with settings where one agent had several."""
    folders: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    """Run to its folder; a run that came as a summary has none."""
    studies: Mapping[Path, Study] = dataclasses.field(default_factory=dict)
    """Folder to study, of those that were found."""

    @property
    def environments(self) -> tuple[str, ...]:
        """In order of their names."""
        return tuple(sorted({run.environment for run in self.runs}))

    @property
    def agents(self) -> tuple[str, ...]:
        """Labels, in order of their names."""
        return tuple(sorted(set(self.labels.values())))

    @property
    def differing(self) -> Mapping[str, Mapping[str, Any]]:
        """Field of the configuration to run to value, for fields that are not alike in all."""
        flat = {run.name: variants.flattened(run.config) for run in self.runs}
        return {
            field: {name: fields.get(field) for name, fields in flat.items()}
            for field in variants.differing(list(flat.values()))
        }


def only(collection: Collection, agents: Sequence[str]) -> Collection:
    """The runs of some agents."""
    labels = {name: label for name, label in collection.labels.items() if label in agents}
    runs = tuple(run for run in collection.runs if run.name in labels)
    return dataclasses.replace(collection, runs=runs, labels=labels)


def collect(paths: Iterable[Path | str]) -> Collection:
    """All runs at `paths`."""
    found = _Found()
    for path in paths:
        found.look(place(path))
    runs, places = _distinct(found)
    ordered = sorted(runs, key=lambda r: (r.environment, r.agent, r.seed, r.name))
    labels = variants.labels(ordered)
    kept = _once_per_seed(ordered, labels, found.problems)
    absent = [
        sentence
        for folder, study in found.studies.items()
        for sentence in planned.missing(folder, study, kept)
    ]
    return Collection(
        runs=kept,
        problems=(*found.problems, *absent, *variants.mixtures(kept)),
        labels={run.name: labels[run.name] for run in kept},
        folders={run.name: places[run.name] for run in kept if run.name in places},
        studies=found.studies,
    )


def place(path: Path | str) -> Path:
    """What lies at a path, or the study of that name."""
    study = spec.locate(path)
    return study if study.exists() and not Path(path).exists() else Path(path)


def write_summaries(collection: Collection, out: Path) -> list[Path]:
    """A file of each run in `out`, named for it."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for run in collection.runs:
        name = "".join(c if c.isprintable() else "_" for c in run.name.replace("/", "--"))
        file = out / f"{name}.json"
        file.write_bytes(summaries.encode(run))
        written.append(file)
    return written


class _Found:
    """What lies at the paths, as it is found."""

    def __init__(self):
        self.runs: list[tuple[RunSummary, Path | None]] = []
        self.problems: list[str] = []
        self.studies: dict[Path, Study] = {}

    def look(self, path: Path) -> None:
        """Everything at one path; a problem if that is nothing."""
        before = len(self.runs) + len(self.problems)
        if path.is_file():
            self._summary(path, asked=True)
        elif not path.is_dir():
            self.problems.append(f"{path} does not exist.")
        elif _looks_like_a_run(path):
            self._run(path, path.resolve().name)
        else:
            self._below(path, path, DEPTH)
            if len(self.runs) + len(self.problems) == before:
                what = "the study" if (path / "study.json").exists() else "the folder"
                self.problems.append(f"{path}: {what} has no runs.")

    def _below(self, folder: Path, root: Path, depth: int) -> None:
        if (folder / "study.json").exists():
            self._study(folder)
        for file in sorted(set(folder.glob("*.json")) - {folder / "study.json"}):
            self._summary(file, asked=folder.name == "summaries")
        for inner in sorted(_folders(folder)):
            if _looks_like_a_run(inner):
                parts = [part for part in inner.relative_to(root).parts if part != "runs"]
                self._run(inner, "/".join(parts))
            elif depth > 1:
                self._below(inner, root, depth - 1)

    def _study(self, folder: Path) -> None:
        try:
            self.studies[folder] = spec.read(folder)
        except UserError as error:
            self.problems.append(f"{error.problem}.")

    def _run(self, folder: Path, name: str) -> None:
        if not (folder / "config.json").exists():
            self.problems.append(f"{folder} is half-written: it has no config.json; left out.")
            return
        try:
            self.runs.append((folders.summary(folder, name), folder))
        except UserError as error:
            self.problems.append(f"{error.problem}; left out.")

    def _summary(self, file: Path, *, asked: bool) -> None:
        """A file that holds something else is a problem only where a summary must be."""
        try:
            summary = summaries.decode(file.read_bytes())
        except OSError as error:
            self.problems.append(f"{file} cannot be read ({error.strerror}).")
        except UserError as error:
            if asked or error.field != "json":
                self.problems.append(f"{file}: {error}; left out.")
        else:
            if summary is not None:
                self.runs.append((summary, None))
            elif asked:
                self.problems.append(f"{file} holds no summary of a run; left out.")


def _looks_like_a_run(folder: Path) -> bool:
    """A run's config.json, or what else a run leaves; a study is none."""
    if (folder / "study.json").exists():
        return False
    return any((folder / name).exists() for name in ("config.json", *_OF_A_RUN))


def _folders(folder: Path) -> Iterator[Path]:
    return (f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))


def _distinct(found: _Found) -> tuple[list[RunSummary], dict[str, Path]]:
    """Each run once, under a name of its own; and where it lies."""
    runs: dict[str, RunSummary] = {}
    folders: dict[str, Path] = {}
    for run, folder in found.runs:
        name, number = run.name, 2
        while name in runs and runs[name] != dataclasses.replace(run, name=name):
            name, number = f"{run.name} ({number})", number + 1
        runs[name] = dataclasses.replace(run, name=name)
        if folder is not None:
            folders[name] = folder
    return list(runs.values()), folders


def _once_per_seed(
    runs: Sequence[RunSummary], labels: Mapping[str, str], problems: list[str]
) -> tuple[RunSummary, ...]:
    """One run of a variant, environment and seed: the one that got furthest."""
    best: dict[tuple[str, str, int], RunSummary] = {}
    for run in runs:
        key = (run.environment, labels[run.name], run.seed)
        other = best.get(key)
        if other is None:
            best[key] = run
            continue
        keep, leave = (run, other) if run.steps > other.steps else (other, run)
        best[key] = keep
        problems.append(
            f"{leave.name} and {keep.name} are the same agent, environment and seed; "
            f"{leave.name} is left out."
        )
    return tuple(best.values())
