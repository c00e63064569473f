"""Settings shared by all tests, and the browser of those that look at pages."""

import os
import shutil

import pytest
from hypothesis import settings

# No test asserts a time: compilation and busy machines make single runs slow.
settings.register_profile("hierlpr", deadline=None)
settings.load_profile("hierlpr")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the package playwright is not installed (extra: browser)"
    )
    found = os.environ.get("HIERLPR_CHROMIUM") or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )
    if found is None:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as playwright:
        # A sandbox needs rights that containers lack; the page under test is our own.
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()
