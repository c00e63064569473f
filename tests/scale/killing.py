"""Run a command again and again, and kill it at a chosen moment."""

import subprocess
import sys
from contextlib import contextmanager

# The parent loads libraries and compiled kernels once; children fork from it.
LAUNCHER = """
import os, signal, sys, time
import duckdb, pyarrow.csv, pyarrow.parquet
import hierlpr.io, hierlpr.model, hierlpr.scale
from hierlpr.cli import main
os.environ["HIERLPR_NUM_THREADS"] = "1"
{warm}
for line in sys.stdin:
    seconds = float(line)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            main(sys.argv[1:], standalone_mode=False)
        finally:
            os._exit(0)
    if seconds > 0.0:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(time.monotonic() - began, flush=True)
"""


@contextmanager
def killable(args, *, warm):
    """Give a function that runs the command, and kills it after some seconds if they are not 0.

    `warm` is code that makes the compiled kernels load before the first child is forked. The
    function returns how long it took.
    """
    code = LAUNCHER.format(warm=warm)
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as launcher:  # fmt: skip

        def run(seconds):
            launcher.stdin.write(f"{seconds}\n")
            launcher.stdin.flush()
            return float(launcher.stdout.readline())

        yield run
        launcher.stdin.close()
