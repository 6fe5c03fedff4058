"""Entry of the `sweep` command, which is also `python -m sweep_clustering`."""

import atexit
import gc
import os
import signal
import sys

from sweep_clustering.installation import (
    WITHOUT_CHECKS,
    InstallationError,
    check_files,
    same_arithmetic,
)

BAD_INPUT = 2  # the code of sweep_clustering.pipeline.common, which would load click for the message below


def main() -> None:
    """Run the command, or say in one line why it cannot run."""
    open_standard_streams()
    # Python would search the objects of all modules for garbage a thousand times while they are loaded and
    # figures are drawn, which is 8 % of a report.
    gc.set_threshold(50_000, 50)
    atexit.register(gc.freeze)  # else Python searches all that a command leaves for garbage before it ends
    try:
        if not __debug__:
            raise InstallationError(WITHOUT_CHECKS)
        check_files()
        os.environ.update(same_arithmetic() | os.environ)  # before numpy is loaded, and for workers
    except InstallationError as error:
        print(f"sweep: {error}", file=sys.stderr)  # noqa: T201  # click would be loaded for this alone
        sys.exit(BAD_INPUT)
    try:
        from sweep_clustering.pipeline.commands.main import main as command
        from sweep_clustering.pipeline.commands.output import let_readers_leave

        let_readers_leave()
        command(prog_name="sweep")
    except KeyboardInterrupt:  # while modules are loaded; later the command itself says so
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("\ninterrupted", file=sys.stderr)  # noqa: T201
        sys.exit(128 + signal.SIGINT)


def open_standard_streams() -> None:
    """Connect each closed standard stream to the null device: the next file would take its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  # as long as the process


if __name__ == "__main__":
    main()
