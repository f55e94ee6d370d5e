"""What all Python tests share: comparing with PyTorch and numpy."""

import os
import tempfile

# A kernel that differs from REF fails the test that runs it: a fallback would hide it. Before lathe is imported.
os.environ.setdefault("LATHE_CHECK", "strict")

import numpy as np  # noqa: E402
import pytest  # noqa: E402

torch = pytest.importorskip("torch", reason="PyTorch (python3-torch) is the oracle of these tests")

from hypothesis import settings  # noqa: E402

from lathe import Tensor  # noqa: E402

settings.register_profile("lathe", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("lathe")


@pytest.fixture(autouse=True, scope="session")
def examples_clean_up(tmp_path_factory):
    """Folders that examples make lie where pytest removes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("examples")))
        yield


@pytest.fixture(autouse=True)
def seeded():
    np.random.seed(0)
    torch.manual_seed(0)
    Tensor.manual_seed(0)


def pytest_sessionfinish(session, exitstatus):
    """A file that is skipped as a whole has no tests: ctest's code for skipped, not pytest's for an error."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = 77
