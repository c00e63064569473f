from shellrun import refused, run


def test_reproduce_prints_its_folder(tmp_path):
    code, out, err = run(
        "reproduce", "table2", "--out", tmp_path / "paper", "--replications", 2, "--jobs", 1
    )
    assert code == 0
    assert out.strip() == str(tmp_path / "paper")
    assert "2 replications" in err
    assert (tmp_path / "paper" / "table2.csv").exists()


def test_reproduce_refuses_nonsense(tmp_path):
    assert "figure7" in refused_usage("reproduce", "figure7", "--out", tmp_path)
    (tmp_path / "file").write_text("")
    assert "cannot create this folder" in refused("reproduce", "--out", tmp_path / "file" / "x")


def refused_usage(*args):
    code, _, err = run(*args)
    assert code == 2
    return err
