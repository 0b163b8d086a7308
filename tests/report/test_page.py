"""What the page is made of: the numbers of the runs, within bounds, and no text that a browser would act on."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mepol.cli import main
from mepol.errors import RunError
from mepol.evaluation import discrete_entropy
from mepol.report import attachments, gather
from mepol.report.page import report_page
from mepol.run import Run
from mepol.runs.directory import RunDirectory

GIF = b"GIF89a" + bytes(20)


def data_of(page: str) -> dict[str, Any]:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def unpacked(counts: list[int], shape: tuple[int, int]) -> np.ndarray:
    return np.array([n for count in counts for n in ([count] if count >= 0 else [0] * -count)]).reshape(shape)


def test_the_page_has_the_numbers_of_the_run(explored: Run) -> None:
    data = data_of(report_page([explored.directory]))
    (run,) = data["runs"]
    rows = explored.directory.rows()
    assert run["columns"]["epoch"] == [0, 1, 2, 3, 4]
    assert run["columns"]["entropy"][:4] == pytest.approx([row.entropy for row in rows[:4]], rel=1e-6)
    assert run["columns"]["entropy"][4] is None
    assert [i for i, value in enumerate(run["columns"]["index"]) if value is not None] == [0, 2, 4]
    threshold = explored.config.ascent.kl_threshold
    assert run["columns"]["kl_used"][0] == pytest.approx(100 * rows[0].kl / threshold, rel=1e-6)
    with (explored.path / "steps.csv").open() as file:
        steps = list(csv.DictReader(file))
    assert run["columns"]["tried"][:4] == [sum(step["epoch"] == str(epoch) for step in steps) for epoch in range(4)]
    assert (run["finished"], run["length"], run["limits"]["particles"]) == (True, 4, 240)
    assert [policy["which"] for policy in run["policies"]] == ["initial", "best", "last"]
    assert run["policies"][1]["index"] == pytest.approx(max(row.index for row in rows if row.index), rel=1e-6)
    (k,) = (row for row in run["settings"] if row["name"] == "k")
    assert (k["group"], k["value"]) == ("ascent", "4")
    assert k["text"].startswith("Nearest neighbours of the entropy estimate. 0 leaves them open")
    assert run["versions"] == data["versions"]
    for frame, epoch in zip(run["maps"]["frames"], (0, 2, 4), strict=True):
        visits = explored.directory.load_visits(epoch)
        assert frame["turn"] == epoch
        np.testing.assert_array_equal(unpacked(frame["counts"], visits.shape), visits)
        assert frame["nats"] == pytest.approx(discrete_entropy(visits), rel=1e-6)
    assert run["maps"]["grid"]["names"] == ["x", "y"]


def test_a_fine_tuning_has_a_page_too(tuned: Path) -> None:
    (run,) = data_of(report_page([RunDirectory.open(tuned)]))["runs"]
    assert (run["phase"], run["turn"], run["columns"]["iteration"]) == ("finetune", "iteration", [0, 1])
    assert (run["maps"], run["goals"], run["where"], run["who"]) == (None, None, "grid-goal1", "trpo")


def test_equal_runs_are_equal_pages(explored: Run) -> None:
    assert report_page([explored.directory]) == report_page([RunDirectory.open(explored.path)])


@pytest.mark.parametrize("live", [False, True])
def test_the_policy_lets_run_this_script_alone(explored: Run, live: bool) -> None:
    page = report_page([explored.directory], live=live)
    rules = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}';" in rules
    assert rules.startswith("default-src 'none'; ")
    assert ("connect-src" in rules) == live
    assert "unsafe" not in rules
    assert not re.search(r"""(src|href)=["'](?!data:|#)|https?://(?!www\.w3\.org/2000/svg)|@import|innerHTML""", page)


def test_no_text_of_a_run_leaves_its_place(copied: Callable[..., Path]) -> None:
    evil = "</script><script>alert(1)</script><!--\u2028\u2029&{{script}}"
    page = report_page([RunDirectory.open(copied("<b>{{data}}", features=evil))])
    block = page.partition('id="data">')[2]
    assert not re.search("[<>&\u2028\u2029]", block[: block.index("</script>")])
    assert page.count("</script>") == 2
    assert "<title>&lt;b&gt;{{data}} · mepol report</title>" in page
    (run,) = data_of(page)["runs"]
    (value,) = [s["value"] for s in run["settings"] if s["name"] == "features"]
    assert value.startswith("</script><script>alert(1)</script><!--")
    assert value.endswith("&{{script}}")


