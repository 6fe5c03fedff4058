"""A command runs here as a user types it."""

from click.testing import CliRunner, Result

from sweep_clustering.pipeline.commands.main import main


def sweep(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])
