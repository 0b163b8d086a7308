"""The table of docs/results/reliability.md from the ledger, results/reliability.csv; as a script, puts it there."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEDGER, PAGE = ROOT / "results" / "reliability.csv", ROOT / "docs" / "results" / "reliability.md"
HEAD = "| fault | times tried | lost | message |\n|---|---:|---|---|\n"
LOST = {
    "directory removed during the run": "the run: it was deleted",
    "both checkpoints damaged": "the state to resume from; rows and policy stay",
}
"""What a fault cost beyond turns that were computed again; everything else cost nothing."""


def rows() -> list[dict[str, str]]:
    with LEDGER.open(newline="") as file:
        return list(csv.DictReader(file))


def table() -> str:
    """The ledger as the page shows it."""
    return HEAD + "".join(f"| {' | '.join(cells(row))} |\n" for row in rows())


def cells(row: dict[str, str]) -> tuple[str, ...]:
    redone = int(row["turns_redone"])
    again = f"; {redone} turn{'s' * (redone > 1)} redone" if redone else ""
    return row["fault"], f"{int(row['tried']):,}", LOST.get(row["fault"], f"nothing{again}"), row["message"]


def totals() -> str:
    """One line, in front of the table."""

    def tried(pattern: str) -> str:
        return f"{sum(int(row['tried']) for row in rows() if re.match(pattern, row['fault'])):,}"

    kills, writing = tried("SIGKILL"), tried("SIGKILL (?!at a random)")
    files, folders = tried("mutated file|file made"), tried("run directory with")
    return (
        f"In all: {kills} kills by SIGKILL, {writing} of them in a file operation; {files} mutated or forged files;\n"
        f"{folders} run directories with links and pipes.\n"
    )


def renewed(page: str) -> str:
    """The page with the table and the totals of the ledger."""
    before, _, rest = page.partition("In all: ")
    after = rest[re.search(r"\n\n(?!\|)", rest).start() :]  # type: ignore[union-attr]
    return f"{before}{totals()}\n{table().rstrip()}{after}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
    print(totals(), end="")
