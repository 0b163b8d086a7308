"""What the page draws of each phase, as a table: the script knows how to draw, and nothing of what."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Series:
    """One column of metrics.csv, or of what gather.py derives from the tables, as a line of a chart."""

    column: str
    label: str
    style: str = "line"
    """`points`: measured now and then; `line`: of each turn; `faint`: beside something that matters more."""


@dataclass(frozen=True)
class Chart:
    """Series that share an axis."""

    title: str
    unit: str
    series: tuple[Series, ...]
    about: str
    """One sentence on how to read it."""
    section: str = "curves"
    """`curves`, or `health` for what tells whether the numbers can be trusted."""
    limit: tuple[str, str] | None = None
    """Name in a run's `limits` of a line across the chart, and what it is called."""


@dataclass(frozen=True)
class Measure:
    """A number of the first, the best and the last measured policy."""

    column: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Shown:
    """What is shown of the runs of one phase."""

    heading: str
    turns: str
    """What its turns are called, many of them."""
    measures: tuple[Measure, ...]
    charts: tuple[Chart, ...] = field(repr=False)


SHOWN: dict[str, Shown] = {
    "explore": Shown(
        heading="Exploration",
        turns="epochs",
        measures=(
            Measure("index", "Entropy index", "nats"),
            Measure("discrete_entropy", "Discrete entropy per trajectory", "nats"),
            Measure("pooled_entropy", "Pooled discrete entropy", "nats"),
            Measure("cells", "Cells visited"),
        ),
        charts=(
            Chart(
                "Entropy",
                "nats",
                (Series("index", "index, fresh batch", "points"), Series("entropy", "batch learnt from", "faint")),
                "The two rest on unlike numbers of trajectories: compare each with itself only.",
                limit=("ceiling", "ceiling"),
            ),
            Chart(
                "Discrete entropy",
                "nats",
                (
                    Series("discrete_entropy", "mean per trajectory", "points"),
                    Series("pooled_entropy", "all together", "points"),
                ),
                "Of the histogram over the grid of the heatmaps.",
            ),
            Chart(
                "Cells visited",
                "",
                (Series("cells", "fresh batch", "points"), Series("total_cells", "all batches so far", "faint")),
                "Cells of the grid that any trajectory entered: of a fresh batch, of all that were learnt from so far.",
                limit=("reachable", "reachable"),
            ),
            Chart("KL", "nats", (Series("kl", "KL to the next policy"),), "How far each epoch moved the policy."),
            Chart(
                "Effective sample size",
                "particles",
                (Series("ess", "ESS"),),
                "Particles that still count under the new policy's weights; near 1 the estimate rests on one.",
                section="health",
                limit=("particles", "batch"),
            ),
            Chart(
                "Gradient steps",
                "",
                (Series("steps", "accepted"), Series("tried", "tried", "faint")),
                "Steps tried and not accepted left the trust region, and were taken back.",
                section="health",
            ),
            Chart(
                "KL used",
                "% of the trust region",
                (Series("kl_used", "KL used"),),
                "Share of kl_threshold that the epoch's climb used up.",
                section="health",
                limit=("whole", "threshold"),
            ),
            Chart(
                "Coinciding particles",
                "",
                (Series("coinciding", "held apart by the floor"),),
                "Particles in one place with their nearest neighbours.",
                section="health",
            ),
            Chart(
                "Time per epoch",
                "s",
                (
                    Series("sample_s", "sampling"),
                    Series("optimise_s", "climbing", "faint"),
                    Series("knn_s", "neighbours", "faint"),
                ),
                "Wall-clock of the parts of an epoch; evaluations are not counted.",
                section="health",
            ),
        ),
    ),
    "finetune": Shown(
        heading="Fine-tuning",
        turns="iterations",
        measures=(
            Measure("average_return", "Average return"),
            Measure("success_rate", "Success rate"),
            Measure("steps_to_goal", "Steps to the goal", "steps"),
        ),
        charts=(
            Chart(
                "Average return",
                "",
                (Series("average_return", "average return"),),
                "Mean over the episodes of an iteration.",
            ),
            Chart(
                "Success rate", "", (Series("success_rate", "success rate"),), "Share of episodes that meet the goal."
            ),
            Chart(
                "Steps to the goal",
                "",
                (Series("steps_to_goal", "steps to the goal"),),
                "Mean over the episodes that meet it.",
            ),
            Chart(
                "Entropy of the visited states",
                "nats",
                (Series("state_entropy", "entropy"),),
                "Of an iteration's states, where it is rewarded beside the task.",
            ),
            Chart(
                "Episodes",
                "",
                (Series("episodes", "episodes"),),
                "What the numbers of an iteration rest on.",
                section="health",
            ),
            Chart(
                "Time per iteration",
                "s",
                (Series("sample_s", "sampling"), Series("learn_s", "learning", "faint")),
                "Wall-clock of the parts of an iteration.",
                section="health",
            ),
        ),
    ),
}
