"""What was learnt, in other people's stacks: the policy, the reward and the data (docs/guide/elsewhere.md).

export.py      a policy as a file of another program; the table of exporters
network.py     a policy as plain arrays, and what is to be known of it besides
reward.py      the k-NN log-volume as an intrinsic reward in three calls: watch, compute, update
callback.py    the same within Stable-Baselines3's on-policy learners
episodes.py    trajectories as episodes, and their rewards by a goal
dataset.py     episodes as Minari and Parquet datasets
"""

from mepol.elsewhere.episodes import Episode, episodes_of, goal_rewards, relabelled
from mepol.elsewhere.export import EXPORTERS, export
from mepol.elsewhere.reward import LogVolumeReward

__all__ = ["EXPORTERS", "Episode", "LogVolumeReward", "episodes_of", "export", "goal_rewards", "relabelled"]
