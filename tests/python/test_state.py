"""Files: against the safetensors package, PyTorch and numpy; hostile files are refused."""

import http.server
import io
import os
import pickle
import tarfile
import threading
import zipfile

import numpy as np
import pytest
import torch

import lathe
from lathe import JitError, Tensor, TinyJit, dtypes, fetch, nn
from lathe.nn.state import (
    load_npy,
    load_npz,
    safe_load,
    safe_load_metadata,
    safe_save,
    save_npy,
    save_npz,
    tar_extract,
    torch_load,
    zip_extract,
)

NUMPY = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64]


def samples(dtype):
    return (np.arange(24).reshape(2, 3, 4) % 5).astype(dtype)


# ---- safetensors


def test_the_safetensors_package_reads_what_is_saved(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = {np.dtype(d).name: samples(d) for d in NUMPY}
    safe_save({k: Tensor(v) for k, v in arrays.items()}, tmp_path / "ours", {"a": "b"})
    theirs = package.load_file(tmp_path / "ours")
    assert sorted(theirs) == sorted(arrays)
    for name, array in arrays.items():
        assert theirs[name].dtype == array.dtype
        np.testing.assert_array_equal(theirs[name], array)
    assert safe_load_metadata(tmp_path / "ours")[2]["__metadata__"] == {"a": "b"}


def test_what_the_safetensors_package_saves_is_read(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = {np.dtype(d).name: samples(d) for d in NUMPY}
    arrays["empty"], arrays["scalar"] = np.zeros((0, 3), np.float32), np.array(2.5, np.float32)
    package.save_file(arrays, tmp_path / "theirs", metadata={"k": "v"})
    ours = safe_load(tmp_path / "theirs")
    for name, array in arrays.items():
        np.testing.assert_array_equal(ours[name].numpy(), array)
        assert ours[name].shape == array.shape
    assert safe_load_metadata(str(tmp_path / "theirs"))[2]["__metadata__"] == {"k": "v"}


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.fp8e4m3, dtypes.fp8e5m2])
def test_dtypes_numpy_lacks_come_back_bit_for_bit(tmp_path, dtype):
    t = Tensor([0.0, 1.0, -2.5, 0.15625]).cast(dtype)
    safe_save({"t": t}, tmp_path / "t")
    back = safe_load(tmp_path / "t")["t"]
    assert back.dtype == dtype
    assert back.bitcast(dtypes.uint8).tolist() == t.bitcast(dtypes.uint8).tolist()
    assert back.reshape(2, 2).bitcast(dtypes.uint8).flatten().tolist() == t.bitcast(dtypes.uint8).tolist()


def test_tensors_stay_on_disk_until_used(tmp_path):
    w = np.random.rand(3, 4).astype(np.float32)
    safe_save({"w": Tensor(w)}, tmp_path / "w")
    lazy = safe_load(tmp_path / "w")["w"]
    assert lazy.device.startswith("DISK:")
    np.testing.assert_array_equal(lazy.T.to("CPU").numpy(), w.T)
    np.testing.assert_array_equal(lazy[1:, ::2].numpy(), w[1:, ::2])
    np.testing.assert_allclose((lazy.to("CPU") @ lazy.T.to("CPU")).numpy(), w @ w.T, rtol=1e-6)


def test_a_state_dict_goes_through_a_file(tmp_path):
    class Net:
        def __init__(self):
            self.layers = [nn.Linear(3, 4), nn.BatchNorm(4)]

    one, two = Net(), Net()
    safe_save(nn.state.get_state_dict(one), tmp_path / "net")
    nn.state.load_state_dict(two, safe_load(tmp_path / "net"))
    for a, b in zip(nn.state.get_parameters(one), nn.state.get_parameters(two)):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    with pytest.warns(UserWarning, match="the model has no more"):
        nn.state.load_state_dict(two, {**safe_load(tmp_path / "net"), "more": Tensor(1)})
    nn.state.load_state_dict(two, {"layers.0.bias": Tensor.ones(4)}, strict=False)
    assert two.layers[0].bias.tolist() == [1, 1, 1, 1]


def test_bytes_open_files_and_tensors_are_sources(tmp_path):
    safe_save({"w": Tensor([1, 2])}, tmp_path / "w")
    raw = (tmp_path / "w").read_bytes()
    for source in (raw, io.BytesIO(raw), Tensor(raw)):
        assert safe_load(source)["w"].tolist() == [1, 2]


