"""The settings of other explorers in the paper's domains, each with its source."""

from __future__ import annotations

from typing import Any

from mepol.settings import Row, Rows, over, rows

# What the paper does not say (eps, weights, coordinates of the density, the first component) is as in the code of
# Hazan et al. that it adapted; docs/method/rivals.md lists it.

_MAXENT = (
    *rows(
        "paper, table MaxEnt Parameters",
        mixture_size=30,
        density_kernel="epanechnikov",
        density_pca=0,
        trpo_iterations=300,
        trpo_steps=5000,
        trpo_kl=0.1,
        trpo_discount=0.99,
    ),
    *rows("code of Hazan et al.", density_eps=1e-3, density_features="all"),
    *rows("code of Hazan et al.", mixture_weights="uniform", mixture_draw="step"),
    *rows("ours (docs/method/rivals.md)", density_points=100_000, scale_reward=True),
)
_EACH_SIDE = rows("their policies learn each side by itself", symmetric=False)
_TRPO_START = (
    *rows("MaxEnt's policies start as TRPO's do", mirror=False, standardise=False, noise_correlation=0.0),
    *_EACH_SIDE,
)


def _maxent(horizon: int, trajectories: int, bandwidth: float, *others: Row, **table: Any) -> dict[str, Rows]:
    """The rival's rows in one domain."""
    density = {"density_horizon": horizon, "density_trajectories": trajectories, "density_bandwidth": bandwidth}
    return {"maxent": over(_MAXENT, *rows("paper, table MaxEnt Parameters", **density, **table), *others)}


# Policies that lean on GridWorld's walls meet in one point, which has no neighbourhood: MEPOL never does.
LEANING = dict.fromkeys(("apt", "re3", "rnd"), rows("ours (docs/method/rivals.md)", eps=1e-6))
CAR_RIVALS = _maxent(
    400,
    100,
    0.1,
    Row("mixture_size", 60, "paper, table MaxEnt Parameters (its figure's caption: 20)"),
    trpo_iterations=50,
    trpo_steps=4000,
)
ANT_RIVALS = _maxent(10_000, 10, 0.2, density_pca=3)
_WHITE = rows("their noise is white", noise_correlation=0.0, log_std=-0.5)
_OF_WHITE_NOISE = dict.fromkeys(("apt", "re3", "rnd"), _WHITE)
HUMANOID_RIVALS = _maxent(50_000, 20, 1.0, *_WHITE) | _OF_WHITE_NOISE
HAND_RIVALS = _maxent(10_000, 20, 1.0, *_WHITE, trpo_steps=500) | _OF_WHITE_NOISE


def start_of(explorer: str) -> Rows:
    """What an explorer's own start has, whatever the domain's policy starts from."""
    return _TRPO_START if explorer == "maxent" else _EACH_SIDE if explorer in ("apt", "re3", "rnd") else ()
