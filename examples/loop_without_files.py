"""The loop itself: a walker in a square learns to be everywhere, and nothing is written.

    python examples/loop_without_files.py

The world is four lines of NumPy. With an environment of one's own, `mepol.collect(policy, env, T, seed=...)` samples.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from mepol.algorithm import RULES, AscentConfig, Batch, CriticConfig, GaussianPolicy, KnnLandscape, mepol

M, T, EPOCHS = 20, 50, 15  # trajectories, horizon, epochs
CONFIG = AscentConfig(k=4, learning_rate=1e-3, kl_threshold=1.0)


def main(seed: int = 0, epochs: int = EPOCHS) -> list[float]:
    """Prints and returns the entropy of each epoch's policy, in nats; even over the square it would be ln 4 = 1.39."""
    policy = GaussianPolicy(2, 2, hidden=(32, 32))
    policy.initialise(np.random.default_rng((seed, 0)), log_std=-1.0)

    def sample(epoch: int) -> Batch:
        """M walks of T steps in the square [-1, 1]^2 from its middle; randomness depends on (seed, epoch) alone."""
        rng = np.random.default_rng((seed, 1, epoch))
        states, actions = np.zeros((M, T + 1, 2)), np.zeros((M, T, 2), dtype=np.float32)
        for t in range(T):
            actions[:, t] = policy.act(states[:, t], rng)
            step = 0.1 * np.clip(actions[:, t], -1, 1) + 0.01 * rng.standard_normal((M, 2))
            states[:, t + 1] = np.clip(states[:, t] + step, -1, 1)
            states[:, t + 1] += 1e-6 * rng.standard_normal((M, 2))  # no two walkers in the very same corner
        return Batch(states, actions, np.full(M, T))

    def search(batch: Batch) -> KnnLandscape:
        return KnnLandscape.of(batch.particles((0, 1)), CONFIG.k)

    rng = np.random.default_rng((seed, 2))
    ascent = RULES["importance"].make(policy, CONFIG, CriticConfig(), 2, rng)
    entropies = []
    for epoch in islice(mepol(sample, search, ascent.climb), epochs):
        print(f"epoch {epoch.epoch:2d}   entropy {epoch.entropy:6.3f} nats   KL to the next policy {epoch.kl:.3f}")
        entropies.append(epoch.entropy)
    return entropies


if __name__ == "__main__":
    main()
