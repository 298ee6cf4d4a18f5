"""Reads metrics as Prometheus' own library does, and prints their families by name as JSON.

usage: metrics.py CONTENT-TYPE < METRICS

What is no OpenMetrics, or no text format, ends it with the parser's words and status 1.
"""

import json
import sys

from prometheus_client import parser as text_format
from prometheus_client.openmetrics import parser as open_metrics

kind = sys.argv[1].split(";")[0]
parsers = {"application/openmetrics-text": open_metrics, "text/plain": text_format}
try:
    families = list(parsers[kind].text_string_to_metric_families(sys.stdin.read()))
except ValueError as error:
    sys.exit(f"{kind}: {error}")
json.dump(
    {
        family.name: {
            "type": family.type,
            "unit": family.unit,
            "help": family.documentation,
            "samples": [{"name": it.name, "labels": it.labels, "value": it.value} for it in family.samples],
        }
        for family in families
    },
    sys.stdout,
)
