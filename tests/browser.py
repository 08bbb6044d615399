"""A real browser, shared by all tests that look at a page."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from limits import COMMAND, PAGE

os.environ["SE_OFFLINE"] = "true"  # selenium uses the browser of this machine and looks for no other


@pytest.fixture(scope="session")
def artefacts(request):
    """A folder of the checkout that git ignores, for pictures that a person may want to see."""
    folder = request.config.rootpath / "test-artefacts"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def _driver(tmp_path_factory):
    paths = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        pytest.fail(f"The page tests need {' and '.join(missing)}. `make browser` installs or explains.")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = paths["chromium"]
    profile = tempfile.mkdtemp(dir=tmp_path_factory.mktemp("browser"))
    for switch in (
        "headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "no-first-run",
        "hide-scrollbars", "disable-dev-shm-usage", f"user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(paths["chromedriver"]))
    driver.set_page_load_timeout(PAGE)
    driver.set_script_timeout(PAGE)
    driver.command_executor.client_config.timeout = COMMAND  # selenium gives up after two minutes by itself
    yield driver
    driver.quit()


class Browser:
    """What the tests ask of a browser."""

    def __init__(self, driver, downloads):
        self.driver, self.downloads = driver, downloads

    def open(self, file, *, width=1280, height=900, dark=False):
        """Show a file as from a folder, at a width, and return the complaints of the console."""
        self.resize(width, height)
        self.see(dark=dark)
        self.driver.get_log("browser")  # forget what earlier pages said
        self.driver.get(Path(file).absolute().as_uri())
        if self.run("return sessionStorage.length"):  # and what they were told: a theme, for instance
            self.run("sessionStorage.clear()")
            self.driver.refresh()
        return self.complaints()

    def see(self, *, dark=False, media=""):
        """Prefer light or dark, on a screen or on paper ("print")."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})

    def resize(self, width, height=900):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script, *arguments, seconds=PAGE):
        """Wait for a script to return something true, and return that."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, 0.05).until(lambda d: d.execute_script(script, *arguments))

    def point_at(self, element):
        """Unfold what hides an element, bring it to the middle of the window and the pointer to its middle."""
        from selenium.webdriver import ActionChains

        self.run(
            "for (let e = arguments[0]; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true",
            element,
        )
        self.run("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", element)
        ActionChains(self.driver).move_to_element(element).pause(0.1).move_by_offset(1, 1).perform()

    def find(self, selector):
        return self.driver.find_element("css selector", selector)


@pytest.fixture
def browser(_driver, tmp_path):
    """Chromium without a window; fails where there is none."""
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    _driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    yield Browser(_driver, downloads)
    _driver.get("about:blank")
