"""Makes an instance of each workflow that wfcommons has a recipe for, into a folder: always the same ones.

Knows nothing of Rakuda.
"""

import pathlib
import random
import sys

import numpy
import wfcommons.wfchef.recipes as recipes
from wfcommons import WorkflowGenerator


def main(folder: pathlib.Path, tasks: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(name for name in dir(recipes) if name.endswith("Recipe")):
        random.seed(1)
        numpy.random.seed(1)
        recipe = getattr(recipes, name).from_num_tasks(tasks)
        workflow = WorkflowGenerator(recipe).build_workflow()
        workflow.write_json(folder / f"{name.removesuffix('Recipe').lower()}.json")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