def test_wrong_files_are_value_errors_that_say_where(tmp_path):
    (tmp_path / "bad").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    with pytest.raises(ValueError, match=r"bad: at byte 8: the file is truncated"):
        safe_load(tmp_path / "bad")
    with pytest.raises(ValueError, match="No such file"):
        safe_load(tmp_path / "none")
    with pytest.raises(TypeError, match="is not a tensor"):
        safe_save({"a": 1}, tmp_path / "x")


# ---- torch


def checkpoint_objects():
    x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return {
        "x": x,
        "t": x.t(),
        "part": x[1:3, ::2],
        "wide": x[:1].expand(5, 6),
        "shared": x[2],
        "windows": x.flatten().unfold(0, 3, 1),
        "half": x.half(),
        "bf16": x.bfloat16(),
        "bool": x > 7,
        "long": x.long(),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(x.clone()),
    }


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_checkpoints_are_read(tmp_path, zipped):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    want = {**checkpoint_objects(), **model.state_dict()}
    more = {"epoch": 3, "lr": 0.5, "names": ["a", ("b", None)], "nested": {"deep": {1: torch.ones(2)}}, "size": torch.Size([1, 2])}
    torch.save({**want, **more}, tmp_path / "c.pt", _use_new_zipfile_serialization=zipped)
    got = torch_load(tmp_path / "c.pt")
    for name, t in want.items():
        if t.dtype == torch.bfloat16:
            assert got[name].dtype == dtypes.bfloat16
            np.testing.assert_array_equal(got[name].to("CPU").float().numpy(), t.float().numpy())
        else:
            np.testing.assert_array_equal(got[name].numpy(), t.detach().numpy(), err_msg=name)
        assert got[name].shape == tuple(t.shape)
    assert got["x"].device.startswith("DISK:")
    assert got["epoch"] == 3 and got["lr"] == 0.5 and got["names"] == ["a", ("b", None)] and got["size"] == (1, 2)
    assert got["nested"]["deep"][1].tolist() == [1, 1]


class Evil:
    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("call", [(os.system, ("touch evil",)), (eval, ("1+1",)), (getattr, (1, "real")), (__import__, ("os",))])
def test_torch_files_that_call_things_are_refused(tmp_path, monkeypatch, zipped, call):
    monkeypatch.chdir(tmp_path)
    torch.save({"w": torch.ones(2), "evil": Evil(call)}, "evil.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match="which is not read"):
        torch_load("evil.pt")
    assert not os.path.exists("evil")


def test_plain_pickles_are_no_checkpoints(tmp_path):
    (tmp_path / "p").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="not a torch checkpoint"):
        torch_load(tmp_path / "p")


# ---- numpy


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_goes_both_ways(tmp_path, dtype, order):
    a = np.array(samples(dtype), order=order)
    np.save(tmp_path / "theirs.npy", a)
    np.testing.assert_array_equal(load_npy(tmp_path / "theirs.npy").numpy(), a)
    save_npy(Tensor(a), tmp_path / "ours.npy")
    b = np.load(tmp_path / "ours.npy")
    assert b.dtype == a.dtype
    np.testing.assert_array_equal(a, b)


def test_npy_of_the_other_byte_order(tmp_path):
    a = np.arange(6, dtype=">f4").reshape(2, 3)
    np.save(tmp_path / "a.npy", a)
    assert load_npy(tmp_path / "a.npy").tolist() == a.tolist()


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_goes_both_ways(tmp_path, compressed):
    arrays = {"a": samples(np.float32), "b": samples(np.int64)[0].T, "c": np.float64(1.5)}
    (np.savez_compressed if compressed else np.savez)(tmp_path / "theirs.npz", **arrays)
    got = load_npz(tmp_path / "theirs.npz")
    for k, v in arrays.items():
        np.testing.assert_array_equal(got[k].numpy(), v)
    save_npz({k: Tensor(v) for k, v in arrays.items() if k != "c"}, tmp_path / "ours.npz", compressed)
    back = np.load(tmp_path / "ours.npz")
    for k in "ab":
        np.testing.assert_array_equal(back[k], arrays[k])


def test_arrays_of_objects_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="objects are pickles"):
        load_npy(tmp_path / "o.npy")


# ---- archives


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_tar_files_are_bytes_by_name(tmp_path, mode):
    with tarfile.open(tmp_path / "a.tar", mode) as tar:
        for name, data in [("a", b"hello"), ("deep/" * 40 + "b", b"x" * 1000)]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    files = tar_extract(tmp_path / "a.tar")
    assert bytes(files["a"].tolist()) == b"hello"
    assert bytes(files["deep/" * 40 + "b"].tolist()) == b"x" * 1000


