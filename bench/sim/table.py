"""Reads the lines of bench/sim/policies from standard input and prints the table of docs/design/scheduling.md.

Times are seconds: the median, and where seeds differ by more than a percent the least and greatest. The last two lines: the
geometric mean of time over lower bound, and the worst distance from the best policy of a line.
"""

import json
import math
import sys

LEARNED = "lifo_hlfet, times known"


def figure(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 1000 else f"{seconds:.0f}"


def cell(line: dict) -> str:
    low, high = line["makespan_s_min"], line["makespan_s_max"]
    spread = f" ({figure(low)} .. {figure(high)})" if high > 1.01 * low else ""
    return figure(line["makespan_s"]) + spread


def main() -> None:
    rows: dict[str, dict[str, dict]] = {}
    for text in sys.stdin:
        line = json.loads(text)
        if line["locality"]:
            name = line["workload"].split("-")[0]
            policy = LEARNED if line["known_times"] else line["policy"]
            rows.setdefault(name, {})[policy] = line
    policies = list(next(iter(rows.values())))
    print("| workload | bound |", " | ".join(policies), "| best over bound |")
    print("|---" * (len(policies) + 3) + "|")
    over: dict[str, list[float]] = {policy: [] for policy in policies}
    behind: dict[str, list[float]] = {policy: [] for policy in policies}
    for name, row in rows.items():
        bound = next(iter(row.values()))["lower_bound_s"]
        learning = [row[policy]["makespan_s"] for policy in policies if policy != LEARNED]
        best = min(learning)
        for policy in policies:
            over[policy].append(row[policy]["makespan_s"] / bound)
            behind[policy].append(row[policy]["makespan_s"] / best)
        cells = " | ".join(cell(row[policy]) for policy in policies)
        print(f"| {name} | {figure(bound)} | {cells} | {best / bound:.2f} |")
    means = (math.exp(sum(map(math.log, over[policy])) / len(rows)) for policy in policies)
    print("| *mean over bound* | |", " | ".join(f"{mean:.3f}" for mean in means), "| |")
    print("| *worst over best* | |", " | ".join(f"{max(behind[policy]):.2f}" for policy in policies), "| |")


if __name__ == "__main__":
    main()
