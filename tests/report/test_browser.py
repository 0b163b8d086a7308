"""The page in a real Chromium: it draws the numbers of the runs, answers to pointer and keys, and asks for nothing."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from chromium import Browser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import mepol
from mepol.cli import main
from mepol.report.page import report_page
from mepol.report.server import LivePage
from mepol.run import Run
from mepol.runs.callbacks import Progress
from mepol.runs.directory import RunDirectory

REPOSITORY = Path(__file__).parents[2]
PATHS = """return [...document.querySelectorAll(`[data-chart="${arguments[0]}"] .plot path.curve`)]
  .map((path) => path.getAttribute("d"))"""
MASK = """const shown = document.querySelector(".during canvas"), {width, height} = shown;
  const copy = Object.assign(document.createElement("canvas"), {width, height}).getContext("2d");
  copy.drawImage(shown, 0, 0);
  return [width, height, [...copy.getImageData(0, 0, width, height).data].filter((_, i) => i % 4 === 3)]"""


def points(path: str) -> np.ndarray:
    """(n, 2) places in pixels along a path of straight lines."""
    return np.array([[float(n) for n in pair.split()] for pair in re.split("[ML]", path)[1:]])


def is_affine(places: np.ndarray, values: np.ndarray) -> bool:
    """Whether places are values on some straight scale, to the tenth of a pixel that paths are written to."""
    line = np.polyfit(values, places, 1)
    return bool(np.abs(np.polyval(line, values) - places).max() < 0.11)


def page_of(run: RunDirectory[Any, Any], folder: Path) -> str:
    path = folder / "report.html"
    path.write_text(report_page([run]))
    return path.as_uri()


def number(value: float) -> str:
    """As the page writes a number between 0.001 and 100 that is not whole."""
    return f"{value:.3f}"


def test_curves_draw_and_tell_their_values(explored: Run, browser: Browser, tmp_path: Path) -> None:
    url, rows = page_of(explored.directory, tmp_path), explored.directory.rows()
    browser.show(url)
    measured, learnt = [r for r in rows if r.index is not None], [r for r in rows if r.entropy is not None]
    for axis in ("epoch", "samples"):
        browser.run("document.querySelector(`input[value=${arguments[0]}]`).click()", {"epoch": "turn"}.get(axis, axis))
        index, entropy = map(points, browser.run(PATHS, "Entropy"))
        for places, drawn, column in ((index, measured, "index"), (entropy, learnt, "entropy")):
            assert len(places) == len(drawn)
            assert is_affine(places[:, 0], np.array([getattr(row, axis) for row in drawn]))
            assert is_affine(places[:, 1], np.array([getattr(row, column) for row in drawn]))
            assert places[np.argmax([getattr(row, column) for row in drawn]), 1] == places[:, 1].min()  # up is more
        assert len(points(browser.run(PATHS, "KL")[0])) == len(learnt)
    # Nearer to epoch 1 than to any other, a little to its right: batch 1, and the measures of epochs 0 or 2.
    (plot,) = browser.driver.find_elements("css selector", "[data-chart=Entropy] .plot")
    at = entropy[1][0] + 0.2 * (entropy[2][0] - entropy[1][0])
    browser.run("arguments[0].scrollIntoView({block: 'center'})", plot)
    middle = plot.size["width"] / 2
    ActionChains(browser.driver).move_to_element_with_offset(plot, round(at - middle), 0).perform()
    (tip,) = browser.driver.find_elements("css selector", "[data-chart=Entropy] .tip")
    assert tip.text.startswith("epoch 1\n240 samples\n")
    assert re.search(rf"batch learnt from\s+{re.escape(number(rows[1].entropy))}", tip.text)
    assert re.search(rf"index, fresh batch \(epoch 2\)\s+{re.escape(number(rows[2].index))}", tip.text)
    ActionChains(browser.driver).send_keys_to_element(plot, Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
    assert tip.text.startswith("epoch 2\n")
    assert number(rows[2].index) in tip.text
    assert browser.complaints() == []
    assert {request for request in browser.requests() if not request.startswith("data:")} == {url}


def test_the_slider_shows_the_visits_of_each_policy(explored: Run, browser: Browser, tmp_path: Path) -> None:
    browser.show(page_of(explored.directory, tmp_path))
    (slider,) = browser.driver.find_elements("css selector", "input[type=range]")
    assert browser.run("return arguments[0].labels[0].textContent", slider) == "Training, by epoch"
    seen = []
    for key, epoch in ((Keys.HOME, 0), (Keys.ARROW_RIGHT, 2), (Keys.ARROW_RIGHT, 4), (Keys.ARROW_LEFT, 2)):
        slider.send_keys(key)
        visits = explored.directory.load_visits(epoch)
        width, height, alpha = browser.run(MASK)
        assert (width, height) == visits.shape
        np.testing.assert_array_equal(np.array(alpha).reshape(height, width)[::-1].T > 0, visits > 0)
        assert slider.get_attribute("aria-valuetext") == f"epoch {epoch}: {np.count_nonzero(visits)} cells"
        seen.append(browser.run("return document.querySelector('.during canvas').toDataURL()"))
    assert seen[1] == seen[3]
    assert len(set(seen)) == 3
    assert browser.complaints() == []


def test_hostile_texts_do_nothing(copied: Callable[..., Path], browser: Browser, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=hit=1><script>hit=1</script>"
    path = copied("<img src=x onerror=hit=1>", env=evil, features=evil, env_kwargs={evil: evil})
    domain = json.loads((path / "domain.json").read_text())
    (path / "domain.json").write_text(json.dumps({**domain, "names": [evil, "<svg onload=hit=1>"]}))
    (path / "figures" / "<img src=x onerror=hit=1>.gif").write_bytes(b"GIF89a" + bytes(20))
    (path / "figures" / "goals.csv").write_text(f"{evil},y,hit_rate,steps_to_hit\n1,2,0.5,3\n2,2,0.5,3\n")
    (path / "changes.csv").write_text(f"turn,setting,before,after\n1,{evil},1,2\n")
    url = page_of(RunDirectory.open(path), tmp_path)
    browser.show(url)
    assert browser.run("return [typeof hit, document.querySelectorAll('[onerror], [onload]').length]") == [
        "undefined",
        0,
    ]
    shown = browser.run(
        "return document.body.innerText + [...document.querySelectorAll('details')].map((d) => d.textContent)"
    )
    assert shown.count(evil) >= 5  # where it stands it is text: the settings, the axes of both maps, the note
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert browser.complaints() == []
    assert {request for request in browser.requests() if not request.startswith("data:")} == {url}
    # The net below: had a text become markup, the page's policy would still let it neither run nor ask.
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=hit=1><a onclick=hit=1 id=evil>x</a>')"
    )
    browser.run("document.getElementById('evil').click()")
    assert browser.run("return typeof hit") == "undefined"
    blocked = browser.driver.execute_async_script("fetch('http://127.0.0.1:9/').catch((f) => arguments[0](f.message))")
    assert blocked == "Failed to fetch"
    assert sum("Content Security Policy" in text for text in browser.complaints()) >= 3


def test_several_runs_of_both_phases_share_a_page_that_fits_a_phone(
    explored: Run, copied: Callable[..., Path], tuned: Path, browser: Browser, tmp_path: Path
) -> None:
    paths = [str(path) for path in (explored.path, copied("grid-b-of-a-long-name", seed=8), tuned)]
    assert main(["report", *paths, "--out", str(tmp_path)]) == 0
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 380, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        browser.show((tmp_path / "report.html").as_uri())
        browser.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert browser.run("return document.documentElement.scrollWidth") == 380
        assert len(browser.run(PATHS, "Average return")) == 1
        assert len(browser.run(PATHS, "Entropy")) == 4
        browser.run("document.querySelector('.legend button').click()")
        assert len(browser.run(PATHS, "Entropy")) == 2
        differing = browser.run("return [...document.querySelectorAll('tr.differs th')].map((t) => t.firstChild.data)")
        assert "seed" in differing
        assert browser.run("return document.querySelectorAll('#coverage article').length") == 2
        unnamed = """return [...document.querySelectorAll("input, button, video, img, canvas[role]")].filter((e) =>
          !(e.labels && e.labels.length) && !e.textContent && !e.getAttribute("aria-label") && !e.alt).length"""
        assert browser.run(unnamed) == 0
        assert browser.complaints() == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_ant_of_the_results_opens(browser: Browser, tmp_path: Path) -> None:
    """A run of an earlier version: without domain.json, heatmaps, steps, or a note of its best policy."""
    run = RunDirectory.open(REPOSITORY / "results" / "ant-fast-seed-0")
    browser.show(page_of(run, tmp_path))
    last = [row for row in run.rows() if row.index is not None][-1]
    (tile,) = browser.driver.find_elements("css selector", "[data-measure=index]")
    assert number(last.index) in tile.text
    assert browser.complaints() == []


def test_the_live_page_grows_while_a_run_goes_on(small: dict[str, Any], browser: Browser, tmp_path: Path) -> None:
    """The run waits for the browser after epoch 1, and goes on when the page has shown that."""
    reached, go_on = threading.Event(), threading.Event()

    def wait(progress: Progress) -> None:
        if progress.turn == 1:
            reached.set()
            assert go_on.wait(60)

    settings = {**small, "evaluate_every": 1, "epochs": 4, "callbacks": [wait], "out": tmp_path / "live"}
    exploring = threading.Thread(target=mepol.explore, args=("gridworld",), kwargs=settings)
    exploring.start()
    assert reached.wait(60)
    live = LivePage([tmp_path / "live"])
    serving = threading.Thread(target=live.serve)
    serving.start()
    try:
        browser.show(live.url)
        assert len(points(browser.run(PATHS, "Entropy")[1])) == 2
        assert "epoch 1 of 4" in browser.driver.find_element("id", "summary").text
        (slider,) = browser.driver.find_elements("css selector", "input[type=range]")
        assert slider.get_attribute("max") == "1"
        slider.send_keys(Keys.HOME)  # who looks at an earlier map stays there
        go_on.set()
        WebDriverWait(browser.driver, 60, 0.2).until(
            lambda _: "finished, epoch 4" in browser.driver.find_element("id", "summary").text
        )
        assert [len(points(path)) for path in browser.run(PATHS, "Entropy")] == [5, 4]
        assert (slider.get_attribute("max"), slider.get_attribute("value")) == ("4", "0")
        assert browser.driver.find_element("id", "contact").text == "live, finished"
        assert browser.complaints() == []
        asked = {request for request in browser.requests() if not request.startswith("data:")}
        assert asked == {live.url, f"{live.url}data.json"}
    finally:
        go_on.set()
        live.close()
        for thread in (exploring, serving):
            thread.join(60)
    WebDriverWait(browser.driver, 60, 0.2).until(
        lambda _: browser.driver.find_element("id", "contact").text == "no news: the server has ended"
    )