def test_zip_files_are_bytes_by_name(tmp_path):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as z:
            z.writestr("a", "hello")
            z.writestr("d/b", "x" * 1000)
        files = zip_extract(tmp_path / "a.zip")
        assert bytes(files["a"].tolist()) == b"hello" and files["d/b"].shape == (1000,)
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as z:
        z.writestr("../evil", "x")
    with pytest.raises(ValueError, match="leaves the archive's folder"):
        zip_extract(tmp_path / "bad.zip")


# ---- save and load


def test_save_and_load_keep_trees(tmp_path):
    tree = {"model": {"w": Tensor([1.0, 2.0])}, "step": 7, "rates": [0.1, float("inf"), -0.0], 5: (None, True, "text", b"\0\xff"), "none": {}}
    lathe.save(tree, tmp_path / "tree")
    back = lathe.load(tmp_path / "tree")
    assert back["model"]["w"].tolist() == [1, 2]
    del tree["model"], back["model"]
    assert back == tree
    with pytest.raises(TypeError, match="cannot be saved"):
        lathe.save({"f": print}, tmp_path / "x")
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="contains itself"):
        lathe.save(endless, tmp_path / "x")


def test_an_optimizer_resumes_bit_for_bit(tmp_path):
    def start():
        Tensor.manual_seed(3)
        layer = nn.Linear(4, 3)
        return layer, nn.optim.AdamW(nn.state.get_parameters(layer), lr=0.01)

    def train(layer, optimizer, steps):
        for i in steps:
            optimizer.zero_grad()
            (layer(Tensor.arange(8).reshape(2, 4).float() + i).square().sum()).backward()
            optimizer.step()
        return [p.tolist() for p in nn.state.get_parameters(layer)]

    with lathe.Context(TRAINING=1):
        whole = train(*start(), range(6))
        layer, optimizer = start()
        train(layer, optimizer, range(3))
        lathe.save({"model": nn.state.get_state_dict(layer), "optimizer": nn.state.get_state_dict(optimizer), "step": 3}, tmp_path / "run")
        layer, optimizer = start()
        saved = lathe.load(tmp_path / "run")
        nn.state.load_state_dict(layer, saved["model"])
        nn.state.load_state_dict(optimizer, saved["optimizer"])
        assert train(layer, optimizer, range(saved["step"], 6)) == whole


# ---- fetch


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        info = tarfile.TarInfo("d/inside")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"hi"))
    content = {"/a": b"hello", "/cut": b"hello", "/tar": archive.getvalue()}
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path + self.headers.get("X-Word", ""))
            if self.path not in content:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content[self.path]) + (self.path == "/cut")))
            self.end_headers()
            self.wfile.write(content[self.path])

        def log_message(self, *args):
            pass

    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    with lathe.Context(CACHE=str(tmp_path / "cache")):
        yield f"http://127.0.0.1:{serving.server_port}", asked
    serving.shutdown()
    serving.server_close()


HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def test_fetch_loads_once_and_checks(server):
    base, asked = server
    path = fetch(base + "/a", sha256=HELLO, size=5)
    assert path.read_bytes() == b"hello"
    assert fetch(base + "/a") == path and asked == ["/a"]
    assert Tensor.from_url(base + "/a").tolist() == list(b"hello")
    with pytest.raises(ValueError, match="has 5 bytes, expected 6"):
        fetch(base + "/a", size=6)
    with pytest.raises(ValueError, match="has the digest"):
        fetch(base + "/a", sha256="0" * 64)
    assert path.read_bytes() == b"hello"


def test_fetch_sends_headers_and_unpacks_archives(server):
    base, asked = server
    plain, other = fetch(base + "/a"), fetch(base + "/a", headers={"X-Word": "please"})
    assert plain != other and other.read_bytes() == b"hello" and asked == ["/a", "/aplease"]
    assert fetch(base + "/a", headers={"X-Word": "please"}) == other and len(asked) == 2
    folder = fetch(base + "/tar", extract=True)
    assert (folder / "d" / "inside").read_bytes() == b"hi" and fetch(base + "/tar", extract=True) == folder
    assert sorted(p.name for p in folder.parent.iterdir() if p.is_dir()) == [folder.name]


