"""The page in a real browser: quiet, alone, usable by mouse and keyboard, and safe."""

import pytest
from watching import PHONE, names

from hierlpr import HierLPR, simulate
from hierlpr.report import write_report


@pytest.fixture(scope="module")
def report_file(tmp_path_factory, disease):
    path = tmp_path_factory.mktemp("report") / "disease.html"
    write_report(path, disease.model, disease.scores, disease.truth)
    return path


@pytest.fixture
def opened(watch, report_file):
    return watch(report_file)


def test_it_opens_quietly_and_says_the_answer(opened):
    assert "calls" in opened.inner_text("#answer h2")
    assert opened.locator("figure svg").count() == 4
    assert opened.locator("#labels-table tbody tr").count() == 50


def test_search_in_the_hierarchy(opened):
    opened.click("#hierarchy-tools >> text=Close all")
    assert len(names(opened)) == 24
    opened.fill("#hierarchy-search", "lupus neph")
    opened.wait_for_selector("#hierarchy-tree .marked")
    assert "Lupus nephritis" in names(opened)
    assert opened.inner_text("#hierarchy-tools [role=status]") == "1 label found"
    opened.press("#hierarchy-search", "Enter")
    assert opened.inner_text("#hierarchy-panel h3") == "Lupus nephritis"
    assert opened.get_attribute("#hierarchy-tree .chosen", "aria-selected") == "true"
    focused = opened.evaluate("document.activeElement.querySelector('title').textContent")
    assert focused == "Lupus nephritis"


def test_the_keyboard_alone_is_enough(opened):
    opened.click("#hierarchy-tools >> text=Close all")
    opened.focus("#hierarchy-tree [tabindex='0']")
    press = opened.keyboard.press

    def focused():
        return opened.evaluate("document.activeElement.querySelector('title').textContent")

    first = focused()
    press("ArrowRight")
    assert opened.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    press("ArrowRight")
    inside = focused()
    assert inside != first
    press("Enter")
    assert opened.inner_text("#hierarchy-panel h3") == inside
    press("ArrowLeft")
    assert focused() == first
    press("ArrowLeft")
    assert opened.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    press("End")
    assert focused() == names(opened)[-1]
    press("Home")
    assert focused() == first
    assert opened.locator("#hierarchy-tree [tabindex='0']").count() == 1


def test_choosing_a_sample(opened, disease):
    calls = disease.model.predict(disease.scores)
    opened.select_option("#sample-pick", "7")
    right = int((calls[7] & disease.truth[7]).sum())
    wrong = int(calls[7].sum()) - right
    missed = int(disease.truth[7].sum()) - right
    summary = opened.inner_text("#samples-summary")
    assert f"{right} correct, {wrong} incorrect; {missed} of" in summary
    assert opened.locator("#samples-tree .disc.called").count() == calls[7].sum()
    opened.click("#samples-tools >> text=Next")
    assert opened.input_value("#sample-pick") == "8"
    opened.select_option("#sample-order", "most incorrect calls first")
    worst = (calls & ~disease.truth).sum(axis=1)
    assert worst[int(opened.input_value("#sample-pick"))] == worst.max()


def test_why_a_label_was_called_or_not(opened, disease):
    h = disease.model.hierarchy_
    lpr = disease.model.transform(disease.scores)
    calls = disease.model.predict(disease.scores)
    level = disease.model.cutoff_.level
    helped = [(m, k) for m in range(len(lpr)) for k in calls[m].nonzero()[0] if lpr[m, k] < level]
    sample, label = helped[0]
    opened.select_option("#sample-pick", str(sample))
    opened.click("#samples-drawing-tools >> text=Open all")
    opened.click(f"#samples-tree [data-label='{label}'] .name", force=True)
    assert opened.inner_text("#samples-panel h3") == h.labels[label]
    assert opened.inner_text("#why").startswith("Called together with ")
    outcome = "Correct:" if disease.truth[sample, label] else "Incorrect:"
    assert outcome in opened.inner_text("#samples-panel .outcome")
    opened.click("#samples-calls >> text=Show all")
    rows = opened.locator("#samples-calls tbody tr")
    assert rows.count() == h.n_labels
    assert opened.locator("#samples-calls td:text-is('yes')").count() == int(
        calls[sample].sum() + disease.truth[sample].sum()
    )
    opened.click("#samples-panel >> text=About this label")
    assert opened.inner_text("#hierarchy-panel h3") == h.labels[label]


