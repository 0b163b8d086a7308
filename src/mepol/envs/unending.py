"""Environments that are played past the ends of their episodes, as the paper does."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import gymnasium

from mepol.envs.contract import told
from mepol.errors import EnvironmentFault


@contextmanager
def quiet() -> Iterator[None]:
    """Gymnasium's advice to authors of environments, in colours, is not for who uses one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\x1b\[\d+mWARN: ")
        yield


class Unending(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hides the end of episodes, so that a trajectory goes on through them; a fault after one is told as such."""

    _over = False  # whether the last step ended the episode
    _passed = False  # whether any step since the reset did

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start anew."""
        self._over = self._passed = False
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, with `terminated` and `truncated` always false."""
        try:
            with quiet() if self._over else nullcontext():  # of Gymnasium's advice not to go on
                obs, reward, terminated, truncated, info = self.env.step(action)
        except Exception as fault:
            if not self._passed:
                raise
            what = (
                str(fault) if isinstance(fault, EnvironmentFault) else f"the environment's step {told('step', fault)}"
            )
            raise EnvironmentFault(
                f"{what}; it was played past the end of an episode: --no-ignore-termination cuts trajectories there"
            ) from fault
        self._over = bool(terminated or truncated)
        self._passed |= self._over
        return obs, reward, False, False, info
