"""Validates an RO-Crate with roc-validator, and prints its findings as JSON.

usage: crate.py CRATE PROFILE SEVERITY CACHE

PROFILE is a profile that the validator has (provenance-run-crate), SEVERITY `required` or `recommended`. The validator reads the JSON-LD context of
RO-Crate 1.1 from the network and keeps it in a cache. Here its cache, the file CACHE, is filled from the copy of the context that the
package rocrate has, and the validator is told that it is offline.
"""

import importlib.util
import io
import json
import pathlib
import sys

import requests
import urllib3
from requests_cache import CachedSession
from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings

CONTEXT = "https://w3id.org/ro/crate/1.1/context"


class PackagedContext(requests.adapters.BaseAdapter):
    """Answers as the context's server would."""

    def send(self, request, **named):
        package = pathlib.Path(importlib.util.find_spec("rocrate").submodule_search_locations[0])
        text = (package / "data" / "ro-crate.jsonld").read_bytes()
        if json.loads(text)["@id"] != CONTEXT:
            sys.exit(f"the package rocrate has another context than {CONTEXT}")
        response = requests.Response()
        response.status_code = 200
        response.url = request.url
        response.request = request
        response.headers["Content-Type"] = "application/ld+json"
        response.raw = urllib3.HTTPResponse(body=io.BytesIO(text), headers=response.headers, status=200, preload_content=False)
        return response

    def close(self):
        pass


def fill(cache):
    session = CachedSession(cache_name=cache, backend="sqlite", expire_after=-1)
    session.mount("https://", PackagedContext())
    session.get(CONTEXT, headers={"Accept": "application/ld+json, application/json"})


def main(crate, profile, severity, cache):
    fill(cache)
    result = services.validate(ValidationSettings(
        rocrate_uri=crate,
        profile_identifier=profile,
        requirement_severity=Severity[severity.upper()],
        offline=True,
        cache_path=cache,
    ))
    print(json.dumps({
        "passed": result.passed(Severity[severity.upper()]),
        "checks": len(result.executed_checks),
        "issues": sorted({f"{issue.severity.name} {issue.check.identifier} {issue.message}" for issue in result.get_issues()}),
    }))


main(*sys.argv[1:])
