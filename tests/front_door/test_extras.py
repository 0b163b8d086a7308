"""The core needs the core's dependencies alone, and whatever else is missing is one sentence."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPTIONAL = (
    *("stable_baselines3", "sb3_contrib", "sklearn", "joblib", "threadpoolctl", "mujoco", "gymnasium_robotics"),
    *("OpenGL", "imageio", "imageio_ffmpeg", "tensorboard", "wandb", "pandas", "IPython", "nbclient", "hypothesis"),
    *("onnx", "onnxruntime", "minari", "h5py", "pyarrow"),
)
"""Modules that `pip install mepol` does not bring."""

BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
SMALL = "horizon=60, trajectories=4, evaluation_trajectories=5, hidden=(8,), k=4, eps=1e-15, threads=1, progress=False"


def run(script, folder, *arguments):
    command = [sys.executable, "-c", BLOCKED + script, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_core_explores_without_any_extra(tmp_path):
    """GridWorld of ours, and one of Gymnasium's own; from Python and from the command line."""
    done = run(
        "import mepol\n"
        f"run = mepol.explore('gridworld', epochs=1, max_steps=2, zero_mean_steps=2, out='a', {SMALL})\n"
        f"other = mepol.explore('Pendulum-v1', epochs=1, max_steps=2, zero_mean_steps=2, out='b', {SMALL})\n"
        "run.figures(); run.evaluate(trajectories=3); mepol.resume('b', length=2, progress=False)\n"
        "from mepol.cli import main; code = main(['evaluate', 'a', '--trajectories', '3', '--json'])\n"
        f"assert code == 0 and not [name for name in {OPTIONAL!r} if sys.modules.get(name)]",
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


CALLS = {
    "mepol.finetune('grid-goal1', progress=False)": "mepol[finetune]",
    "mepol.explore('ant', progress=False)": "mepol[mujoco]",
    "mepol.explore('mountain-car', explorer='maxent', progress=False)": "mepol[rivals]",
    "mepol.explore('gridworld', explorer='rnd', progress=False)": "mepol[finetune]",
    "mepol.open('runs/gridworld').frame()": "pip install pandas",
    "mepol.open('runs/gridworld').video(steps=1)": "mepol[video]",
    "mepol.open('runs/gridworld').export('onnx', 'x')": "mepol[export]",
    "mepol.open('runs/gridworld').export('sb3-ppo', 'x')": "mepol[finetune]",
    "mepol.TensorBoard()": "mepol[log]",
    "mepol.WeightsAndBiases()": "mepol[log]",
}
COMMANDS = {
    "finetune grid-goal1": "mepol[finetune]",
    "explore ant --epochs 1": "mepol[mujoco]",
    "explore mountain-car --explorer maxent": "mepol[rivals]",
    "video runs/gridworld --steps 1": "mepol[video]",
    "export runs/gridworld --to onnx": "mepol[export]",
    "collect runs/gridworld --steps 9 --out a-v0": "mepol[data]",
    "collect runs/gridworld --steps 9 --out a --format parquet": "mepol[data]",
}


def test_each_missing_extra_is_one_sentence_with_what_to_install(here):
    tries = "\n".join(f"try:\n    {call}\nexcept mepol.MepolError as fault:\n    print(fault)" for call in CALLS)
    done = run(f"import mepol\n{tries}", here)
    assert (done.returncode, done.stderr) == (0, "")
    sentences = done.stdout.splitlines()
    assert len(sentences) == len(CALLS)
    assert [(s, said) for s, said in zip(CALLS.values(), sentences, strict=True) if s not in said] == []


def test_the_command_line_says_the_same(here):
    codes = f"codes = [main(line.split()) for line in {list(COMMANDS)!r}]"
    done = run(f"from mepol.cli import main\n{codes}\nassert codes == [1] * {len(COMMANDS)}, codes", here)
    assert done.returncode == 0, done.stderr
    sentences = done.stderr.splitlines()
    assert len(sentences) == len(COMMANDS)
    assert [(s, said) for s, said in zip(COMMANDS.values(), sentences, strict=True) if s not in said] == []


def test_every_dependency_has_its_reason_and_its_version():
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    needed = [
        *project["dependencies"],
        *(name for names in project["optional-dependencies"].values() for name in names),
    ]
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in constraints}
    names = {n.partition("[")[0].partition(">")[0].lower().replace("_", "-") for n in needed} - {"mepol"}
    assert names <= pinned
    assert all(len(line.split("==")) == 2 and "/" not in line for line in constraints)
    assert "torch==2.13.0" in constraints
