"""A command runs here as a user types it."""

from click.testing import CliRunner, Result

from sweep_clustering.pipeline.commands.main import main


def sweep(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> Result:
    """Run a command and check that it ends well."""
    result = sweep(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refuse(*arguments: object) -> str:
    """Run a command with bad input and return its problems, which are on stderr."""
    result = sweep(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr
