"""The `emphatic` command: finds the verb, parses its options, reports mistakes in one line."""

import importlib
import sys

import emphatic
from emphatic.commands import parsing
from emphatic.errors import Stopped, UserError

VERBS = {
    "algorithms": "print the table of algorithms",
    "train": "train an agent, or go on with a run",
    "evaluate": "play whole episodes with a trained agent",
    "watch": "show a trained agent playing, as an animation",
    "diagnose": "run the paper's diagnostic experiments: curves, step sizes, figures, claims",
    "theory": "say what each algorithm does on an MDP: stability, fixed points, emphasis",
}
"""Verb and what it does; the code is `command` (or `main`) in `emphatic/commands/<verb>.py`."""


def main(argv: list[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 a check failed or a run stopped, 2 the user's mistake."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return
    if argv[0] == "--version":
        print(f"emphatic {emphatic.__version__}")
        return
    verb, rest = argv[0], argv[1:]
    try:
        if verb not in VERBS:
            raise UserError(verb, f"is no verb of emphatic; choose from {', '.join(VERBS)}")
        module = importlib.import_module(f"emphatic.commands.{verb}")
        if hasattr(module, "main"):
            module.main(rest)
        else:
            parsing.bound(module.command, verb, rest)()
    except UserError as error:
        print(f"emphatic: {error}", file=sys.stderr)
        sys.exit(2)
    except Stopped as error:
        print(f"emphatic: {error}", file=sys.stderr)
        sys.exit(1)


def usage() -> str:
    """What `emphatic --help` prints."""
    lines = [f"  {verb:<12} {what}" for verb, what in VERBS.items()]
    return "\n".join(
        [
            "usage: emphatic VERB [options]      (emphatic VERB --help lists them)",
            "",
            "Emphatic algorithms for deep reinforcement learning.",
            "",
            *lines,
        ]
    )
