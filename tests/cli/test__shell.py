"""Messages, progress and errors of all commands, their help, and the page made from it."""

import io
import sys

import click
import pytest
from shellrun import run

from hierlpr.cli import main
from hierlpr.cli._shell import BadInput, Shell
from hierlpr.io import ReadReport
from realdata import ROOT

sys.path.insert(0, str(ROOT / "docs" / "making"))


from cli_page import cli_reference


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(monkeypatch, stream):
    """Put a stream in place of stderr; in the test itself, for pytest replaces it before."""
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def test_progress_is_drawn_and_cleared_on_a_terminal(monkeypatch, capsys):
    terminal = watched(monkeypatch, Terminal())
    shell = Shell(quiet=False)
    with shell.progress("rows") as update:
        update("fitting", 0, 4)
        shell.say("done with that")
        update("ranking", 0, 4)
        shell.result("data")
    shell.close("finished")
    drawn = terminal.getvalue()
    assert "\rfitting ..." in drawn
    assert "\r           \rdone with that\n" in drawn
    assert "\rranking ..." in drawn
    assert drawn.endswith(" s)\n")
    assert capsys.readouterr().out == "data\n"


@pytest.mark.parametrize("quiet", [True, False])
def test_nothing_is_drawn_when_quiet_or_outside_a_terminal(quiet, monkeypatch):
    stream = watched(monkeypatch, Terminal() if quiet else io.StringIO())
    shell = Shell(quiet=quiet)
    with shell.progress() as update:
        update("work", 0, 2)
        update("work", 1, 2)
        update("work", 2, 2)
    assert stream.getvalue() == ""


def test_losses_are_said_even_when_quiet(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = watched(monkeypatch, Terminal())
    shell = Shell(quiet=True)
    shell.read(ReadReport("x.csv", "wide scores", {"samples": 3}, {"Q": 2}))
    shell.close("finished")
    assert terminal.getvalue() == ("Warning: 2 entries for 1 unknown label(s) were skipped: 'Q'\n")


@pytest.mark.parametrize(
    ("stream", "environment", "is_coloured"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),  # as no-color.org has it: set and not empty
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(stream, environment, is_coloured, monkeypatch):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = watched(monkeypatch, stream)
    stream.seek(0)
    stream.truncate()
    shell = Shell(quiet=False)
    shell.warn("look out")
    shell.close("wrote x")
    BadInput("no").show()
    text = stream.getvalue()
    assert ("\x1b[33m\x1b[1mWarning:\x1b[0m look out" in text) is is_coloured
    assert ("\x1b" in text) is is_coloured
    assert "look out" in text
    assert "Error:" in text


def test_disk_full_is_exit_code_1_and_internal_errors_do_not_spill(tmp_path, monkeypatch):
    import hierlpr.io.hierarchies as module

    tree = tmp_path / "tree.csv"
    tree.write_text("parent,child\nA,B\n")

    def broken(*_, **__):
        raise RuntimeError("inside")

    monkeypatch.setattr(module, "parse_edge_list", broken)
    code, out, err = run("inspect", tree)
    assert (code, out) == (1, "")
    assert "unexpected RuntimeError: inside" in err
    assert "Traceback" not in err

    def full(*_, **__):
        raise OSError(28, "No space left on device", "x.csv")

    monkeypatch.setattr(module, "parse_edge_list", full)
    code, _, err = run("inspect", tree)
    assert code == 1
    assert "x.csv: No space left on device" in err
    monkeypatch.setattr(module, "parse_edge_list", broken)
    monkeypatch.setenv("HIERLPR_DEBUG", "1")
    with pytest.raises(RuntimeError, match="inside"):
        run("inspect", tree)


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
