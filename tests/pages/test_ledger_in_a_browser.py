"""The ledger of claims as a person filters it."""

from pathlib import Path

from reproduce.catalogue import claims
from reproduce.pages import recorded_entries, write_ledger

COMMITTED = Path(__file__).parents[2] / "reproduce" / "ledger"


def test_the_ledger_can_be_filtered_in_a_browser(browser, tmp_path, artefacts):
    file = write_ledger(recorded_entries(COMMITTED), tmp_path / "ledger.html")
    assert browser.open(file, width=390) == []
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    browser.driver.save_screenshot(str(artefacts / "ledger-390.png"))
    shown = "return [...document.querySelectorAll('.claim')].filter(c => c.checkVisibility()).length"
    assert browser.run(shown) == len(claims())
    choose = (
        "const s = document.querySelector(`[name=${arguments[0]}]`); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    browser.run(choose, "verdict", "reproduced")
    reproduced = browser.run(shown)
    assert 0 < reproduced < len(claims())
    browser.run(choose, "theme", "identity")
    assert 0 < browser.run(shown) < reproduced
    browser.run(choose, "words", "no such words anywhere")
    assert browser.run(shown) == 0
    assert browser.find("#filter output").text == "0 claims"
