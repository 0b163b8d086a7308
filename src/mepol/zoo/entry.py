"""An entry of the zoo: a run reduced to its policy and its card, which everything that takes a run takes.

README.md            the card (card.py)
config.json          every setting of the run
domain.json          what its environment says of itself
metrics.csv          its rows of training
results.json         what made it and what was measured
policy.safetensors   the policy
replay.gif           the policy at work
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image, ImageSequence

from mepol.errors import MepolError, RunError
from mepol.exploration.presets import PRESETS
from mepol.run import Run
from mepol.runs.drive import best_kept
from mepol.runs.files import output_folder, read_text
from mepol.runs.policies import policy_bytes
from mepol.runs.zoo import run_place, shipped_names
from mepol.zoo.card import card_text, command_of
from mepol.zoo.measures import TRAJECTORIES, measured

FILES = ("README.md", "config.json", "domain.json", "metrics.csv", "results.json", "policy.safetensors", "replay.gif")
MAX_RESULTS = 1 << 16  # bytes of a results.json
REPLAY_STEPS, REPLAY_EVERY, REPLAY_WIDTH, REPLAY_COLOURS = 240, 4, 180, 32
"""Of replay.gif: steps that are played, every so many-th is shown, pixels of a panel, colours."""


def export(run: Run, out: Path, *, tell: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Write the best policy of an exploration, measured, with its card into the new directory `out`.

    tell: what is being done. A film is left out where the environment cannot be drawn here, which is told.
    """
    if run.directory.phase.name != "explore":
        raise RunError(f"{run.path} is a {run.directory.phase.name} run, and a card is of an exploration")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} already exists and is not empty; choose another directory")
    policy = policy_bytes(run.load("best"))
    results = {**_made_by(run), "measured": measured(run, "best", tell)}
    tell("replay.gif")
    film = _replay(run, tell)
    texts = {
        "domain.json": run.domain.to_json(),
        "metrics.csv": (run.path / "metrics.csv").read_text(),
        "results.json": json.dumps(results, indent=2) + "\n",
        "README.md": card_text(out.name, results),
    }
    door = output_folder(out)
    written = [door.write_text(file, text) for file, text in texts.items()]
    written += [door.write("policy.safetensors", policy), *([door.write("replay.gif", film)] if film else [])]
    settings = (run.path / "config.json").read_text()
    return [*written, door.write_text("config.json", settings)]  # last: without it this is no run


def _made_by(run: Run) -> dict[str, Any]:
    """Where the policy comes from, and how it is measured."""
    config, kept = run.config, best_kept(run.directory)
    rows = [row for row in run.directory.rows() if kept is None or row.epoch <= kept[0]]
    if not rows:
        raise RunError(f"{run.path} has no policy yet: it never began")
    spent = (value for row in rows for name in ("sample_s", "knn_s", "optimise_s") if (value := getattr(row, name)))
    return {
        "env": config.env,
        "explorer": config.explorer,
        "command": command_of(config),
        "seed": config.seed,
        "epoch": rows[-1].epoch,
        "length": run.directory.phase.length(config),
        "samples": rows[-1].samples,
        "seconds": round(sum(spent), 1),
        "features": config.features,
        "k": config.ascent.k,
        "horizon": config.horizon,
        "trajectories": TRAJECTORIES,
    }


def _replay(run: Run, tell: Callable[[str], None]) -> bytes:
    """A small film of the best policy; empty where the environment cannot be drawn."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            steps = min(REPLAY_STEPS, run.config.horizon)
            path = run.video(Path(folder) / "replay.gif", which="best", steps=steps)
        except (MepolError, ImportError) as fault:
            tell(f"no replay.gif: {fault}")
            return b""
        return _small(path.read_bytes())


def _small(film: bytes) -> bytes:
    """The film with fewer, smaller and plainer pictures."""
    with Image.open(io.BytesIO(film)) as whole:
        pause = int(whole.info.get("duration", 40)) * REPLAY_EVERY
        pictures = [
            frame.convert("RGB").resize((REPLAY_WIDTH, round(frame.height * REPLAY_WIDTH / frame.width)))
            for number, frame in enumerate(ImageSequence.Iterator(whole))
            if number % REPLAY_EVERY == 0
        ]
    palette = pictures[-1].quantize(REPLAY_COLOURS)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=pause, loop=0)
    return buffer.getvalue()


# --- What is shipped ------------------------------------------------------------------------------------------------


def results_of(name: str) -> dict[str, Any]:
    """results.json of a shipped policy."""
    found: dict[str, Any] = json.loads(read_text(run_place(f"zoo:{name}") / "results.json", MAX_RESULTS))
    return found


def card_of(name: str) -> str:
    """The card of a shipped policy."""
    return read_text(run_place(f"zoo:{name}") / "README.md", MAX_RESULTS)


def copy(name: str, out: Path) -> Path:
    """A copy of a shipped policy in the new directory `out`: a run that evaluate, video and finetune take."""
    place = run_place(f"zoo:{name}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} already exists and is not empty; choose another directory")
    door = output_folder(out)
    for file in sorted(FILES, key=lambda each: each == "config.json"):
        if (place / file).is_file():
            door.write(file, (place / file).read_bytes())
    return out


def missing() -> dict[str, str]:
    """Presets without a shipped policy, each with the command that would make one; those that are fast do not count."""
    wanted = [name for name in PRESETS if not name.endswith("-fast") and name not in shipped_names()]
    return {name: f"mepol explore {name} --fast --out runs/{name}" for name in wanted}
