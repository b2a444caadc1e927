"""save and load: round trips, files of PyTorch's and for it, and files that mean harm."""

from __future__ import annotations

import copy
import io
import pickle
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.dtypes import ALL, BY_NAME
from tests.oracle import libraries

PLAIN: dict[str, Any] = {
    "numbers": [0, 255, 256, -1, 1 << 40, -(1 << 80), 1.5, float("inf"), 1 + 2j, True, None],
    "text": "ä\ud800",
    "bytes": [b"", b"\x00\xff", bytearray(b"ab")],
    "containers": [(), (1,), [[]], {}, {1: {2: 3}}, {1, 2}, Counter("aab"), OrderedDict(b=1, a=2)],
}


def saved(value: Any, lib: Any = jg) -> io.BytesIO:
    file = io.BytesIO()
    lib.save(value, file)
    file.seek(0)
    return file


def torch_load(file: Any) -> Any:
    if isinstance(file, io.BytesIO):
        file.seek(0)
    return libraries.torch_or_skip().load(file, weights_only=True)


# Round trips --------------------------------------------------------------------------------------
def test_plain_values() -> None:
    assert jg.load(saved(PLAIN)) == PLAIN
    assert torch_load(saved(PLAIN)) == PLAIN
    assert jg.load(saved(PLAIN, libraries.torch_or_skip())) == PLAIN


@pytest.mark.parametrize("name", [d.name for d in ALL])
def test_every_dtype_both_ways(name: str) -> None:
    torch = libraries.torch_or_skip()
    theirs = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, name))
    ours = jg.load(saved({"x": theirs}, torch))["x"]
    assert ours.dtype is BY_NAME[name]
    again = torch_load(saved([ours, ours.dtype]))
    assert again[0].dtype == again[1] == theirs.dtype
    assert torch.equal(again[0], theirs)


def test_conjugate_and_negative_views() -> None:
    torch = libraries.torch_or_skip()
    for source, target in ((jg, torch), (torch, jg)):
        x = source.tensor([1 + 2j, 3 - 1j])
        for view in (x.conj(), x.conj().imag):
            file = saved({"x": view}, source)
            back = (jg.load(file) if target is jg else torch_load(file))["x"]
            assert back.tolist() == view.tolist()
            assert (back.is_conj(), back.is_neg()) == (view.is_conj(), view.is_neg())


def test_views_and_sharing_are_kept() -> None:
    x = jg.arange(12.0).reshape(3, 4)
    file = saved({"x": x, "row": x[1], "columns": x.t(), "twice": [x, x], "other": x.clone()})
    for lib, back in ((jg, jg.load(file)), (None, torch_load(file))):
        assert back["columns"].stride() == (1, 4)
        assert back["row"].storage_offset() == 4
        assert back["twice"][0] is back["twice"][1]
        back["x"][1, 0] = 100.0
        assert back["row"][0].item() == back["columns"][0, 1].item() == 100.0
        assert back["other"][1, 0].item() == 4.0
        assert lib is None or back["x"].storage is back["row"].storage


def test_tensors_of_all_kinds() -> None:
    parameter = jg.nn.Parameter(jg.ones(2), requires_grad=False)
    values = [
        jg.tensor(3.0), jg.empty(0, 3), jg.ones(3, requires_grad=True), parameter,
        jg.nn.Parameter(jg.zeros(2)), jg.ones(2, 3).shape, jg.device("cpu"),
    ]  # fmt: skip
    for back in (jg.load(saved(values)), torch_load(saved(values))):
        assert [tuple(x.shape) for x in back[:5]] == [(), (0, 3), (3,), (2,), (2,)]
        assert [x.requires_grad for x in back[:5]] == [False, False, True, False, True]
        assert type(back[3]).__name__ == type(back[4]).__name__ == "Parameter"
        assert type(back[5]).__name__ == "Size"
        assert tuple(back[5]) == (2, 3)
        assert str(back[6]) == "cpu"


def test_paths_and_open_files(tmp_path: Path) -> None:
    for target in (tmp_path / "a.pt", str(tmp_path / "b.pt")):
        jg.save({"x": jg.ones(2)}, target)
        assert jg.load(target)["x"].tolist() == [1, 1]
        assert torch_load(target)["x"].tolist() == [1, 1]
        with open(target, "rb") as file:
            assert jg.load(file, map_location="cpu")["x"].tolist() == [1, 1]
    with pytest.raises(FileNotFoundError):
        jg.load(tmp_path / "missing.pt")


