"""Messages, progress, help and its page, and bad input of every kind: exit code 2, one message."""

import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import badfiles
import click
import numpy as np
import pytest
from badfiles import P_VALUES, RANKING, SCORES, TREE, TRUTH
from shellrun import refused, run, succeeded

from hierlpr import HierLPR, read_hierarchy
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
    tree = tmp_path / "tree.csv"
    tree.write_text("parent,child\nA,B\n")

    def broken(*_, **__):
        raise error

    monkeypatch.setattr("hierlpr.io.hierarchy_formats.parse_edge_list", broken)
    for error, message in (
        (OSError(28, "No space left on device", "x.csv"), "x.csv: No space left on device"),
        (ImportError("x.so: failed to map"), "a library cannot be loaded (x.so: failed to map"),
        (RuntimeError("inside"), "unexpected RuntimeError: inside"),
    ):
        code, out, err = run("inspect", tree)
        assert (code, out) == (1, "")
        assert message in err
        assert "Traceback" not in err
        assert ("fault of hierlpr" in err) == isinstance(error, RuntimeError)
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
    assert command.epilog.startswith(f"\b\nExample:\n  hierlpr {name}")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name


# -- bad input -----------------------------------------------------------------------------------

INPUTS = {
    "inspect": ["hierarchy"],
    "fit": ["hierarchy", "scores", "truth"],
    "rank": ["model", "scores"],
    "check": ["model", "scores"],
    "evaluate": ["hierarchy", "ranking", "truth"],
    "report": ["model", "scores", "truth"],
    "discover": ["hierarchy", "p_values"],
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    for name, text in (("hierarchy", TREE), ("scores", SCORES), ("truth", TRUTH),
                       ("ranking", RANKING), ("p_values", P_VALUES)):  # fmt: skip
        (folder / name).with_suffix(".csv").write_text(text)
    truth = np.array([[1, i % 2, 0] for i in range(60)])
    model = HierLPR(read_hierarchy(folder / "hierarchy.csv"), joint=False)
    model.fit(np.arange(180.0).reshape(60, 3), truth).save(folder / "model.hlpr")
    return folder


def command(name, good, out, **changed):
    """One command with its inputs; `changed` gives another path for some of them."""
    files = {key: changed.get(key, good / f"{key}.{'hlpr' if key == 'model' else 'csv'}")
             for key in INPUTS[name]}  # fmt: skip
    if name == "inspect":
        return ["inspect", files["hierarchy"]]
    given = [x for key in INPUTS[name] for x in (f"--{key.replace('_', '-')}", files[key])]
    if name == "evaluate":
        return [name, "-q", *given, "--json", out / "out.json"]
    ends = {"fit": "hlpr", "report": "html"}
    return [name, "-q", *given, "--out", out / f"out.{ends.get(name, 'csv')}"]


def check(name, good, tmp_path, file, content, *, where):
    """Return the message of a command that gets a bad file; nothing is written."""
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = refused(*command(name, good, tmp_path, **{where: path}))
    assert str(path) in said
    assert [p.name for p in tmp_path.iterdir()] == [file]
    return said


MALFORMED = [
    pytest.param(name, where, *case, id=f"{where}-{i}-{case[0]}")
    for name, where, cases in [
        ("inspect", "hierarchy", badfiles.HIERARCHIES),
        ("fit", "scores", badfiles.SCORE_FILES),
        ("fit", "truth", badfiles.TRUTH_FILES),
        ("evaluate", "ranking", badfiles.RANKINGS),
    ]
    for i, case in enumerate(cases)
]


@pytest.mark.parametrize(("name", "where", "end", "content", "place"), MALFORMED)
def test_malformed_content(tmp_path, good, name, where, end, content, place):
    said = check(name, good, tmp_path, f"bad.{end}", content, where=where)
    assert re.search(rf"{place}\b", said), said


ODD = [
    pytest.param(name, where, file, content, id=f"{name}-{where}-{file}")
    for where, files, names in [
        ("scores", badfiles.TABLES, ["fit", "rank"]),
        ("truth", badfiles.TABLES, ["fit", "evaluate"]),
        ("ranking", badfiles.ODD_RANKINGS, ["evaluate"]),
        ("p_values", badfiles.P_VALUE_FILES, ["discover"]),
        ("hierarchy", badfiles.ODD_HIERARCHIES, ["inspect", "fit"]),
        ("model", badfiles.MODELS, ["rank", "report"]),
    ]
    for file, content in files.items()
    for name in names
]


@pytest.mark.parametrize(("name", "where", "file", "content"), ODD)
def test_odd_files(tmp_path, good, name, where, file, content):
    check(name, good, tmp_path, file, content, where=where)


def test_changed_models(tmp_path, good):
    with np.load(good / "model.hlpr") as held:
        parts = dict(held)
    meta = json.loads(bytes(parts["meta"]).decode())
    later = json.dumps({**meta, "format": [99, 0]}).encode()
    for name, value in {
        "meta": [None, np.frombuffer(b"{oh", np.uint8), np.array([{}], object),
                 np.frombuffer(later, np.uint8)],
        "lpr_.curves.knot_lpr": [None, np.zeros(3)],
    }.items():  # fmt: skip
        for array in value:
            sink = io.BytesIO()
            np.savez(sink, **{k: v for k, v in {**parts, name: array}.items() if v is not None})
            check("rank", good, tmp_path, "bad.hlpr", sink.getvalue(), where="model")
    whole = (good / "model.hlpr").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not a model", b"[1, 2]", b"PK\x03\x04junk"):
        check("rank", good, tmp_path, "bad.hlpr", content, where="model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fdr", "1.5"], "On the command line: --fdr A"),
        (["--fdr", "10"], "Hint: 10 % is 0.1."),
        (["--fdr", "1"], "0.99 is 99 %"),
        (["--fdr", "ten"], "'ten' is not a valid float"),
        (["--fdr", "0.1", "--max-f"], "--fdr, --precision and --max-f exclude each other"),
        (["--confidence", "0.9"], "--confidence needs --fdr, --precision"),
        (["--max-f", "--beta", "-1"], "with beta > 0"),
        (["--max-f", "--beta", "nan"], "with beta > 0"),
        (["--lpr", "magic"], "'magic' is not one of"),
        (["--calibration-scores", "x"], "give both --calibration-scores"),
        (["--fdr", "0.1", "--calibration-scores", "no.csv", "--calibration-truth", "no.csv"],
         "no.csv: there is no such file"),
        (["--fdr", "0.1", "--weights", "w.csv", "--max-weight", "2"], "--weights W, --confidence"),
        (["--fdr", "0.1", "--confidence", "0.9", "--weights", "w.csv"], "--max-weight B"),
    ],
)  # fmt: skip
def test_options(tmp_path, good, options, message):
    assert message in refused(*command("fit", good, tmp_path), *options)


