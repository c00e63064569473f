"""Every code block of the documentation runs, and prints what the page says."""

import contextlib
import http.client
import json
import threading
from http.server import ThreadingHTTPServer

import pytest

import docscode

PAGES = sorted((docscode.ROOT / "docs").glob("*.md"))
PAGES = [page for page in [*PAGES, docscode.ROOT / "README.md"] if "```" in page.read_text()]
DATA = {"csv", "tsv", "json", "obo", "arff", "toml", "html", "text", "dockerfile"}
# Run by test_r.py.
ELSEWHERE = {"r"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    for block, got in docscode.Runner(page.name).printed(text):
        assert got is not None, f"{page.name}: nothing was run before\n{block.body}"
        assert docscode.agrees(block.body, got), (
            f"{page.name} says\n{block.body}\nbut this is printed\n{got}\n"
            f"If that is right: python tests/docscode.py docs/{page.name}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page):
    text = page.read_text(encoding="utf-8")
    found = docscode.blocks(text)
    assert len(found) * 2 == text.count("```"), "a fence is not closed, or not understood"
    assert {block.lang for block in found} <= {"python", "sh", "shown", *DATA, *ELSEWHERE}
    said = {b.title for b in found if b.lang == "text" and b.body.startswith(("$ ", "hierlpr "))}
    assert said <= {"usage"}, "a command belongs into a sh block, which is run"


def test_output_that_depends_on_the_speed_of_the_machine_is_left_out():
    kept = "a.csv: 3 rows\n300 of 900 samples ...\n"
    slow = "compiling inner loops, once: 9 s\nfitting ...\nreading scores   5 %, 1 of 20 rows\n"
    assert docscode.TIMING.sub("", slow + kept) == kept


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Return the address of the service of the guide, and the labels of its model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("service"))
        runner = docscode.Runner("how-to-service.md")
        list(runner.printed((docscode.ROOT / "docs" / "how-to-service.md").read_text()))
        server = ThreadingHTTPServer(("127.0.0.1", 0), runner.names["Handler"])
        patch.setattr(runner.names["Handler"], "log_message", lambda *_: None)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address, runner.names["model"].hierarchy_.labels
        server.shutdown()
        thread.join()
        server.server_close()


def post(address, body, **headers):
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=30)) as connection:
        connection.putrequest("POST", "/")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.mark.parametrize(
    "body", ["[]", "null", "3", "{", "{}", "[" * 100_000, '"x"', "LIST", "NESTED", "NULL", "NAN"]
)
def test_the_service_refuses_what_is_no_sample(service, body):
    address, labels = service
    values = {"LIST": [0.5], "NESTED": {"a": 1}, "NULL": None, "NAN": float("nan")}
    if body in values:
        body = json.dumps(dict.fromkeys(labels, 0.5) | {labels[-1]: values[body]})
    status, answer = post(address, body.encode(), Content_Length=str(len(body)))
    assert status == 400
    assert answer["error"]


@pytest.mark.parametrize("headers", [{}, {"Content_Length": "-1"}, {"Content_Length": "x"}])
def test_the_service_refuses_a_missing_length(service, headers):
    address, labels = service
    assert post(address, b"{}", **headers)[0] == 400
    body = json.dumps(dict.fromkeys(labels, 0.5)).encode()
    assert post(address, body, Content_Length=str(len(body)))[0] == 200
