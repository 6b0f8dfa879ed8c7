"""What a user did wrong, and why a run stopped, said in one sentence."""


class UserError(Exception):
    """A mistake in the user's input: names the field and says what to change.

    The command line prints it as one line and exits with 2; library code raises it
    before any compute.
    """

    def __init__(self, field: str, problem: str):
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}")


class Stopped(RuntimeError):
    """A run that could not go on, through no mistake in its input; exit code 1."""