def test_a_file_is_aligned_for_mapping(tmp_path: Path) -> None:
    torch = libraries.torch_or_skip()
    jg.save([jg.arange(5), jg.arange(7)], tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        names = [n for n in archive.namelist() if "/data/" in n]
        for info in map(archive.getinfo, names):
            start = info.header_offset + 30 + len(info.filename) + len(info.extra)
            assert start % 64 == 0
    mapped = torch.load(tmp_path / "x.pt", mmap=True, weights_only=True)
    assert mapped[1].tolist() == list(range(7))


# Modules and optimizers ---------------------------------------------------------------------------
def models(lib: Any) -> Any:
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.LSTM(4, 2))
    return model, lib.optim.Adam(model.parameters(), lr=0.1, amsgrad=True)


def trained(lib: Any) -> Any:
    model, optimizer = models(lib)
    for parameter in model.parameters():
        parameter.grad = lib.ones_like(parameter)
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("ours_first", [True, False])
def test_checkpoints_move_between_the_libraries(ours_first: bool) -> None:
    torch = libraries.torch_or_skip()
    source, target = (jg, torch) if ours_first else (torch, jg)
    model, optimizer = trained(source)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    file = saved(state, source)
    state = torch_load(file) if ours_first else jg.load(file)
    assert state["epoch"] == 3
    other, other_optimizer = models(target)
    other.load_state_dict(state["model"])
    other_optimizer.load_state_dict(state["optimizer"])
    for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), name)
        b.grad = target.ones_like(b)
        a.grad = source.ones_like(a)
    optimizer.step()
    other_optimizer.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
    metadata = getattr(state["model"], "_metadata", None)
    assert metadata is not None
    assert metadata[""] == {"version": 1}


# What is refused ----------------------------------------------------------------------------------
class Evil:
    def __reduce__(self) -> Any:
        return eval, ("open('harm', 'w')",)


@pytest.mark.parametrize(
    "value, named",
    [
        (jg.nn.Linear(1, 1), "jitgrad.nn.linear.Linear"),
        ({"a": [np.float64(1)]}, "numpy.float64"),
        (lambda: 0, "builtins.function"),
        (Evil(), "test_files.Evil"),
    ],
)
def test_save_refuses_before_it_writes(tmp_path: Path, value: Any, named: str) -> None:
    with pytest.raises(pickle.PicklingError, match=named):
        jg.save(value, tmp_path / "x.pt")
    assert not (tmp_path / "x.pt").exists()


