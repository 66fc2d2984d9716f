"""The checks on every supported Python: `nox` for all of them, `nox -s lint types` for some.

`pipx install nox` is all it needs. Pythons that this machine lacks are left out, and nox says so.
"""

import shutil
from pathlib import Path

import nox

PYTHONS = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))  # its classifiers
OLDEST = PYTHONS[0]  # the one that ruff and pyright are told to expect
ROOT = Path(__file__).parent
DOCUMENTS = ("coverage", "documents", "notebooks", "readme")

nox.options.reuse_existing_virtualenvs = True
nox.needs_version = ">=2024.4.15"


def install_wheel(session: nox.Session) -> None:
    """Install what would be published: the wheel that is built from the sdist."""
    session.install("build")
    dist = Path(session.create_tmp()) / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist), silent=True)
    (wheel,) = dist.glob("*.whl")
    session.install("--force-reinstall", "--no-deps", str(wheel))
    session.install(f"{wheel}[test]")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The built wheel: a smoke test outside the clone, then the quick tests (or those you name)."""
    install_wheel(session)
    with session.chdir(session.create_tmp()):
        session.run("python", str(ROOT / "tests" / "smoke.py"))
    # Not `python -m pytest`, which would put the clone in front of what is installed.
    tests = session.posargs or ["--sample", "@tests/quick.txt"]
    session.run("pytest", "-n", "2", "-m", "not slow", *tests)


@nox.session(python=OLDEST)
def lint(session: nox.Session) -> None:
    """Ruff's rules and its format."""
    session.install("ruff>=0.12")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python=OLDEST)
def types(session: nox.Session) -> None:
    """Pyright over the package, then what users write, under pyright and mypy."""
    session.install("--editable", ".[test]")
    session.run("pyright", "--pythonpath", str(Path(session.bin) / "python"))
    session.run("pytest", "tests/functional/test_typing.py")


@nox.session(python=OLDEST)
def docs(session: nox.Session) -> None:
    """README, the pages and the notebooks: they build, and their code prints what they show."""
    session.install("--editable", ".[docs,test]")
    session.run("sphinx-build", "-q", "-W", "-b", "html", "docs", "build/docs")
    session.run("pytest", "-n", "2", *(f"tests/project/test_{name}.py" for name in DOCUMENTS))