def test_an_empty_separator(tmp_path):
    (tmp_path / "p.txt").write_text("A/B\n")
    said = refused("inspect", tmp_path / "p.txt", "--path-sep", "")
    assert "separator of a path list must not be empty" in said


@pytest.mark.parametrize(("name", "where"), [(n, w) for n, all_ in INPUTS.items() for w in all_])
def test_places_that_are_no_files(tmp_path, good, name, where):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "gone.csv").symlink_to("nowhere.csv")
    before = sorted(p.name for p in tmp_path.iterdir())
    places = [*before, "x" * 300 + ".csv"]
    inside = good / "scores.csv" / "x.csv"
    for place in [*(tmp_path / x for x in places), inside, "zzz://x/y.csv"]:
        said = refused(*command(name, good, tmp_path, **{where: place}))
        assert os.path.basename(place) in said
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_outputs_that_cannot_be_written(tmp_path, good):
    nowhere = tmp_path / "none" / "m.hlpr"
    assert str(nowhere) in refused(*command("fit", good, tmp_path)[:-1], nowhere)


@pytest.mark.parametrize("name", ["fit", "rank", "evaluate", "report", "discover"])
def test_devices_are_not_written_to(tmp_path, good, name):
    """A node of its own with the numbers of the null device: never the one of the system."""
    device = tmp_path / "device.csv"
    try:
        os.mknod(device, 0o020600, os.makedev(1, 3))
    except (OSError, AttributeError):
        pytest.skip("no device can be made here")
    said = refused(*command(name, good, tmp_path)[:-1], device)
    assert "a device or a pipe" in said
    assert device.is_char_device()
    assert [p.name for p in tmp_path.iterdir()] == ["device.csv"]