def test_large_things_are_bounded_and_say_so(explored: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MAX_SIDE", 7)  # of 20 cells, three are then drawn as one
    monkeypatch.setattr(gather, "MAX_MAPS", 2)
    monkeypatch.setattr(gather, "MAX_POINTS", 3)
    (run,) = gather.gather([explored.directory])["runs"]
    assert (run["maps"]["stored"], run["maps"]["together"], run["maps"]["grid"]["bins"]) == (3, 3, [7, 7])
    assert [frame["turn"] for frame in run["maps"]["frames"]] == [0, 4]
    visits = explored.directory.load_visits(0)
    sums = [[visits[i : i + 3, j : j + 3].sum() for j in range(0, 20, 3)] for i in range(0, 20, 3)]
    np.testing.assert_array_equal(unpacked(run["maps"]["frames"][0]["counts"], (7, 7)), sums)
    assert (run["columns"]["epoch"], run["rows"]) == ([0, 2, 4], 5)


def test_goals_become_a_grid_again(tmp_path: Path) -> None:
    table = "x,y,hit_rate,steps_to_hit\n-3,0,0.5,4\n-1,2,0,\n3,2,1,2\n"  # cells of 2 by 2; x = 1 has no goal
    (tmp_path / "goals.csv").write_text(table)
    found = attachments.goals(tmp_path / "goals.csv")
    assert found["grid"] == {"names": ["x", "y"], "low": [-4, -1], "high": [4, 3], "bins": (4, 2)}
    none = float("nan")
    np.testing.assert_array_equal(found["hit_rate"], [0.5, none, none, 0, none, none, none, 1])
    np.testing.assert_array_equal(found["steps"], [4, none, none, none, none, none, none, 2])
    assert (found["mean"], found["goals"], found["met"]) == (0.5, 3, 2)
    assert attachments.goals(tmp_path / "none.csv") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "x,y\n", "x,y,hit_rate,steps_to_hit\n", "x,y,hit_rate,steps_to_hit\n1,2\n"),
        *("x,y,hit_rate,steps_to_hit\n1,2,nan,3\n", "x,y,hit_rate,steps_to_hit\n0,0,1,1\n1,0,1,1\n1e9,0,1,1\n"),
    ],
)
def test_what_is_no_table_of_goals_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "goals.csv").write_text(text)
    with pytest.raises(RunError, match=r"cannot read .*goals\.csv: .*; mepol goals writes it again"):
        attachments.goals(tmp_path / "goals.csv")


def test_films_are_inlined_within_bounds_and_no_link_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_FILM", 40)
    folder, secret = tmp_path / "figures", tmp_path / "secret.gif"
    folder.mkdir()
    secret.write_bytes(GIF)
    (folder / "a.gif").write_bytes(GIF)
    (folder / "big.gif").write_bytes(GIF + bytes(40))
    (folder / "forged.gif").write_bytes(b"<script>alert(1)</script>")
    (folder / "link.gif").symlink_to(secret)
    (folder / "folder.mp4").mkdir()
    (folder / "p.mp4").write_bytes(bytes(4) + b"ftypisom")
    found = {film["name"]: film["uri"] for film in attachments.films(folder)}
    assert list(found) == ["a.gif", "big.gif", "p.mp4"]
    assert found["a.gif"] == f"data:image/gif;base64,{base64.b64encode(GIF).decode()}"
    assert found["big.gif"] is None
    assert found["p.mp4"].startswith("data:video/mp4;base64,")
    (tmp_path / "elsewhere").symlink_to(folder)
    assert attachments.films(tmp_path / "elsewhere") == []


def test_the_command_writes_where_it_says(
    copied: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied()
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}/figures/report.html (0.")
    assert data_of((path / "figures" / "report.html").read_text())["live"] == 0
    other = copied("other")
    assert main(["report", str(path), str(other)]) == 2
    assert "say with --out DIR" in capsys.readouterr().err
    assert main(["report", str(path), str(other), "--out", str(tmp_path / "both")]) == 0
    titles = [run["title"] for run in data_of((tmp_path / "both" / "report.html").read_text())["runs"]]
    assert titles == ["copy", "other"]
    for wrong in (["--port", "8000"], ["--live", "--out", "x"], ["--live", "--port", "70000"]):
        assert main(["report", str(path), *wrong]) == 2
    assert main(["report", str(tmp_path)]) == 1


def test_a_run_that_has_just_begun_has_a_page(copied: Callable[..., Path]) -> None:
    path = copied()
    head = (path / "metrics.csv").read_text().partition("\n")[0]
    (path / "metrics.csv").write_text(f"{head}\n")
    for stored in (path / "heatmaps").iterdir():
        stored.unlink()
    (path / "domain.json").unlink()
    (run,) = data_of(report_page([RunDirectory.open(path)]))["runs"]
    assert (run["columns"], run["policies"], run["maps"], run["finished"]) == ({}, [], None, False)
