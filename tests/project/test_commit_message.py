"""What `make hooks` and `.ci/run` say of commit messages."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / ".ci" / "commit_message.py"


@pytest.fixture
def hook():
    spec = importlib.util.spec_from_file_location("commit_message", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("message", "changed", "words"),
    [
        ("A cache of sizes\n\nBecause; of this.", ["fdiff/tape.py"], []),
        ("A cache; and a test", ["fdiff/tape.py"], ["several ideas"]),
        ("A cache of sizes, and a test of it", ["fdiff/tape.py"], ["several ideas"]),
        ("A cache of sizes and of strides", ["fdiff/tape.py"], []),
        ("An option", ["fdiff/functional/operators/gradients.py"], ["CHANGELOG.md"]),
        ("An option", ["fdiff/functional/operators/gradients.py", "CHANGELOG.md"], []),
        ("Shorter waits for kernels", ["fdiff/dispatch/tiers/break_even.py"], ["CHANGELOG.md"]),
        ("internal: fewer lines", ["fdiff/kernels/machine_code.py"], []),
        ("wip", ["fdiff/tape.py"], ["says nothing"]),
        ("WIP on sums", ["fdiff/tape.py"], ["says nothing"]),
        ("internal: wip", ["fdiff/autograd/backward_passes/nodes.py"], ["says nothing"]),
        ("Merge branch 'sums'", ["fdiff/tape.py"], ["says nothing"]),
        ("Merge branch 'main' into sums", ["fdiff/tape.py"], ["says nothing"]),
        ("Merge branch 'sums': partial sums of rows", ["fdiff/tape.py"], []),
        ("Wipe the workspace of kernels that ended", ["fdiff/tape.py"], []),
        ("internal: a name for hooks", ["fdiff/autograd/backward_passes/nodes.py"], []),
        ("internal: a budget", ["docs/decisions/size-of-the-code.md"], ["says nothing"]),
        ("types", ["tests/references.py"], ["says nothing"]),
    ],
)
def test_one_idea_and_a_line_where_users_see_it(hook, message, changed, words):
    found = hook.faults(message, changed)
    assert len(found) == len(words)
    assert all(word in fault for word, fault in zip(words, found, strict=True))


def test_one_line_of_the_changelog(hook):
    changed = ["fdiff/optimize/a.py", "CHANGELOG.md"]
    assert hook.faults("An option", changed, told=1) == []
    assert "several things" in hook.faults("An option", changed, told=2)[0]
    assert hook.faults("internal: an entry is moved", changed, told=2) == []


def git(repository, *words, date="2026-12-24T12:00:00+00:00"):
    names = ("GIT_AUTHOR", "GIT_COMMITTER")
    author = {f"{name}_{what}": "a@b.c" for name in names for what in ("NAME", "EMAIL")}
    dates = {f"{name}_DATE": date for name in names}
    environment = {**os.environ, **author, **dates, "GIT_CONFIG_GLOBAL": os.devnull}
    command = ["git", *words]
    subprocess.run(command, cwd=repository, env=environment, check=True, capture_output=True)


def commit(repository, subject, *files, **date):
    for name in files:
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(subject, encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", subject, **date)


@pytest.fixture
def repository(tmp_path):
    path = tmp_path / "repository"
    path.mkdir()
    git(path, "init", "-q")
    commit(path, "wip", "fdiff/optimize/a.py", "CHANGELOG.md", date="2026-11-01T12:00:00+00:00")
    commit(path, "An option", "fdiff/optimize/a.py", "CHANGELOG.md")
    return path


def test_history_is_checked_from_a_date_on(hook, repository):
    assert hook.history_faults(repository) == []
    commit(repository, "Another option", "fdiff/optimize/a.py")
    commit(repository, "internal: fewer lines", "fdiff/optimize/a.py")
    commit(repository, "wip", "docs/a.md")
    wip, option = hook.history_faults(repository)
    assert "'wip'" in wip
    assert "says nothing" in wip
    assert "'Another option'" in option
    assert "CHANGELOG.md" in option


def test_history_has_one_line_of_the_changelog_for_each_commit(hook, repository):
    (repository / "CHANGELOG.md").write_text("- one\n- another\n", encoding="utf-8")
    commit(repository, "Two options", "fdiff/optimize/a.py")
    (fault,) = hook.history_faults(repository)
    assert "'Two options'" in fault
    assert "several things" in fault


def test_history_has_each_first_line_once(hook, repository):
    commit(repository, "internal: fewer lines", "fdiff/optimize/a.py")
    commit(repository, "internal: fewer lines", "fdiff/optimize/b.py")
    (fault,) = hook.history_faults(repository)
    assert "the same first line" in fault


def test_history_is_checked_from_the_last_tag_on(hook, repository):
    commit(repository, "Another option", "fdiff/optimize/a.py")
    git(repository, "tag", "v0.3.0")
    assert hook.history_faults(repository) == []
    commit(repository, "A third option", "fdiff/optimize/a.py")
    (fault,) = hook.history_faults(repository)
    assert "'A third option'" in fault


def test_history_of_a_shallow_clone_and_of_none(hook, repository, tmp_path):
    commit(repository, "Another option", "fdiff/optimize/a.py")
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    assert hook.history_faults(tmp_path / "shallow") == []
    assert hook.history_faults(tmp_path) == []


def test_history_of_this_repository(hook):
    assert hook.history_faults(PATH.parents[1]) == []
