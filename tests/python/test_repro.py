"""What an investigation leaves as a Python program: a text that is compared with REF where it runs."""

import pathlib

from lathe import Context, Tensor, _core


def saved_kernel(folder, number):
    with Context(SAVE=str(folder), CACHE="off"):
        (Tensor.arange(40).cast("float32").contiguous().realize() * number + 1).contiguous().realize()
    texts = [path.read_text() for path in sorted(pathlib.Path(folder).glob("*.txt"))]
    return next(text for text in texts if f"Const.f32 {number} " in text)


def test_a_saved_kernel_is_right(tmp_path):
    failed, said = _core.check_text(saved_kernel(tmp_path, 3))
    assert not failed
    assert said.startswith("right: ")


def test_one_that_does_not_compile_fails(tmp_path):
    text = saved_kernel(tmp_path, 5).split("# source")[0]
    options = next(line for line in text.splitlines() if line.startswith("# options"))
    failed, said = _core.check_text(text.replace(options, "# options (user): UPCAST(9, 4)"))
    assert failed
    assert said.startswith("refused: ")