def test_fetch_says_what_went_wrong(server):
    base, _ = server
    with pytest.raises(ValueError, match="cannot be loaded: HTTP Error 404"):
        fetch(base + "/none")
    with pytest.raises(ValueError, match="is truncated: 5 of 6 bytes came"):
        fetch(base + "/cut")
    with pytest.raises(ValueError, match="neither http, https nor file"):
        fetch("ftp://x/y")
    with pytest.raises(ValueError, match="leaves the cache folder"):
        fetch(base + "/a", name="..")


def test_fetch_takes_files_and_mirrors(tmp_path):
    (tmp_path / "a b").write_bytes(b"x")
    assert fetch((tmp_path / "a b").as_uri()) == tmp_path / "a b"
    assert fetch(str(tmp_path / "a b")) == tmp_path / "a b"
    (tmp_path / "mirror" / "example.com").mkdir(parents=True)
    (tmp_path / "mirror" / "example.com" / "f").write_bytes(b"kept")
    with lathe.Context(MIRROR=str(tmp_path / "mirror"), CACHE=str(tmp_path / "cache")):
        assert fetch("https://example.com/f?x=1").read_bytes() == b"kept"
        with pytest.raises(ValueError, match="is not in the mirror"):
            fetch("https://example.com/g")


def test_metadata_is_read_from_whatever_holds_bytes(tmp_path):
    safe_save({"w": Tensor([1.0, 2.0])}, tmp_path / "f", {"a": "b"})
    data = (tmp_path / "f").read_bytes()
    with open(tmp_path / "f", "rb") as opened:
        for given in (tmp_path / "f", str(tmp_path / "f"), data, bytearray(data), memoryview(data), io.BytesIO(data), opened, Tensor(data)):
            tensor, begin, header = safe_load_metadata(given)
            assert header["__metadata__"] == {"a": "b"} and header["w"]["shape"] == [2] and tensor.shape[0] - begin == 8
    for given in (data, bytearray(data), memoryview(data), io.BytesIO(data)):
        assert safe_load(given)["w"].tolist() == [1.0, 2.0]


# ---- tensors on disk


def on_disk(tmp_path, *shape, dtype=dtypes.int32, name="new"):
    return Tensor.empty(*shape, dtype=dtype, device=f"disk:{tmp_path / name}")


def test_memory_in_a_new_file_can_be_read_before_it_is_written(tmp_path):
    assert on_disk(tmp_path, 3000).tolist() == [0] * 3000
    assert (tmp_path / "new").stat().st_size == 12000


def test_parts_of_a_file_are_written_where_they_stand(tmp_path):
    x, want = on_disk(tmp_path, 6, 8), np.zeros((6, 8), dtype=np.int32)
    x[1:3].assign(Tensor([[1] * 8, [2] * 8]))
    want[1:3] = [[1] * 8, [2] * 8]
    x[:, 2:4] = Tensor([7, 9])
    want[:, 2:4] = [7, 9]
    x[4, 5] = -3
    want[4, 5] = -3
    x[::2, ::3] = 11
    want[::2, ::3] = 11
    x.transpose()[7].assign(Tensor.arange(6) * 100)
    want.T[7] = np.arange(6) * 100
    x.flip(0)[0, :2] = x[1, :2].to("CPU") + 1
    want[::-1][0, :2] = want[1, :2] + 1
    x[5:, 3:3] = 1
    x[Tensor([0, 3])] = 5
    want[[0, 3]] = 5
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "new", dtype=np.int32).reshape(6, 8), want)


def test_a_part_of_a_file_is_written_as_another_dtype(tmp_path):
    x = on_disk(tmp_path, 32, dtype=dtypes.uint8)
    x[0:8].bitcast(dtypes.int64).assign(Tensor([1234567890123], dtype=dtypes.int64))
    x[8:16].bitcast(dtypes.float32).assign(Tensor([1.5, -2.5]))
    x[16:24].bitcast(dtypes.uint16)[1:3] = Tensor([1, 258], dtype=dtypes.uint16)
    data = (tmp_path / "new").read_bytes()
    assert data[:16] == np.int64(1234567890123).tobytes() + np.array([1.5, -2.5], dtype=np.float32).tobytes()
    assert data[16:24] == bytes([0, 0, 1, 0, 2, 1, 0, 0])
    with pytest.raises(lathe.errors.UserError, match="are not contiguous in the file"):
        x[0:16:2].bitcast(dtypes.uint16).assign(0)


