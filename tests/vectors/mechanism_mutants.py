"""Wrong variants of the part of the page's module with mechanisms and words of few rounds.

Each has one text of a source, what takes its place, and the file of vectors that notices.
"""

from __future__ import annotations

from typing import Final

Mutants = dict[str, tuple[str, str, str]]

PARAMETERS: Final[Mutants] = {
    "columns of another number of combinations": (
        "sizes.reduce((all, size) => all * size, 1) !== symbols",
        "false",
        "geometries",
    ),
    "any number of columns": ("sizes.length > 16 ||", "", "geometries"),
    "columns of one cell": ("columns: list(whole(2))", "columns: list(whole(1))", "geometries"),
    "any number of spare dummies": (
        "if (spare > max(...sizes) * mean)",
        "if (false)",
        "geometries",
    ),
    "any number of dummies in columns": (
        "if (sumBy(dummies) > 2 ** 31 - 1)",
        "if (false)",
        "documents",
    ),
    "groups of all bins": ("if (width >= bins)", "if (false)", "geometries"),
    "any number of bins": ("symbols: whole(2, 2 ** 12)", "symbols: whole(2)", "geometries"),
    "any mean number of dummies": ("mean: whole(1, 2 ** 14) }", "mean: whole(1) }", "geometries"),
    "a blanket of 1": ("return blanket.n === blanket.d ?", "return false ?", "geometries"),
    "a blanket of 0 is another mechanism": (
        'if (text === "0/1") return null;',
        "",
        "geometries",
    ),
    "dummies that are drawn without end": (
        "|| mechanism.tries > MOST_TRIES",
        "",
        "geometries",
    ),
    "dummies of columns that are drawn without end": (
        "tries: sumBy(sizes) * triesOf(rate, mean),",
        "",
        "geometries",
    ),
    "dummies of a sum that are drawn without end": (
        ", tries: sumBy(rates, (rate, at) => triesOf(rate, means[at])),",
        ",",
        "geometries",
    ),
    "dummies of symbols that are drawn without end": (
        ", tries: symbols * triesOf(rate, mean),",
        ",",
        "geometries",
    ),
}

BOUNDS: Final[Mutants] = {
    "ε_L of Laplace noise is believed": (
        "local: (distance) => noisyReport(rate, 1, distance),\n    witness: (honest,",
        "local: () => Infinity,\n    witness: (honest,",
        "rounds",
    ),
    "Laplace noise hides everything": (
        ": bitCounts(honest - 1, chance(k), 1, new Ratio(1).minus(chance(1)), chance(distance))",
        ": () => 0",
        "rounds",
    ),
    "the first column alone is checked": (
        ".reduce(addLosses)),\n    starts,",
        "[0]),\n    starts,",
        "numbers",
    ),
    "ε_L of a blanket among dummies of nodes is believed": (
        "...open, sample, local,\n    witness: () =>",
        "...open, sample,\n    witness: () =>",
        "rounds",
    ),
    "ε_L of a blanket among dummies of users is believed": (
        "...open, sample, local,\n    witness: (honest) =>",
        "...open, sample,\n    witness: (honest) =>",
        "rounds",
    ),
    "a blanket among dummies of nodes hides everything": (
        "witness: () => oneReport(rate, mean, symbols, dummies, +blanket)",
        "witness: () => () => 0",
        "rounds",
    ),
    "a blanket among dummies of users hides everything": (
        "witness: (honest) => blanketedCounts(symbols,",
        "witness: (honest) => (() => () => 0)(symbols,",
        "rounds",
    ),
    "reports above all dummies are forgotten": (
        "let delta = max(0, share + other -",
        "let delta = 0 * max(0, share + other -",
        "numbers",
    ),
    "other symbols hide nothing": (
        "other * (old + fresh + others_)",
        "other * (old + fresh)",
        "numbers",
    ),
    "two symbols are as many": ("symbols === 2 ? betweenTwo", "false ? betweenTwo", "numbers"),
    "full slots have no law": ("if (chance.n === chance.d) return", "if (false) return", "numbers"),
}

