"""Writes a workflow in the shape of an application, by the generator of WfCommons, as an instance in WfFormat.

usage: shapes.py RECIPE TASKS FILE

The generator draws numbers, and names of files. Both come from a fixed seed here, so that one version of it makes one
instance; with PYTHONHASHSEED=0, for it goes through sets of strings, too.
"""

import pathlib
import random
import sys
import uuid

import numpy

SEED = 1

names = random.Random(SEED)
uuid.uuid4 = lambda: uuid.UUID(int=names.getrandbits(128), version=4)

# They keep the function that they find when they are loaded.
from wfcommons import WorkflowGenerator  # noqa: E402
from wfcommons.wfchef import recipes  # noqa: E402

name, tasks, path = sys.argv[1:]
random.seed(SEED)
numpy.random.seed(SEED)
recipe = getattr(recipes, f"{name.capitalize()}Recipe").from_num_tasks(int(tasks))
WorkflowGenerator(recipe).build_workflow(f"wf-{name}").write_json(pathlib.Path(path))
