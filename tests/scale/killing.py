"""Run commands again and again, several at a time, and stop them at chosen moments."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

# The parent loads libraries and compiled kernels once; children fork from it.
LAUNCHER = """
import json, os, sys, tempfile, time
import duckdb, pyarrow.csv, pyarrow.parquet
import hierlpr.io, hierlpr.model, hierlpr.report, hierlpr.scale
from hierlpr.cli import main
os.environ["HIERLPR_NUM_THREADS"] = "1"
{warm}

def start(args):
    said = tempfile.TemporaryFile()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(said.fileno(), 2)
        code = 1
        try:
            main(args, prog_name="hierlpr")
        except SystemExit as end:
            code = end.code or 0
        finally:
            os._exit(code)
    return child, said

for line in sys.stdin:
    runs = json.loads(line)
    began = time.monotonic()
    events = []
    for i, run in enumerate(runs):
        events.append((run["after"], 0, i))
        if run["stop"]:
            events.append((run["after"] + run["seconds"], 1, i))
    children = {{}}
    for at, is_stop, i in sorted(events):
        time.sleep(max(0.0, began + at - time.monotonic()))
        if is_stop:
            os.kill(children[i][0], runs[i]["stop"])
        else:
            children[i] = start(runs[i]["args"])
    done = []
    for i in range(len(runs)):
        child, said = children[i]
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        took = time.monotonic() - began - runs[i]["after"]
        said.seek(0)
        done.append([code, took, said.read().decode()])
    print(json.dumps(done), flush=True)
"""


@contextmanager
def launcher(*, warm=""):
    """Give a function that runs commands and returns code, seconds and stderr of each.

    A command is a mapping with its `args`, the seconds `after` which it starts, and the signal
    that may `stop` it some `seconds` later. `warm` is code that makes the compiled kernels load
    before the first child is forked.
    """
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER.format(warm=warm)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip

        def run(*commands):
            usual = {"after": 0.0, "seconds": 0.0, "stop": 0}
            todo = [{**usual, **c, "args": [str(arg) for arg in c["args"]]} for c in commands]
            process.stdin.write(json.dumps(todo) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


@contextmanager
def killable(args, *, warm):
    """Give a function that runs one command, and kills it after some seconds if they are not 0."""
    with launcher(warm=warm) as several:

        def run(seconds):
            stop = signal.SIGKILL if seconds > 0.0 else 0
            return several({"args": args, "seconds": seconds, "stop": stop})[0][1]

        yield run
