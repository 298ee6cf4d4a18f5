"""Compares a workflow for Pegasus with what its Python API writes for the same instance.

usage: pegasus.py INSTANCE.json WORKFLOW.yml

The API is given tasks, files and dependencies of the instance, and of the workflow only programs and their arguments.
A difference ends it with the part that differs and status 1.
"""

import json
import pathlib
import sys
import tempfile

import yaml
from Pegasus.api import Job, Transformation, TransformationCatalog, Workflow


def written_by_the_api(instance, emitted):
    """The document that the API writes."""
    workflow = Workflow(instance["name"], infer_dependencies=False)
    programs = {it["name"]: it["sites"][0] for it in emitted["transformationCatalog"]["transformations"]}
    catalog = TransformationCatalog()
    for name, site in programs.items():
        catalog.add_transformations(Transformation(name, site=site["name"], pfn=site["pfn"], is_stageable=False))
    workflow.add_transformation_catalog(catalog)
    tasks = instance["workflow"]["specification"]["tasks"]
    read = {file for task in tasks for file in task["inputFiles"]}
    commands = {it["id"]: it for it in emitted["jobs"]}
    jobs = {}
    for task in tasks:
        command = commands[task["id"]]
        job = Job(command["name"], _id=task["id"]).add_args(*command["arguments"]).add_inputs(*task["inputFiles"])
        for file in task["outputFiles"]:
            job.add_outputs(file, stage_out=file not in read, register_replica=False)
        jobs[task["id"]] = job
        workflow.add_jobs(job)
    for task in tasks:
        for parent in task["parents"]:
            workflow.add_dependency(jobs[parent], children=[jobs[task["id"]]])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "workflow.yml")
        workflow.write(str(path))
        return yaml.safe_load(path.read_text())


def comparable(document):
    """The parts of a document by name, lists whose order says nothing in order."""
    jobs = [{**job, "uses": sorted(job["uses"], key=lambda use: use["lfn"])} for job in document["jobs"]]
    dependencies = [{**it, "children": sorted(it["children"])} for it in document.get("jobDependencies", [])]
    return {
        **{key: value for key, value in document.items() if key != "x-pegasus"},
        "jobs": sorted(jobs, key=lambda job: job["id"]),
        "jobDependencies": sorted(dependencies, key=lambda it: it["id"]),
    }


instance = json.loads(pathlib.Path(sys.argv[1]).read_text())
emitted = yaml.safe_load(pathlib.Path(sys.argv[2]).read_text())
ours, theirs = comparable(emitted), comparable(written_by_the_api(instance, emitted))
for part in sorted(ours.keys() | theirs.keys()):
    if ours.get(part) != theirs.get(part):
        sys.exit(f"{part}: written {json.dumps(ours.get(part))}, by the API {json.dumps(theirs.get(part))}")
print(f"{len(ours['jobs'])} jobs")
