from shellrun import run


def test_the_demo_ranks_without_violations():
    code, out, _ = run("demo", "--calls", "5")
    assert code == 0
    assert "196 samples x 110 labels" in out
    assert "hierlpr: 0 times" in out
    assert out.count(" yes ") + out.count("  no ") >= 5
