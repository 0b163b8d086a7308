"""MountainCar: Gymnasium's continuous car between two hills, with a wall on top of the right one.

    coordinate  name      range
    0           position  [-1.2, 0.45]
    1           velocity  [-0.07, 0.07]

The dynamics are those of `MountainCarContinuous-v0` (power 0.0015); the wall stops a car that passes 0.45 and
takes its velocity, and no episode ever ends, as the paper's appendix describes.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from gymnasium.spaces import Box
from PIL import Image, ImageDraw

from mepol.envs.batched import Array, BatchedEnv, Frame, SingleEnv

MIN_POSITION, WALL, MAX_SPEED = -1.2, 0.45, 0.07
POWER, GRAVITY = 0.0015, 0.0025
START_LOW, START_HIGH = -0.6, -0.4

ENTROPY_CEILING = math.log((WALL - MIN_POSITION) * 2 * MAX_SPEED)
"""Differential entropy of the uniform distribution over the box of states: -1.465 nats."""


def drive(states: Array, forces: Array) -> Array:
    """(M, 2) states one step later, under forces (M,) in [-1, 1]."""
    position, velocity = states.T
    velocity = velocity + forces * POWER - GRAVITY * np.cos(3 * position)
    velocity = np.clip(velocity, -MAX_SPEED, MAX_SPEED)
    position = np.maximum(position + velocity, MIN_POSITION)
    velocity = np.where((position == MIN_POSITION) & (velocity < 0), 0.0, velocity)
    at_wall = position >= WALL
    return np.stack([np.where(at_wall, WALL, position), np.where(at_wall, 0.0, velocity)], axis=1)


@functools.cache
def reachable_states(bins: tuple[int, int] = (400, 400)) -> Array:
    """(P, 2) at most one reachable state for each of `bins` fine cells over the box of states.

    A search from the start states, breadth first, with five forces: every state found is one that the car was driven
    to, so none is in it by rounding; a cell that only other forces or longer ways reach may be missed.
    """
    low, width = np.array([MIN_POSITION, -MAX_SPEED]), np.array([WALL - MIN_POSITION, 2 * MAX_SPEED])
    seen = np.zeros(bins, dtype=bool)
    found: list[Array] = []
    starts = np.linspace(START_LOW, START_HIGH, 101)
    front = np.stack([starts, np.zeros_like(starts)], axis=1)
    while len(front):
        cell = np.clip(np.floor((front - low) / width * bins), 0, np.array(bins) - 1).astype(np.int64)
        flat, first = np.unique(cell[:, 0] * bins[1] + cell[:, 1], return_index=True)
        new = first[~seen.flat[flat]]
        seen.flat[flat] = True
        found.append(front[new])
        front = np.concatenate([drive(front[new], np.full(len(new), force)) for force in (-1.0, -0.5, 0.0, 0.5, 1.0)])
    return np.concatenate(found)


class MountainCarVectorEnv(BatchedEnv):
    """M cars in M valleys."""

    feature_names = ("position", "velocity")

    def __init__(self, num_envs: int = 1, render_mode: str | None = None) -> None:
        space = Box(np.array([MIN_POSITION, -MAX_SPEED]), np.array([WALL, MAX_SPEED]), dtype=np.float64)
        super().__init__(num_envs, space, Box(-1.0, 1.0, (1,), np.float32), render_mode)
        self._state = np.zeros((num_envs, 2))

    def start(self, i: int, rng: np.random.Generator) -> None:
        """At rest, near the bottom of the valley."""
        self._state[i] = rng.uniform(START_LOW, START_HIGH), 0.0

    def advance(self, actions: Array) -> None:
        """Push, let gravity pull along the slope cos(3 x), stop at either end."""
        self._state = drive(self._state, actions[:, 0])

    def observe(self) -> Array:
        """(M, 2) positions and velocities."""
        return self._state.copy()

    def reachable(self, axes: tuple[int, int]) -> Array:
        """(P, 2) states that some sequence of pushes leads to."""
        return reachable_states()[:, list(axes)]

    def picture(self, i: int, width: int = 600, height: int = 400) -> Frame:
        """The hills from the side, the wall, and the car."""
        image = Image.new("RGB", (width, height), "white")
        draw = ImageDraw.Draw(image)

        def point(x: float) -> tuple[float, float]:
            across = (x - MIN_POSITION) / (0.6 - MIN_POSITION)
            return across * width, height - (np.sin(3 * x) * 0.45 + 0.55) * height / 1.2

        hills = [point(x) for x in np.linspace(MIN_POSITION, 0.6, 200)]
        draw.line(hills, fill=(52, 58, 64), width=3)
        wall_x, wall_y = point(WALL)
        draw.line([(wall_x, wall_y), (wall_x, wall_y - 60)], fill=(52, 58, 64), width=5)
        x, y = point(float(self._state[i, 0]))
        draw.ellipse([x - 9, y - 18, x + 9, y], fill=(220, 50, 47))
        return np.asarray(image)


def mountain_car(render_mode: str | None = None) -> SingleEnv:
    """`mepol/MountainCar-v0` as a single environment."""
    return SingleEnv(MountainCarVectorEnv(1, render_mode))
