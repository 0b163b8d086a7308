"""Phase 1's mathematics: no environment, file, clock or seed. docs/method/algorithm.md reads it beside the paper.

`mepol` is Algorithm 1, a generator that improves a policy in place and yields an `Epoch` after each update. Three
functions are handed to it, and each can be another:

    sample(epoch) -> Batch            trajectories of the current policy (`mepol.collect` makes them of any VectorEnv)
    search(batch) -> Landscape        the objective over the batch's particles (`KnnLandscape`: the paper's estimators)
    climb(batch, landscape) -> steps  one epoch's ascent inside the trust region (an `Ascent`, made by one of `RULES`)

Any nn.Module with `log_prob` and `act` is a `Policy`; `GaussianPolicy` is the paper's, `CategoricalPolicy` the one of
discrete actions. A whole exploration is then

    policy = GaussianPolicy(state_dim, action_dim)
    policy.initialise(rng, log_std=-0.5)
    ascent = RULES["importance"].make(policy, AscentConfig(k=4), CriticConfig(), state_dim, rng)
    for epoch in itertools.islice(mepol(sample, search, ascent.climb), 100):
        print(epoch.epoch, epoch.entropy, epoch.kl)

examples/loop_without_files.py runs this; docs/guide/extending.md adds a rule, an estimator and a policy class.

>>> import gymnasium, itertools, numpy as np
>>> from mepol import algorithm, collect
>>> env, rng = gymnasium.make_vec("mepol/GridWorld-v0", 5), np.random.default_rng(0)
>>> policy = algorithm.GaussianPolicy(2, 2, hidden=(16,))
>>> policy.initialise(rng, log_std=-0.5)
>>> rule, config = algorithm.RULES["importance"], algorithm.AscentConfig(k=4)
>>> ascent = rule.make(policy, config, algorithm.CriticConfig(), 2, rng)
>>> sample = lambda epoch: collect(policy, env, 60, seed=epoch)
>>> search = lambda batch: algorithm.KnnLandscape.of(batch.particles((0, 1)), config.k, eps=1e-15)
>>> [epoch.epoch for epoch in itertools.islice(algorithm.mepol(sample, search, ascent.climb), 2)]
[0, 1]
"""

from mepol.algorithm.advantage import climb_by_advantage
from mepol.algorithm.ascent import Ascent, Climb, Rule, Step, Undo, make_optimiser
from mepol.algorithm.batch import Batch, Paths
from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.config import AscentConfig, CriticConfig, PolicyConfig
from mepol.algorithm.critic import Critic
from mepol.algorithm.health import Watch
from mepol.algorithm.landscape import KnnLandscape, Landscape
from mepol.algorithm.loop import Epoch, Iterate, ascend, climb_by_importance, importance_weights, mepol
from mepol.algorithm.policy import GaussianPolicy, Policy, Stateful
from mepol.algorithm.rules import RULES
from mepol.algorithm.symmetry import Mirror, Symmetry
from mepol.algorithm.tail import TailLandscape, tail_weights

__all__ = [
    "RULES",
    "Ascent",
    "AscentConfig",
    "Batch",
    "CategoricalPolicy",
    "Climb",
    "Critic",
    "CriticConfig",
    "Epoch",
    "GaussianPolicy",
    "Iterate",
    "KnnLandscape",
    "Landscape",
    "Mirror",
    "Paths",
    "Policy",
    "PolicyConfig",
    "Rule",
    "Stateful",
    "Step",
    "Symmetry",
    "TailLandscape",
    "Undo",
    "Watch",
    "ascend",
    "climb_by_advantage",
    "climb_by_importance",
    "importance_weights",
    "make_optimiser",
    "mepol",
    "tail_weights",
]
