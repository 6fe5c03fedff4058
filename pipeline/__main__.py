"""Entry of the `sweep` command: the start-up check, before anything of ours is imported, then the command."""

from __future__ import annotations

import sys

from pipeline.startup import ShadowedPackageError, check_shadowing


def main() -> None:
    """Run the command, or say in one message which package stands before one of ours."""
    try:
        check_shadowing()
    except ShadowedPackageError as error:
        sys.exit(f"sweep: {error}")
    from pipeline.commands.main import main as command

    command(prog_name="sweep")


if __name__ == "__main__":
    main()