def test_samples_without_truth_and_too_few_to_split(tmp_path, good):
    for other in ("sample,label\nq,A\n", "sample,A,B,C\nq,1,0,0\n"):
        (tmp_path / "other.csv").write_text(other)
        for more in (["--missing-truth", "skip"], []):
            args = command("evaluate", good, tmp_path, truth=tmp_path / "other.csv")
            assert "none of the 1 samples of" in refused(*args, *more)
    (tmp_path / "few.csv").write_text("sample,A,B,C\ns1,1,1,1\ns2,0,0,0\n")
    few = command("fit", good, tmp_path, scores=tmp_path / "few.csv")
    said = refused(*few, "--fdr", "0.1", "--missing-truth", "skip")
    assert "few.csv: 2 sample(s) cannot be split" in said


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["rnak"], "did you mean 'rank'?"),
        (["fit", "--precison", "0.9"], "--precision"),
        (["fit", "--precision", "90%"], "write 0.9 for 90%"),
        (["fit", "--precision", "0,9"], "write 0.9 for 0,9"),
    ],
)
def test_slips_are_answered_with_what_was_meant(args, expected):
    needed = [x for y in ("hierarchy", "scores", "truth", "out") for x in (f"--{y}", "x")]
    assert expected in refused(*args, *(needed if args[0] == "fit" else ()))


# -- outputs that meet other files ----------------------------------------------------------------


@pytest.fixture
def files(good, tmp_path):
    return Path(shutil.copytree(good, tmp_path / "in"))


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
            for p in folder.rglob("*")}  # fmt: skip


@pytest.mark.parametrize("name", ["fit", "rank", "evaluate"])
def test_a_work_folder_keeps_what_is_in_it(files, tmp_path, name):
    work = tmp_path / "home"
    (work / "work").mkdir(parents=True)
    (work / "work" / "text.tex").write_text("years of work")
    (work / "lock").write_text("mine")
    before = contents(work)
    succeeded(*command(name, files, tmp_path), "--work", work)
    assert contents(work) == before
    bad = files / ("ranking.csv" if name == "evaluate" else "scores.csv")
    bad.write_text("sample,A,B,C\ns1,x,y,z\n")
    refused(*command(name, files, tmp_path), "--work", work)
    assert contents(work) == before


@pytest.mark.parametrize(
    ("name", "source"), [(n, s) for n in INPUTS if n != "inspect" for s in INPUTS[n]]
)
@pytest.mark.parametrize("way", ["same", "link", "hard link", "dots"])
def test_an_output_that_is_an_input_is_refused(files, name, source, way):
    source = f"{source}.{'hlpr' if source == 'model' else 'csv'}"
    out = files / source
    if way == "link":
        out = files / f"link-{source}"
        out.symlink_to(source)
    elif way == "hard link":
        out = files / f"hard-{source}"
        out.hardlink_to(files / source)
    elif way == "dots":
        out = files / ".." / "in" / source
    before = contents(files)
    assert "would be overwritten" in refused(*command(name, files, files)[:-1], out)
    assert contents(files) == before


def test_json_that_meets_inputs_or_outputs_is_refused(files, tmp_path):
    before = contents(files)
    for place in (files / "model.hlpr", files / "scores.csv", tmp_path / "out.csv"):
        refused(*command("rank", files, tmp_path), "--json", place)
    assert contents(files) == before
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("args", [["demo"], ["simulate", "--setting", "1", "--samples", "60"]])
def test_a_folder_of_results_keeps_files_of_the_users(tmp_path, args):
    file = tmp_path / "scores.csv"
    file.write_text("mine")
    assert f"{file.name} exists" in refused(*args, "--out", tmp_path)
    assert contents(tmp_path) == {file.name: b"mine"}
    if args[0] == "simulate":
        file.unlink()
        (tmp_path / "other.csv").write_text("mine")
        for _ in range(2):
            assert run(*args, "--out", tmp_path)[0] == 0
        listed = json.loads((tmp_path / "_hierlpr.json").read_text())["files"]
        assert "other.csv" not in listed