def test_one_memory_as_two_dtypes_is_refused() -> None:
    x = jg.zeros(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        jg.save([x, x.view(jg.int32)], io.BytesIO())


def archive(pickled: bytes, **records: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("x/data.pkl", pickled)
        for name, content in records.items():
            made.writestr(f"x/data/{name[1:]}", content)
    return file


def reference(
    kind: bytes = b"FloatStorage", count: bytes = b"K\x04", where: bytes = b"cpu"
) -> bytes:
    return (
        b"(X\x07\x00\x00\x00storagectorch\n" + kind + b"\nX\x01\x00\x00\x000X"
        + len(where).to_bytes(4, "little") + where + count + b"tQ"
    )  # fmt: skip


def rebuilt(loaded: bytes, offset: bytes, size: bytes, strides: bytes) -> bytes:
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + loaded + offset + size + strides
        + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


HARMFUL = {
    "eval": (pickle.dumps(Evil()), r"builtins\.eval"),
    "eval, older": (pickle.dumps(Evil(), 2), r"builtins\.eval"),
    "os": (b"cos\nsystem\n(X\x04\x00\x00\x00echotR.", r"the name os\.system"),
    "attribute of a module": (b"cjitgrad.serialization\nload\n.", r"jitgrad\.serialization\.load"),
    "instance": (b"(ios\nsystem\n.", "opcode INST"),
    "new object": (b"ccollections\nOrderedDict\n)\x81.", "opcode NEWOBJ"),
    "extension": (b"\x82\x01.", "opcode EXT1"),
    "call of a dtype": (b"ctorch\nfloat32\n)R.", "a call of"),
    "attributes of a function": (b"ctorch\nSize\n}X\x01\x00\x00\x00aK\x01sb.", "attributes of an"),
    "attributes of a dict": (b"ccollections\nOrderedDict\n)R}X\x01\x00\x00\x00aK\x01sb.", "attrib"),
    "numpy": (pickle.dumps(np.float64(1)), r"numpy\."),
    "beyond": (rebuilt(reference(), b"K\x00", b"K\x05\x85", b"K\x01\x85"), "beyond its storage"),
    "offset": (rebuilt(reference(), b"K\x04", b"K\x01\x85", b"K\x01\x85"), "beyond its storage"),
    "negative": (
        rebuilt(reference(), b"J\xff\xff\xff\xff", b"K\x01\x85", b"K\x01\x85"), "sizes or strides"
    ),
    "strides": (rebuilt(reference(), b"K\x00", b"K\x02\x85", b")"), "with strides"),
    "no storage": (rebuilt(b"N", b"K\x00", b"K\x02\x85", b"K\x01\x85"), "without its storage"),
    "size of the record": (
        rebuilt(reference(count=b"K\x05"), b"K\x00", b"K\x01\x85", b"K\x01\x85"), "16 bytes, exp"
    ),
    "reference": (b"X\x01\x00\x00\x00aQ.", "damaged"),
    "underflow": (b"R.", "damaged"),
    "no end": (b"N", "damaged"),
    "two values": (b"NN.", "damaged"),
    "garbage": (b"\xff\xfe", "damaged"),
    "big": (b"\x8b\xff\xff\xff\x7f.", "damaged"),
    "unhashable": (b"}]K\x01s.", "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", HARMFUL)
def test_harmful_files(case: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    pickled, match = HARMFUL[case]
    with pytest.raises(pickle.UnpicklingError, match=match):
        jg.load(archive(pickled, _0=bytes(16)))
    assert not list(tmp_path.iterdir())


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    for content in (b"", b"text", pickle.dumps([1])):
        with pytest.raises(pickle.UnpicklingError, match=r"not a file of jitgrad\.save or torch"):
            jg.load(io.BytesIO(content))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("readme", "x")
    with pytest.raises(pickle.UnpicklingError, match=r"without a data\.pkl"):
        jg.load(file)


def test_damaged_archives() -> None:
    content = bytearray(saved({"x": jg.arange(100.0)}).getvalue())
    place = content.index(np.arange(100, dtype=np.float32).tobytes())
    content[place] ^= 1
    with pytest.raises(pickle.UnpicklingError, match="damaged"):
        jg.load(io.BytesIO(bytes(content)))
    with pytest.raises(pickle.UnpicklingError):
        jg.load(io.BytesIO(bytes(content[: len(content) // 2])))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("x/data.pkl", b"N." * 1000)
    with pytest.raises(pickle.UnpicklingError, match="compressed"):
        jg.load(file)


def test_bools_are_zero_or_one() -> None:
    pickled = rebuilt(reference(b"BoolStorage"), b"K\x00", b"K\x04\x85", b"K\x01\x85")
    assert jg.load(archive(pickled, _0=b"\x00\x01\x02\xff")).sum().item() == 3


def test_places() -> None:
    pickled = rebuilt(reference(where=b"cuda:0"), b"K\x00", b"K\x04\x85", b"K\x01\x85")

    def file() -> io.BytesIO:
        return archive(pickled, _0=bytes(16))

    with pytest.raises(RuntimeError, match=r"saved on 'cuda:0'.*map_location"):
        jg.load(file())
    for where in ("cpu", jg.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert jg.load(file(), map_location=where).tolist() == [0, 0, 0, 0]
    with pytest.raises(RuntimeError, match="not available"):
        jg.load(file(), map_location="cuda")


def test_what_would_run_code_is_not_offered() -> None:
    with pytest.raises(ValueError, match="weights_only=False is not supported"):
        jg.load(io.BytesIO(), weights_only=False)
    with pytest.raises(ValueError, match="only the zip format"):
        jg.save(1, io.BytesIO(), _use_new_zipfile_serialization=False)


# pickle and copy ----------------------------------------------------------------------------------
def test_pickling_and_copying() -> None:
    x = jg.arange(6.0).reshape(2, 3)
    parameter = jg.nn.Parameter(x.t())
    module = jg.nn.Sequential(jg.nn.LSTM(2, 3), jg.nn.Linear(3, 1))
    for again in (lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy):
        p = again(parameter)
        assert type(p) is jg.nn.Parameter
        assert p.requires_grad
        assert p.is_leaf
        assert p.tolist() == parameter.tolist()
        a, b = again([x, x[1]])
        a[1, 0] = 50.0
        assert b[0].item() == 50.0
        m = again(module)
        assert list(m.state_dict()) == list(module.state_dict())
        np.testing.assert_array_equal(
            m[1].weight.detach().numpy(), module[1].weight.detach().numpy()
        )
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(parameter * 2)