ESTIMATES: Final[Mutants] = {
    "ends of the range are not counted beyond it": (
        "const value = total + (highest - lowest) * beyond;",
        "const value = total;",
        "results",
    ),
    "the noise of Laplace reports ends early": (
        "const width = meanOfTail(+reports, rate);",
        "const width = 0;",
        "results",
    ),
    "lost messages are of no column, above": ("least: least - lost", "least", "results"),
    "lost messages are of no column": ("reports.plus(lost)", "reports", "results"),
    "lost messages are of no bin": (" * deviation + lost]", " * deviation]", "results"),
    "groups say nothing about bins": (
        "(columns[0][at] * widths[at] + inside) / (widths[at] + 1)",
        "inside",
        "results",
    ),
    "bins need not add up": ("const rest = total - sumBy(groups);", "const rest = 0;", "results"),
    "room is certain": (
        "const missed = 0.05 * columns.room() ** nodes;",
        "const missed = 0.05;",
        "results",
    ),
    "all groups are as wide": ("errors[Number(tree.isNarrow(bin))]", "errors[0]", "results"),
    "the blanket is not taken off, among dummies of nodes": (
        "return histogram(observed, reports, high, low, { ...noise, forward, backward });",
        "return open.estimate(counts, reports, nodes);",
        "results",
    ),
    "the blanket is not taken off, among dummies of users": (
        "return histogram(counts.slice(0, symbols), reports, high, low, added);",
        "return open.estimate(counts, reports);",
        "results",
    ),
    "noise of nodes is not in intervals": ("{ ...noise, forward, backward }", "noise", "results"),
    "dummies of users are not in intervals": (
        "const added = { slots: trials, rate,",
        "const added = { rate,",
        "results",
    ),
}

WORDS: Final[Mutants] = {
    "a histogram of columns is a sum": (
        'sums: "max_value" in checked',
        'sums: !kind.endsWith("-histogram")',
        "questions",
    ),
    "open lists have others": (
        'if (kinds.includes("hashes") && (kinds.length > 1 || others))',
        'if (kinds.includes("hashes") && kinds.length > 1)',
        "questions",
    ),
    "open lists have other fields": ("(kinds.length > 1 || others)", "others", "questions"),
    "salts in any spelling": ("if (!/^[0-9a-f]{32}$/.test(salt))", "if (false)", "questions"),
    "any number of cells": ("if (columns * 2 ** bits > 2 ** 15)", "if (false)", "questions"),
    "any number of hashes": ("columns: whole(1, 4)", "columns: whole(0)", "questions"),
    "any number of bits": ("bits: whole(4, 15)", "bits: whole(0)", "questions"),
    "two sums": (
        'if (kinds.filter((kind) => kind === "magnitudes").length > 1)',
        "if (false)",
        "questions",
    ),
    "magnitudes fall": (
        'if (decimalOf(step) <= 0n) refuse("a step above 0");\n    if (size',
        "if (size",
        "questions",
    ),
    "magnitudes of any size": (
        "if (size <= 2 * parts || size > 40 * parts + 1)",
        "if (false)",
        "questions",
    ),
    "any number of parts": ("parts: whole(1, 64)", "parts: whole(0)", "questions"),
    "magnitudes that no decimal has": (
        "decimalOf(magnitudeOf(fields, size - 1));",
        "",
        "questions",
    ),
}

MORE_MUTANTS: Final[Mutants] = PARAMETERS | BOUNDS | ESTIMATES | WORDS

ROUNDING_MUTANTS: Final = {
    "texts are not composed": (
        'trim(answer).normalize("NFC");\n  const text',
        "trim(answer);\n  const text",
    ),
    "long texts are hashed": ("[...composed].length <= LONGEST_TEXT", "true"),
    "texts are counted in halves of characters": ("[...composed].length", "composed.length"),
    "hashes have no salt": ("open-list\\0${salted}", "open-list\\0"),
    "numbers are rounded down": ("low + Number(integers.below(share.d) < share.n)", "low"),
    "numbers are rounded with fair coins": (
        "integers.below(share.d) < share.n",
        "integers.below(2) < 1n",
    ),
    "numbers below 0 count": ("if (number === null || number < 0n)", "if (number === null)"),
}
"""Wrong variants of shuffledp-record.js."""
