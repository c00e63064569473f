"""The demo goes the whole way through files; `reproduce` writes the paper's tables."""

from shellrun import refused, run


def test_the_demo_runs_end_to_end(tmp_path):
    folder = tmp_path / "demo"
    code, out, err = run("demo", "--calls", "5", "--out", folder)
    assert code == 0, err
    assert "196 samples x 110 labels" in out
    assert "90 % with 90 % confidence: kept." in out
    assert "before one of their parents: 0." in out
    assert out.count("yes  ") + out.count("no   ") >= 5
    for command in ("fit", "rank", "evaluate", "report"):
        assert f"\n$ hierlpr {command} " in out
    assert f"The report: {folder / 'report.html'}" in out
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "Neurological disorder" in page
    again = tmp_path / "again.html"
    base = ("report", "--model", folder / "model.hlpr", "--scores", folder / "test_scores.csv")
    code, out, err = run(*base, "--truth", folder / "test_truth.csv", "--out", again,
                         "--title", "A <b>title</b>", "--max-samples", "0")  # fmt: skip
    assert (code, out) == (0, ""), err
    assert "196 samples x 110 labels" in err
    bare = again.read_text(encoding="utf-8")
    assert "A &lt;b&gt;title&lt;/b&gt;" in bare
    assert '"t001"' in page
    assert '"t001"' not in bare
    (tmp_path / "t.csv").write_text("sample,label\nt001,Nonsense\n")
    said = refused(*base, "--truth", tmp_path / "t.csv", "--out", tmp_path / "no.html", "-q")
    assert "t.csv, line 2: label 'Nonsense'" in said
    assert not (tmp_path / "no.html").exists()


def test_reproduce_prints_its_folder(tmp_path):
    code, out, err = run(
        "reproduce", "table2", "--out", tmp_path / "paper", "--replications", 2, "--jobs", 1
    )
    assert code == 0
    assert out.strip() == str(tmp_path / "paper")
    assert "2 replications" in err
    assert (tmp_path / "paper" / "table2.csv").exists()


def test_reproduce_refuses_nonsense(tmp_path):
    code, _, err = run("reproduce", "figure7", "--out", tmp_path)
    assert (code, "figure7" in err) == (2, True)
    (tmp_path / "file").write_text("")
    assert "cannot create this folder" in refused("reproduce", "--out", tmp_path / "file" / "x")