def test_values_of_the_curves_and_another_cutoff(opened, disease):
    opened.evaluate(
        "document.getElementById('fig-pr').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    box = opened.locator("#fig-pr").bounding_box()
    opened.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
    shown = opened.inner_text(".tip:visible").split("\n")
    assert shown[0].startswith("recall ")
    assert shown[1::2] == ["HierLPR", "LPR alone", "Max-propagation", "Raw scores"]
    calls = disease.model.predict(disease.scores)
    assert f"{calls.sum():,} calls" in opened.inner_text("#cutoff-slider output")
    assert "Nothing is certified" in opened.inner_text("#cutoff-slider p")
    opened.focus("#cutoff-at")
    for _ in range(20):
        opened.keyboard.press("ArrowRight")
    words = opened.inner_text("#cutoff-slider output").split()
    level, n_calls, precision = float(words[4][:-1]), int(words[5].replace(",", "")), words[7]
    called = disease.model.predict_proba(disease.scores) >= level - 0.001
    assert n_calls == pytest.approx(called.sum(), rel=0.01)
    assert int(precision) == pytest.approx(100 * disease.truth[called].mean(), abs=2)
    opened.click("#cutoff-slider >> text=Cutoff in use")
    assert f"{calls.sum():,} calls" in opened.inner_text("#cutoff-slider output")


def test_addresses_of_samples_and_labels(watch, report_file, disease):
    page = watch(report_file)
    page.evaluate("location.hash = '#sample=7'")
    page.wait_for_function("document.getElementById('sample-pick').value === '7'")
    page.click("#samples-tools >> text=Next")
    assert page.evaluate("location.hash") == "#sample=8"
    page.evaluate("location.hash = '#label=Lupus%20nephritis'")
    page.wait_for_function("document.querySelector('#hierarchy-panel h3').textContent[0] === 'L'")
    assert page.inner_text("#hierarchy-panel h3") == "Lupus nephritis"
    page.evaluate("location.hash = '#label=%3Cimg%20src=x%3E'")
    page.wait_for_selector("#missing:visible")
    assert "does not show the label “<img src=x>”" in page.inner_text("#missing")


def test_sorting_and_searching_the_table(opened):
    def column(k):
        return opened.eval_on_selector_all(
            f"#labels-table tbody tr > :nth-child({k})", "all => all.map(e => e.textContent)"
        )

    support = [int(x.replace(",", "")) for x in column(2)]
    assert support == sorted(support, reverse=True)
    opened.click("#labels-table th >> text=label")
    assert column(1)[:2] == ["Acute leukemia", "Acute myeloid leukemia"]
    assert opened.get_attribute("#labels-table th:first-child", "aria-sort") == "ascending"
    opened.click("#labels-table th >> text=label")
    shown = column(1)
    assert shown == sorted(shown, reverse=True)
    opened.click("#labels-table th >> text=AUC")
    auc = [float(x) for x in column(3) if x != "\u2013"]
    assert auc == sorted(auc, reverse=True)
    opened.click("#labels-more >> text=Show more")
    assert opened.locator("#labels-table tbody tr").count() == 110
    opened.fill("#labels-search", "LEUKEMIA")
    assert all("leukemia" in name.lower() for name in column(1))
    assert opened.locator("#labels-more button").is_hidden()
    opened.click("#labels-table tbody tr >> nth=0 >> button")
    assert "leukemia" in opened.inner_text("#hierarchy-panel h3").lower()


def test_hostile_names_stay_text(watch, tmp_path, hostile):
    path = tmp_path / "hostile.html"
    write_report(path, hostile.model, hostile.scores, hostile.truth, title="<b>Title</b>")
    page = watch(path)
    assert page.title() == "<b>Title</b>"
    page.click("#hierarchy-tools >> text=Open all")
    labels = list(hostile.model.hierarchy_.labels)
    assert sorted(names(page)) == sorted(labels)
    assert page.locator("main script, main img, main b").count() == 0
    for i, name in enumerate(labels):
        page.click(f"#hierarchy-tree [data-label='{i}'] .disc", force=True)
        assert page.text_content("#hierarchy-panel h3") == name
    page.fill("#labels-search", "<script>")
    assert page.locator("#labels-table tbody tr").count() == 3
    page.select_option("#sample-pick", index=4)
    option = page.text_content("#sample-pick option >> nth=0")
    assert option.startswith(hostile.scores.index[0])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_chosen(watch, report_file, scheme):
    page = watch(report_file, color_scheme=scheme)

    def lightness():
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        text = page.evaluate("getComputedStyle(document.querySelector('figure text')).fill")
        return [sum(map(int, value[4:-1].split(", "))) for value in (color, text)]

    back, text = lightness()
    assert (back > text) == (scheme == "light")
    page.click("#theme")
    assert (lightness()[0] > lightness()[1]) == (scheme == "dark")


def test_a_phone_never_scrolls_sideways(watch, report_file):
    page = watch(report_file, viewport=PHONE, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    why = page.locator("#samples-calls td.wide").first.bounding_box()
    assert 0 <= why["x"] <= why["x"] + why["width"] <= PHONE["width"]  # not beside the screen
    page.tap("#hierarchy-tree [data-label='0'] .disc")
    assert page.inner_text("#hierarchy-panel h3") == "Neoplasm"


def test_print_shows_everything_in_light(watch, report_file):
    page = watch(report_file, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    assert not page.is_visible("nav")
    # Drawings would be too small or too large on paper: lists take their place.
    assert not page.is_visible("#hierarchy-tree")
    assert not page.is_visible("#samples-tree")
    assert page.locator("#samples-calls tbody tr").first.is_visible()


def test_a_label_with_several_parents_is_drawn_once(watch, tmp_path):
    h = simulate.random_dag(60, rng=1)
    data = simulate.random_model(h, rng=2, root=0.8).draw(400, rng=3)
    model = HierLPR(h).fit(data.scores[:300], data.truth[:300])
    path = tmp_path / "dag.html"
    report = write_report(path, model, data.scores[300:], data.truth[300:])
    assert report.answer.n_violations == 0
    page = watch(path)
    page.click("#hierarchy-tools >> text=Open all")
    assert sorted(names(page)) == sorted(h.labels)
    several = next(name for name in h.labels if len(h.parents(name)) > 1)
    page.fill("#hierarchy-search", several)
    page.press("#hierarchy-search", "Enter")
    listed = page.locator("#hierarchy-panel dd >> nth=0").inner_text()
    assert sorted(listed.split(", ")) == sorted(h.parents(several))


def test_many_labels_stay_usable(watch, tmp_path):
    h = simulate.random_tree(5000, max_depth=8, rng=5)
    data = simulate.random_model(h, rng=6, root=0.9).draw(60, rng=7)
    model = HierLPR(h).fit(data.scores[:40], data.truth[:40])
    path = tmp_path / "many.html"
    write_report(path, model, data.scores[40:], data.truth[40:])
    page = watch(path)
    assert 1 < len(names(page)) <= 60
    deepest = h.labels[int(h.levels.argmax())]
    page.fill("#hierarchy-search", deepest)
    page.press("#hierarchy-search", "Enter")
    assert page.inner_text("#hierarchy-panel h3") == deepest
    page.click("#hierarchy-tools >> text=Open all")
    assert 1000 < len(names(page)) <= 2000
    assert "Too many labels" in page.inner_text("#hierarchy-tools [role=status]")


def test_every_table_can_be_saved(opened, disease):
    saved = {}
    for button in opened.locator("button.csv").all():
        with opened.expect_download() as download:
            button.click()
        text = download.value.path().read_text(encoding="utf-8-sig")
        saved[download.value.suggested_filename] = text.splitlines()
    assert sorted(saved) == ["labels.csv", "methods.csv", "sample.csv", "trade-off.csv"]
    assert len(saved["labels.csv"]) == 111  # all labels, not the page that is shown
    assert saved["trade-off.csv"][0] == "precision,calls,recall"
    for line in saved["trade-off.csv"][1:] + saved["methods.csv"][1:]:
        assert all(float(x or 0) >= 0 for x in line.split(",")[1:])  # numbers, not formatted text
    tables = opened.locator("table:visible").count()
    assert tables == len(saved)


def test_a_formula_is_saved_as_text(opened):
    made = opened.evaluate("hl.csv([['=1+2', '-3', '@x', 'a\"b', 'c,d', '-x']])")
    assert made == '\'=1+2,-3,\'@x,"a""b","c,d",\'-x\r\n'
