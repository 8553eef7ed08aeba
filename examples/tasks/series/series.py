"""A series with two periods, and a second series that leads it by four hours."""

import csv
import sys

import numpy as np


def write(path, steps=1600, seed=0):
    """Write a CSV file with the columns `load` and `warmth` and a row for each hour."""
    rng = np.random.default_rng(seed)
    hour = np.arange(steps)
    warmth = np.sin(2 * np.pi * hour / 24) + 0.4 * np.sin(2 * np.pi * hour / 9) + rng.normal(0, 0.1, steps)
    load = 2 - 0.8 * np.roll(warmth, 4) + 0.3 * np.sign(np.sin(2 * np.pi * hour / 12)) + rng.normal(0, 0.1, steps)
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["load", "warmth"])
        rows.writerows(zip(load.round(4), warmth.round(4), strict=True))


if __name__ == "__main__":
    write(sys.argv[1])
