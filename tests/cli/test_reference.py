"""The command-line page is made from the commands, and every command has help and an example."""

import sys

import click
import pytest

from hierlpr.cli import main
from realdata import ROOT

sys.path.insert(0, str(ROOT / "docs" / "making"))
from cli_page import cli_reference


def test_the_page_is_up_to_date():
    """Run ``python docs/making/cli_page.py > docs/cli.md`` after changing a command."""
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == cli_reference()


@pytest.mark.parametrize("name", main.list_commands(None))
def test_every_command_explains_itself(name):
    command = main.get_command(None, name)
    assert command.help
    assert command.epilog.startswith(f"Example: hierlpr {name}")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
