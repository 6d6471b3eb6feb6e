"""Results of experiments with their quick work, each computed by the first test that needs it.

One fixture that computed all of an author's entries took longer than a test may on a busy machine.
"""

from __future__ import annotations

from shuffledp_experiments.entry import Results
from shuffledp_experiments.registry import experiment


class QuickResults(dict[str, Results]):
    """The results of an entry by its name, such as "002-t2"."""

    def __missing__(self, name: str) -> Results:
        entry = experiment(name)
        self[name] = entry.run(entry.work(quick=True))
        return self[name]
