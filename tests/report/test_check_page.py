"""The page of an audit in a real browser: 200 samples by keyboard, answers kept and saved."""

import csv

import numpy as np
import pytest
from watching import HOSTILE, PHONE

from hierlpr import Hierarchy, load_audit, simulate
from hierlpr.audit import start_audit
from hierlpr.report.check_page import write_check_page


@pytest.fixture(scope="module")
def audited(tmp_path_factory, disease):
    folder = tmp_path_factory.mktemp("audit")
    data = simulate.disease(n_samples=1500, rng=2)
    names = tuple(f"patient {i}" for i in range(1500))
    audit = start_audit(
        disease.model.predict_proba(data.scores), data.hierarchy, samples=names, checks=200
    )
    audit.save(folder)
    write_check_page(folder / "check.html", audit, show={names[i]: f"Text {i}" for i in range(9)})
    truth, frame = {}, audit.to_check()
    for name, label in zip(frame["sample"], frame["label"], strict=True):
        is_true = data.truth[names.index(name), data.hierarchy.index(label)]
        truth.setdefault(name, {})[label] = bool(is_true)
    return folder, audit, truth


def test_two_hundred_samples_by_keyboard_alone(watch, audited, tmp_path):
    folder, audit, truth = audited
    page = watch(folder / "check.html")
    press = page.keyboard.press
    assert page.inner_text("#progress") == "Sample 1 of 200; 0 checked."
    for name, answers in truth.items():
        assert page.inner_text("#name") == name
        if all(answers.values()):
            press("a")
        else:
            while True:
                rows = page.locator("#labels li")
                states = rows.evaluate_all("all => all.map(e => e.dataset.answer)")
                if "" not in states:
                    break
                label = page.evaluate(
                    "document.activeElement.querySelector('.label').textContent"
                ).split(" (")[0]
                press("y" if answers[label] else "n")
        press("Enter")
    assert page.inner_text("#progress").startswith("Sample 200 of 200; 200 checked")
    with page.expect_download() as download:
        press("s")
    download.value.save_as(tmp_path / "check.csv")
    with (tmp_path / "check.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["audit"] for row in rows} == {audit.fingerprint}
    answers = {name: [row[name] for row in rows] for name in ("sample", "label", "correct")}
    recorded = load_audit(folder).record(answers)
    assert recorded.n_checked == 200
    for row in rows:
        assert (row["correct"] == "yes") == truth[row["sample"]][row["label"]]


def test_answers_survive_a_visit_and_follow_the_hierarchy(watch, tmp_path):
    h = Hierarchy([("A", "B"), ("B", "C"), ("A", "D")])
    audit = start_audit(np.tile([[0.99, 0.98, 0.97, 0.96]], (60, 1)), h, checks=60)
    write_check_page(tmp_path / "check.html", audit, show={})
    page = watch(tmp_path / "check.html")

    def states():
        return page.eval_on_selector_all("#labels li", "all => all.map(e => e.dataset.answer)")

    assert page.eval_on_selector_all("#labels .label", "all => all.map(e => e.textContent)") == [
        "A", "B", "C", "D"
    ]  # fmt: skip
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("y")
    assert states() == ["yes", "yes", "yes", ""]
    page.keyboard.press("u")
    assert states() == ["yes", "yes", "yes", "unsure"]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("n")
    assert states() == ["", "no", "no", "unsure"]  # the last answer wins
    page.keyboard.press("y")  # a slip that is corrected leaves nothing behind
    assert states() == ["yes", "yes", "", "unsure"]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("u")
    assert states() == ["", "unsure", "", "unsure"]
    page.click("li:first-child button.down")
    assert states() == ["yes", "no", "no", "no"]
    page.click("#next")
    page.click("#all")
    address, page = page.url, page.context.new_page()
    page.goto(address)
    assert page.inner_text("#progress") == "Sample 3 of 60; 2 checked."
    page.click("#back")
    assert states() == ["yes"] * 4
    page.click("#theme")
    page.click("#open")
    assert "certified" not in page.inner_text("main")


def test_hostile_names_only_become_text(watch, tmp_path):
    h = Hierarchy([(HOSTILE[i // 3], HOSTILE[i]) for i in range(1, len(HOSTILE))])
    names = tuple(HOSTILE[i % 12] + str(i) for i in range(30))
    score = np.tile(np.linspace(0.99, 0.95, 12), (30, 1))
    audit = start_audit(score, h, samples=names, checks=30)
    show = {name: "javascript:alert(1)" for name in names}
    write_check_page(tmp_path / "check.html", audit, show=show, title=HOSTILE[0])
    page = watch(tmp_path / "check.html", viewport=PHONE)
    for _ in range(30):
        page.keyboard.press("a")
        page.keyboard.press("Enter")
    assert "30 checked" in page.inner_text("#progress")
    assert page.locator("#show a").count() == 0
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"]
