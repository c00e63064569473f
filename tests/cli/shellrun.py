"""Run the command line in this process, as a user would see it."""

import click.testing

from hierlpr.cli import main


def run(*args):
    """Exit code, stdout and stderr of one command."""
    result = click.testing.CliRunner().invoke(main, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def succeeded(*args):
    """Return stdout and stderr of a command that must end with exit code 0."""
    code, out, err = run(*args)
    assert code == 0, err
    return out, err


def refused(*args):
    """Return the one message of a command that must end with exit code 2."""
    code, out, err = run(*args)
    assert code == 2, (code, out, err)
    assert "Traceback" not in err
    assert out == ""
    assert err.count("Error:") == 1
    return err
