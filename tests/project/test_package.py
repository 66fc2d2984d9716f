"""What is published: the sdist, the wheel made from it, and the files that a repository has."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fdiff

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# What is needed to build, to test and to read; `make test` runs in an unpacked sdist.
IN_SDIST = {
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "GOVERNANCE.md",
    "LICENSE",
    "Makefile",
    "NOTES.md",
    "README.md",
    "SECURITY.md",
    "benchmarks",
    "docs",
    "examples",
    "fdiff",
    "notebooks",
    "noxfile.py",
    "pyproject.toml",
    "tests",
    "typings",
}
# The folder of somebody who made or tried it.
A_HOME = re.compile(rb"/(?:home|Users|root)/\w")


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The sdist and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow  # builds in an environment of its own, for which hatchling is fetched
def test_the_sdist_holds_what_builds_and_tests(published):
    with tarfile.open(published[0]) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
        texts = [archive.extractfile(m).read() for m in archive.getmembers() if m.isfile()]
    assert {name.split("/")[0] for name in names} >= IN_SDIST
    there = {str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob("*") if p.is_file()}
    assert {t for t in there if "__pycache__" not in t} <= set(names)
    assert [n for n, t in zip(names, texts, strict=True) if A_HOME.search(t)] == []


@pytest.mark.slow  # as above
def test_the_wheel_holds_the_package_alone_and_works(published, tmp_path):
    wheel = published[1]
    files = zipfile.ZipFile(wheel).namelist()
    assert {f.split("/")[0] for f in files if ".dist-info/" not in f} == {"fdiff"}
    assert "fdiff/py.typed" in files
    assert any(f.endswith("licenses/LICENSE") for f in files)

    pip("install", "--no-deps", "--target", tmp_path, wheel)
    smoke = [sys.executable, ROOT / "tests" / "smoke.py"]
    outside = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        smoke, cwd=tmp_path, env=outside, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("fdiff ")


@pytest.mark.slow  # as above
def test_a_package_index_takes_what_is_published(published):
    check = [sys.executable, "-m", "twine", "check", "--strict", *published]
    subprocess.run(check, check=True)


def test_every_file_of_a_release_names_this_version():
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("CHANGELOG.md", "CITATION.cff", "conda/recipe.yaml")
    }
    version = fdiff.__version__
    assert re.search(rf"^## \[{version}\] - ", texts["CHANGELOG.md"], re.MULTILINE)
    assert f"\nversion: {version}\n" in texts["CITATION.cff"]
    assert f'\n  version: "{version}"\n' in texts["conda/recipe.yaml"]


def test_the_recipe_asks_for_what_the_package_asks_for():
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    listed = recipe.partition("  run:\n")[2].partition("\n\n")[0].splitlines()
    needs = [line.removeprefix("    - ").replace(" ", "", 1) for line in listed]
    assert needs == ["python>=${{ python_min }}", *PROJECT["dependencies"]]
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in recipe


def test_classifiers_name_every_python_from_the_required_one_on():
    named = [c.rpartition(" :: ")[2] for c in PROJECT["classifiers"] if " :: 3." in c]
    first = int(PROJECT["requires-python"].removeprefix(">=3."))
    assert named == [f"3.{minor}" for minor in range(first, first + len(named))]


def test_the_citation_is_of_this_project():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    facts = dict(re.findall(r"^([\w-]+): *(\S.*)$", text, re.MULTILINE))
    (author,) = PROJECT["authors"]
    assert facts["license"] == PROJECT["license"]
    assert f"  - name: {author['name']}\n" in text
    assert set(facts) >= {"cff-version", "message", "title", "type"}


def test_the_sampled_tests_are_there():
    rows = (ROOT / "tests" / "sampled.txt").read_text(encoding="utf-8").splitlines()
    tests = [row.split()[1].partition("::") for row in rows if not row.startswith("#")]

    def there(path, name):
        if not name:
            return (ROOT / path).is_dir()
        return f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")

    assert tests
    assert [(path, name) for path, _, name in tests if not there(path, name)] == []


def test_the_quick_tests_are_there():
    listed = (ROOT / "tests" / "quick.txt").read_text(encoding="utf-8").split()
    assert [name for name in listed if not (ROOT / name.split("::")[0]).is_file()] == []


def test_the_makefile_says_what_it_does_while_pip_is_silent():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert text.count("pip install") == 1
    assert 'INSTALL := @echo "Installing fdiff and what this needs into $(VENV), once:' in text
    stamps = re.findall(r"^\$\(VENV\)/\.\w+: ", text, re.MULTILINE)
    assert text.count("\t$(INSTALL) ") == len(stamps)


def test_the_headline_of_the_demo_is_what_a_user_gains(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setitem(os.environ, "OPENBLAS_NUM_THREADS", "1")  # which the demo sets
    import demo

    certified = np.array([1.0, 2.0])
    problem = SimpleNamespace(data={"sd": certified})
    fits = [SimpleNamespace(errors=certified * k) for k in (0.58, 1.0 + 1e-9)]
    ways = [SimpleNamespace(seconds=np.array([0.0, s])) for s in (1.6, 0.2)]
    demo.headline((problem, *fits), ways)
    assert capsys.readouterr().out == (
        "\n8 times less work than with finite differences, and error bars right to 9 digits\n"
        "where those of finite differences are off by 42%.\n"
    )
