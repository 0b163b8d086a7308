"""Settings of the rivals of today: of PPO and SAC, and of each reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mepol.sb3.settings import PpoSettings, SacSettings
from mepol.settings import above, at_least, between, check, require, within

WIDEST = 4096
"""Units of a reward's layer, at most."""


@dataclass(frozen=True)
class RivalConfig:
    """What all of them share: who learns (Stable-Baselines3), and how a reward reaches it."""

    learner: Literal["ppo", "sac"] = "ppo"
    """PPO, one update per epoch from its batch; or SAC, from a memory of all batches that is paid anew at each draw."""
    reward_inputs: Literal["features", "state"] = "features"
    """What the reward sees: the entropy features, as MEPOL does, or the whole state."""
    scale_reward: bool = True
    """Divide rewards by the deviation of all so far. PPO normalises advantages: only its critic notices. SAC weighs
    them against the entropy of its actions."""
    reward_decay: Annotated[float, within(0, 1)] = 0.0
    """Share of the reward's weight that is lost in each epoch, as RE3 may; the same holds for it."""
    ppo_rate: Annotated[float, above(0, 1)] = 3e-4
    """Learning rate of actor and critic (Adam)."""
    ppo_clip: Annotated[float, between(0, 1)] = 0.2
    """How far from 1 a ratio of action probabilities still counts."""
    ppo_discount: Annotated[float, within(0, 1)] = 0.99
    """gamma."""
    ppo_trace: Annotated[float, within(0, 1)] = 0.95
    """lambda of the generalised advantages."""
    ppo_passes: Annotated[int, at_least(1)] = 10
    """Passes over an epoch's batch, at most."""
    ppo_minibatch: Annotated[int, at_least(2)] = 1000
    """Steps of one gradient step."""
    ppo_kl: Annotated[float, at_least(0, "0: no bound")] = 0.003
    """Passes end where the mean KL of the actions exceeds 1.5 times this, in nats."""
    ppo_entropy: Annotated[float, at_least(0)] = 0.0
    """Weight of the entropy of the actions."""
    sac_rate: Annotated[float, above(0, 1)] = 3e-4
    """Learning rate of actor, critics and temperature (Adam)."""
    sac_discount: Annotated[float, within(0, 1)] = 0.99
    """gamma."""
    sac_updates: Annotated[int, at_least(0)] = 250
    """Gradient steps per epoch."""
    sac_batch: Annotated[int, at_least(2)] = 1024
    """Transitions of one gradient step, which are paid together."""
    sac_buffer: Annotated[int, at_least(1)] = 1_000_000
    """Transitions that are remembered."""
    sac_tau: Annotated[float, above(0, 1)] = 0.005
    """Share of the critics that their targets take over at each step."""
    sac_entropy: Annotated[float, within(-10, 0.6)] = -1.0
    """Entropy of each action that the temperature is steered to, in nats where actions lie in [-1, 1]; uniform actions
    have ln 2 = 0.69."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def sac(self) -> SacSettings:
        """SAC's."""
        return SacSettings(
            rate=self.sac_rate,
            discount=self.sac_discount,
            batch=self.sac_batch,
            buffer=self.sac_buffer,
            tau=self.sac_tau,
            entropy=self.sac_entropy,
        )

    @property
    def ppo(self) -> PpoSettings:
        """PPO's."""
        return PpoSettings(
            rate=self.ppo_rate,
            clip=self.ppo_clip,
            discount=self.ppo_discount,
            trace=self.ppo_trace,
            passes=self.ppo_passes,
            minibatch=self.ppo_minibatch,
            kl=self.ppo_kl,
            entropy=self.ppo_entropy,
        )


@dataclass(frozen=True)
class LearntRewardConfig(RivalConfig):
    """A reward that learns from each epoch's batch, once it has paid for it."""

    reward_width: Annotated[int, within(1, WIDEST)] = 128
    """Units of its hidden layers; of APT also of the embedding."""
    reward_rate: Annotated[float, above(0, 1)] = 1e-4
    """Its learning rate (Adam)."""
    reward_passes: Annotated[int, at_least(0)] = 1
    """Its passes over an epoch's batch. With SAC it learns once from each batch that is drawn."""
    reward_batch: Annotated[int, at_least(1)] = 1000
    """Steps of one of its gradient steps."""


@dataclass(frozen=True)
class RndConfig(LearntRewardConfig):
    """RND (Burda et al. 2018): error of a trained network about a frozen random one."""

    reward_outputs: Annotated[int, within(1, WIDEST)] = 64
    """Numbers that are predicted."""


@dataclass(frozen=True)
class AptConfig(LearntRewardConfig):
    """APT (Liu and Abbeel 2021): ln(1 + mean distance to the nearest) in an embedding trained by ICM."""

    reward_encoder: Literal["icm", "none"] = "icm"
    """Where distances are taken: in ICM's embedding, or in the inputs themselves."""
    reward_k: Annotated[int, at_least(1)] = 12
    """Nearest neighbours."""
    reward_pool: Annotated[int, at_least(0, "0: the whole batch")] = 1024
    """States among which they are sought, drawn from the epoch's batch."""
    reward_relative: bool = True
    """Measure distances in units of their running mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_pool(self.reward_pool, self.reward_k)


@dataclass(frozen=True)
class Re3Config(RivalConfig):
    """RE3 (Seo et al. 2021): ln(1 + distance to the k-th nearest) in a frozen random embedding."""

    reward_encoder: Literal["random", "none"] = "random"
    """Where distances are taken: in a frozen random network's embedding, or in the inputs themselves."""
    reward_width: Annotated[int, within(1, WIDEST)] = 128
    """Units of that network's hidden layer."""
    reward_outputs: Annotated[int, within(1, WIDEST)] = 64
    """Coordinates of its embedding."""
    reward_k: Annotated[int, at_least(1)] = 3
    """Which nearest neighbour."""
    reward_pool: Annotated[int, at_least(0, "0: the whole batch")] = 0
    """States among which it is sought, drawn from the epoch's batch."""
    reward_relative: bool = False
    """Measure distances in units of their running mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_pool(self.reward_pool, self.reward_k)


def _require_pool(pool: int, k: int) -> None:
    require(pool == 0 or pool > k, "reward_pool", pool, f"0, or above reward_k = {k}")