def test_what_was_to_be_read_from_a_file_is_read_before_it_is_overwritten(tmp_path):
    x = on_disk(tmp_path, 4)
    x.assign(Tensor([1, 2, 3, 4]))
    before = x.to("CPU") * 10
    part = x[1:3]
    x[1:3] = Tensor([20, 30])
    assert before.tolist() == [10, 20, 30, 40] and part.tolist() == [20, 30]
    assert (x.to("CPU") * 10).tolist() == [10, 200, 300, 40] and x.tolist() == [1, 20, 30, 4]


def test_a_file_that_was_there_is_not_written_to(tmp_path):
    (tmp_path / "old").write_bytes(bytes(8))
    x = Tensor(tmp_path / "old")
    with pytest.raises(lathe.errors.DeviceError, match="not written to"):
        x[1:3] = 7
    assert (tmp_path / "old").read_bytes() == bytes(8) and x.tolist() == [0] * 8


def test_a_capture_does_not_write_files(tmp_path):
    x = on_disk(tmp_path, 4)

    @TinyJit
    def f(v):
        x[1:3] = v
        return (v + 1).realize()

    with pytest.raises(JitError):
        for i in range(6):
            f(Tensor([i, i]).realize())


# ---- GGUF


def test_a_gguf_file_gives_its_keys_and_tensors(tmp_path):
    def text(s):
        return len(s).to_bytes(8, "little") + s.encode()

    def number(n, size=8):
        return n.to_bytes(size, "little")

    generator = np.random.default_rng(1)
    values, scales = generator.integers(-127, 128, (6, 32), dtype=np.int8), generator.normal(size=(6, 1)).astype(np.float16)
    packed = b"".join(s.tobytes() + v.tobytes() for s, v in zip(scales, values))
    plain = generator.normal(size=(2, 3)).astype(np.float32)
    head = b"GGUF" + number(3, 4) + number(2) + number(2) + text("general.name") + number(8, 4) + text("tiny") + text("n") + number(4, 4) + number(7, 4)
    head += text("q") + number(2, 4) + number(64) + number(3) + number(8, 4) + number(0)
    head += text("p") + number(2, 4) + number(3) + number(2) + number(0, 4) + number(224)
    head += bytes(-len(head) % 32)
    data = head + packed + bytes(-len(packed) % 32) + plain.tobytes()
    (tmp_path / "f.gguf").write_bytes(data)
    for given in (tmp_path / "f.gguf", str(tmp_path / "f.gguf"), data, Tensor(tmp_path / "f.gguf")):
        keys, tensors = nn.state.gguf_load(given)
        assert keys == {"general.name": "tiny", "n": 7} and list(tensors) == ["q", "p"]
        np.testing.assert_array_equal(tensors["p"].numpy(), plain)
        np.testing.assert_allclose(tensors["q"].numpy(), (values * scales.astype(np.float32)).reshape(3, 64), rtol=1e-6)
    with pytest.raises(lathe.errors.UserError, match="GGUF"):
        nn.state.gguf_load(b"nothing of the kind")


def test_a_few_bytes_of_a_huge_file_are_written_alone(tmp_path):
    # What is written decides how much memory that takes, not the file (which has holes).
    file = tmp_path / "huge"
    x = Tensor.empty(3 * 2**30, dtype=dtypes.uint8, device=f"disk:{file}")
    x[2**31 + 5 : 2**31 + 9] = Tensor([1, 2, 3, 4], dtype=dtypes.uint8)
    x[7:9].assign(Tensor([8, 9], dtype=dtypes.uint8)).realize()
    assert x[2**31 + 4 : 2**31 + 10].tolist() == [0, 1, 2, 3, 4, 0] and x[6:10].tolist() == [0, 8, 9, 0]
    assert file.stat().st_size == 3 * 2**30


def test_a_state_dict_of_an_object_that_holds_the_program_or_itself_ends():
    import enum
    import logging
    import math

    class Kind(enum.Enum):
        SMALL = 1
        LARGE = 2

    class Child:
        def __init__(self, parent):
            self.parent, self.b, self.shared = parent, Tensor([2.0]), parent.w

    class Net:
        def __init__(self):
            self.kind, self.library, self.log, self.made_by = Kind.SMALL, math, logging.getLogger("net"), Net
            self.w = Tensor([1.0])
            self.child, self.again = Child(self), [self]

    assert list(nn.state.get_state_dict(Net())) == ["w", "child.b", "child.shared"]
    around = {"t": Tensor([1.0])}
    around["self"] = around
    assert list(nn.state.get_state_dict(around)) == ["t"]
