"""Loads a WfFormat file with the package wfcommons, and prints as JSON what the package makes of it.

usage: wfformat.py FILE

The package validates before it loads: the schema beside this file, then references, cycles and metrics. It fails when the file is invalid, and says why.
wfcommons also draws plots and fits distributions, and for that imports packages of several hundred megabytes; loading an instance calls none of
them. They are not installed, and here stand-ins take their places that fail when anything of them is used.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import logging
import pathlib
import sys
import types

UNUSED = {"matplotlib", "numpy", "pandas", "scipy"}


class Placeholder(types.ModuleType):
    """A module, or something of one, that may be imported and named, and not called."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self.__name__}.{name}")

    def __call__(self, *arguments, **named):
        raise RuntimeError(f"{self.__name__} is not installed, and loading an instance should not call it")


class PlaceholderFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds placeholders for modules of the packages that are not needed."""

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in UNUSED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Placeholder(spec.name)

    def exec_module(self, module):
        pass


def package_without_init(name, folder):
    """Makes a package importable whose __init__ would import all that it has."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def instance_class():
    sys.meta_path.insert(0, PlaceholderFinder())
    folder = pathlib.Path(importlib.util.find_spec("wfcommons").submodule_search_locations[0])
    for part in ("", "wfinstances", "wfchef"):
        package_without_init(f"wfcommons.{part}".rstrip("."), folder / part)
    from wfcommons.wfinstances.instance import Instance

    return Instance


class Collected(logging.Handler):
    """What the package finds invalid, or odd."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


def main(path):
    logger = logging.getLogger("wfformat")
    collected = Collected()
    logger.addHandler(collected)
    schema = pathlib.Path(__file__).with_name("wfformat-1.6.schema.json")
    try:
        instance = instance_class()(pathlib.Path(path), schema, logger)
    except RuntimeError as error:
        sys.exit("\n".join([str(error), *collected.messages]))
    workflow = instance.workflow
    print(json.dumps({
        "schema_version": instance.schema_version,
        "runtime_system": instance.runtime_system["name"],
        "makespan": instance.makespan,
        "tasks": {
            task.name: {
                "runtime": task.runtime,
                "cores": task.cores,
                "program": task.program,
                "arguments": task.args,
                "inputs": sorted(file.file_id for file in task.input_files),
                "outputs": sorted(file.file_id for file in task.output_files),
                "parents": sorted(workflow.tasks[parent].name for parent in workflow.predecessors(task.task_id)),
                "machines": [machine.name for machine in task.machines or []],
            }
            for task in workflow.tasks.values()
        },
        "sizes": {file.file_id: file.size for task in workflow.tasks.values() for file in task.input_files + task.output_files},
        "roots": sorted(workflow.tasks[root].name for root in instance.roots()),
        "warnings": collected.messages,
    }))


main(sys.argv[1])
