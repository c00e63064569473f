"""Build the sdist and the wheel, and try the wheel in clean environments: what `make dist` runs.

Every Python named by the classifiers in pyproject.toml is tried with the newest dependencies, and
the oldest Python also with their lower bounds. Interpreters are given as arguments, or found as
``python3.12`` on the PATH or among those of pyenv. The versions that could not be tried are printed
at the end.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from oldest import PROJECT, lower_bounds

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def main(given: list[str]) -> None:
    """Build, then try with every Python that is found."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", DIST, ROOT], check=True)
    (wheel,) = DIST.glob("*.whl")  # built from the sdist
    here = {minor_version(sys.executable): sys.executable}
    pythons = here | {minor_version(python): python for python in given}
    versions = classified()
    found = {version: pythons.get(version) or find_python(version) for version in versions}
    tried = []
    for version, python in found.items():
        if python is not None:
            say(f"Python {version}, newest dependencies:")
            try_out(python, wheel, constraints=[])
            tried.append(version)
    if found[versions[0]] is not None:
        say(f"Python {versions[0]}, lower bounds of the dependencies:")
        try_out(found[versions[0]], wheel, constraints=lower_bounds())
    say(f"\n{wheel.name}: tried with Python {', '.join(tried)}.")
    lacking = [version for version in versions if version not in tried]
    if lacking:
        say(f"Not tried, because no interpreter was found: Python {', '.join(lacking)}.")


def classified() -> list[str]:
    """Versions of Python named by the metadata, oldest first."""
    found = [re.fullmatch(r".*:: (3\.\d+)", line) for line in PROJECT["classifiers"]]
    return [match[1] for match in found if match]


def find_python(version: str) -> str | None:
    """Return an interpreter that runs, on the PATH or of pyenv, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        shutil.which(f"python{version}"),  # may be a shim of pyenv that does not run
        *sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python"))),
    ]
    for python in candidates:
        if python and subprocess.run([python, "-V"], capture_output=True).returncode == 0:
            return python
    return None


def minor_version(python: str) -> str:
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    return subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def try_out(python: str, wheel: Path, *, constraints: list[str]) -> None:
    """Install into an environment of its own and run every command there, outside the checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "tests" / "smoke.py", folder)
        (folder / "constraints.txt").write_text("\n".join([*constraints, ""]))
        subprocess.run([python, "-m", "venv", folder / "env"], check=True)
        bin = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        pip = [bin / "python", "-I", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", folder / "constraints.txt", f"{wheel}[all]"], check=True)
        subprocess.run([bin / "python", "-I", "smoke.py"], cwd=folder, check=True)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
