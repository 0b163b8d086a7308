"""The second phase: a sparse reward appears, and a task is learnt from an exploration policy or from scratch.

The learners need `pip install 'mepol[finetune]'` (Stable-Baselines3 and sb3-contrib); the tasks do not.
"""

from mepol.finetuning import rows as _rows  # noqa: F401  makes its run directories known
