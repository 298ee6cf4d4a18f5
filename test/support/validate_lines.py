"""Validates lines of JSON with a JSON Schema: one line in, one line out, empty when it is valid, else what is wrong.

usage: validate_lines.py SCHEMA < LINES

It knows neither journals nor Rakuda; the validator is Debian's python3-jsonschema.
"""

import json
import sys

import jsonschema


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    kind = jsonschema.Draft202012Validator
    kind.check_schema(schema)
    validator = kind(schema)
    for line in sys.stdin:
        try:
            error = next(validator.iter_errors(json.loads(line)), None)
        except json.JSONDecodeError as problem:
            error = problem
        print("" if error is None else str(getattr(error, "message", error)).replace("\n", " "))


if __name__ == "__main__":
    main()
