"""What `make hooks` says of commit messages."""

import importlib.util
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
    ],
)
def test_one_idea_and_a_line_where_users_see_it(hook, message, changed, words):
    found = hook.faults(message, changed)
    assert len(found) == len(words)
    assert all(word in fault for word, fault in zip(words, found, strict=True))
