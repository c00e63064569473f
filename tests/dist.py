"""Build the sdist and the wheel, and try them in clean environments: what `make dist` runs.

The wheel is built from the sdist and tried with this Python. Every other Python named by the
classifiers in pyproject.toml builds its own wheel from the sdist, if an interpreter is found: one
given as an argument, ``python3.12`` on the PATH, or one installed with pyenv. The versions that
could not be tried are printed at the end.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def main(given: list[str]) -> None:
    """Build, then try with every Python that is found."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", DIST, ROOT], check=True)
    (sdist,) = DIST.glob("*.tar.gz")
    (wheel,) = DIST.glob("*.whl")
    check_description(wheel)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    pythons = {here: sys.executable} | {minor_version(python): python for python in given}
    tried, lacking = [], []
    for version in classified():
        python = pythons.get(version) or found(version)
        if python is None:
            lacking.append(version)
            continue
        try_out(python, wheel if version == here else sdist)
        tried.append(version)
    say(f"\n{wheel.name} and {sdist.name}: tried with Python {', '.join(tried)}.")
    if lacking:
        say(f"Not tried, because no interpreter was found: Python {', '.join(lacking)}.")


def check_description(wheel: Path) -> None:
    """Refuse a wheel whose description, the README, has links that are dead on an index."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [name for name in packed.namelist() if name.endswith("dist-info/METADATA")]
        text = packed.read(name).decode()
    dead = re.findall(r"\]\((?!\w+://|#)[^)]*\)", text)
    if dead or "# hierlpr" not in text:
        raise SystemExit(f"{wheel.name}: dead links of the description: {dead}")


def classified() -> list[str]:
    """Versions of Python named by the metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [re.fullmatch(r".*:: (3\.\d+)", line) for line in project["classifiers"]]
    return [match[1] for match in found if match]


def found(version: str) -> str | None:
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


def try_out(python: str, package: Path) -> None:
    """Install into an environment of its own and run every command there, outside the checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "tests" / "smoke.py", folder)
        subprocess.run([python, "-m", "venv", folder / "env"], check=True)
        bin = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        pip = [bin / "python", "-I", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, f"{package}[all]"], check=True)
        subprocess.run([bin / "python", "-I", "smoke.py"], cwd=folder, check=True)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
