"""`doctor`: each fact against another source, and how the report is shown."""

import os
import re
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest

import fdiff
from fdiff.kernels import installation, machine_code


def test_the_result_holds_what_is_printed(capsys):
    report = fdiff.doctor()
    assert str(report) + "\n" == capsys.readouterr().out
    assert report["numpy"] == np.__version__
    assert report["llvmlite"] == version("llvmlite")
    assert report["llvm compiler"] == "works, the default"


def test_the_table_for_jupyter_has_every_fact_escaped():
    report = fdiff.doctor()
    report["settings"] = "<b>"
    html = report._repr_html_()
    assert html.count("<tr>") == len(report)
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def shown(text, *options):
    """What Python prints that reads this text."""
    run = [sys.executable, "-q", *options]
    return subprocess.run(run, check=True, capture_output=True, text=True, input=text).stdout


@pytest.mark.slow
def test_it_is_shown_once_by_a_script_and_at_a_prompt():
    script = "import fdiff\nfdiff.doctor()\n"
    for text in (
        shown(script, "-"),
        shown(script, "-i"),
        shown("import fdiff\ndef f():\n    fdiff.doctor()\n\nf()\n", "-i"),
    ):
        assert len(re.findall(r"^(?:>>> )*fdiff +\S+$", text, re.MULTILINE)) == 1
        assert "facts of this installation" not in text


def test_a_result_that_was_printed_says_so(capsys):
    report = fdiff.doctor()
    assert repr(report) == f"<{len(report)} facts of this installation, printed above>"
    assert capsys.readouterr().out.startswith("fdiff ")


def test_a_variable_that_nothing_reads_is_told_with_the_one_that_is_near(monkeypatch):
    monkeypatch.setenv("FDIFF_TEIR", "compile")
    told = fdiff.doctor()["settings"]
    said = "FDIFF_TEIR=compile (fdiff reads no such variable; did you mean FDIFF_TIER?)"
    assert said in told
    monkeypatch.delenv("FDIFF_TEIR")
    assert fdiff.doctor()["settings"] == told.replace(said, "").replace("  ", " ").strip()


@pytest.mark.parametrize("said", ["0", "", "yes"])
def test_only_a_one_switches_verification_on(said):
    program = "from fdiff.process.environment import verifying; print(verifying())"
    environment = {**os.environ, "FDIFF_VERIFY": said}
    run = [sys.executable, "-c", program]
    found = subprocess.run(run, check=False, capture_output=True, text=True, env=environment)
    if said == "yes":
        assert "InputError: FDIFF_VERIFY: 'yes' is neither 0 nor 1.\n" in found.stderr
        assert found.stderr.endswith("Set it to 0 or 1, or leave it unset.\n")
    else:
        assert found.stdout == "False\n"


def test_the_cache_is_told_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "kernels"))
    fdiff.cache_clear()
    fdiff.jit(lambda x: np.sin(x) + 1.25)(np.ones(3))
    files = list((tmp_path / "kernels").glob("*.kernel"))
    size = sum(path.stat().st_size for path in files) >> 10
    wanted = f"{tmp_path / 'kernels'} (can be written to, {len(files)} files, {size} KiB)"
    assert files
    assert fdiff.doctor()["cache"] == wanted


def test_a_compiler_that_fails_is_told(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no such target")

    monkeypatch.setattr(machine_code.machine, "glue_code", broken)
    assert fdiff.doctor()["llvm compiler"] == "does not work: RuntimeError: no such target"


def test_extras_name_what_they_lack(monkeypatch):
    lines = {
        installation.PACKAGE: [
            "numpy>=2.0",
            'numpy; extra == "one"',
            'no-such-package[all]>=1; extra == "two"',
            'numba-fdiff[one,two]; extra == "both"',
        ]
    }
    monkeypatch.setattr(installation, "requires", lambda name: lines.get(name, []))
    assert installation.extras() == "complete: one, both; two lacks no-such-package"
