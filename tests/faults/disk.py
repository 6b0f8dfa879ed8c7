"""A file system that fails, or forgets, at an operation of one's choice."""

from unittest import mock

from emphatic.runtime import checkpoints, files

OPERATIONS = ("write", "sync", "make_folder", "rename", "sync_folder", "remove")


class Killed(BaseException):
    """The process ended here."""


class Faulty:
    """The file system, on which operation number `at` fails; what was not synced is lost."""

    def __init__(self, at, error, *, stays=False):
        self.at, self.error, self.stays, self.count, self.unsynced = at, error, stays, 0, {}

    def __enter__(self):
        real = {name: getattr(files, name) for name in OPERATIONS}
        self.patch = mock.patch.multiple(
            files, **{name: self.counted(name, real[name]) for name in OPERATIONS}
        )
        self.patch.start()
        return self

    def __exit__(self, kind, error, trace):
        self.patch.stop()
        return isinstance(error, Killed)

    def counted(self, name, operation):
        def run(*args):
            self.count += 1
            if self.count == self.at or (self.stays and self.count > self.at):
                if name == "write":  # Half of it reaches the file.
                    operation(args[0], memoryview(args[1])[: len(args[1]) // 2])
                    args[0].flush()
                if name == "remove":  # One of its files is gone.
                    (args[0] / checkpoints.ARRAYS).unlink(missing_ok=True)
                raise self.error
            if name in ("write", "sync"):
                self.unsynced[args[0].name] = name == "write"
            return operation(*args)

        return run

    def power_failure(self, folder):
        """What was written and not synced turns to zeros, under whatever name it now has."""
        for name, unsynced in self.unsynced.items():
            for file in folder.rglob(str(name).rsplit("/", 1)[-1]):
                if unsynced and file.parent.name.startswith((".writing-", "000000000004")):
                    file.write_bytes(bytes(file.stat().st_size))
