"""Random programs, run on PyTorch and jitgrad side by side and compared after every step.

A program creates tensors, views them, writes in place (directly, through views, through NumPy),
computes, cuts history, puts hooks, switches modes and runs backward. After each step both sides
must agree on everything that shows: values, geometry, versions, leaves, names of nodes, views and
their bases, gradients, which objects are the same, what hooks saw, and on errors.

``make fuzz`` runs far more programs, each time others.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import reject, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.oracle import libraries

SHAPES = ((3,), (2, 3), (3, 2), (2, 2), (1, 3), (), (4,), (2, 1, 3), (0,))
MOST = 14  # tensors alive at once

OVERWRITTEN = "modified by an inplace operation"

# Phrases of errors that are autograd's: both sides must say the same.
PHRASES = (
    "a leaf Variable that requires grad is being used in an in-place operation",
    "a view of a leaf Variable that requires grad is being used in an in-place operation",
    "is being modified inplace",
    "its base or another view of its base has been modified inplace",
    "function that returns multiple views",
    "was created in no_grad mode",
    "was created in inference mode",
    OVERWRITTEN,
    "has been detached in-place",
    "Can't detach views in-place",
    "a second time",
    "does not require grad",
    "grad can be implicitly created only for scalar outputs",
    "can't retain_grad",
    "cannot register a hook on a tensor that doesn't require gradient",
    "moved into the graph interior",
    "only change requires_grad flags of leaf variables",
    "cannot resize variables that require grad",
    "appears to not have been used in the graph",
    "can require gradients",
    "Inplace update to inference tensor outside InferenceMode",
    "Inference tensors do not track version counter",
    "Inference tensors cannot be saved for backward",
    "Setting requires_grad=True on inference tensor",
    "Can't call numpy() on Tensor that requires grad",
    "assign a gradient",
    "own grad",
    "is not allowed on a Tensor created from .data or .detach()",
)

numbers = st.integers(0, 59)
modes = st.sampled_from(("grad",) * 8 + ("no_grad",) * 2 + ("inference",))
few = st.sampled_from((0.5, -1.0, 2, 3.0, 0))


def _mode(lib: Any, name: str) -> contextlib.AbstractContextManager[Any]:
    if name == "grad":
        return contextlib.nullcontext()
    return lib.no_grad() if name == "no_grad" else lib.inference_mode()


# Each takes a tensor and two numbers, and returns one or several views.
VIEWS: dict[str, Callable[..., Any]] = {
    "slice": lambda x, i, j: x[i % 2 : i % 2 + 1 + j % 2],
    "step": lambda x, i, j: x[i % 2 :: 2],
    "last": lambda x, i, j: x[..., j % 2 :],
    "select": lambda x, i, j: x.select(i % max(x.dim(), 1), 0),
    "int": lambda x, i, j: x[i % 2],
    "t": lambda x, i, j: x.t() if x.dim() <= 2 else x.transpose(0, 2),
    "transpose": lambda x, i, j: x.transpose(0, -1),
    "permute": lambda x, i, j: x.permute(tuple(reversed(range(x.dim())))),
    "view": lambda x, i, j: x.view(-1),
    "view_as": lambda x, i, j: x.view_as(x),
    "reshape": lambda x, i, j: x.reshape(-1),
    "flatten": lambda x, i, j: x.flatten(),
    "squeeze": lambda x, i, j: x.squeeze(),
    "squeeze0": lambda x, i, j: x.squeeze(0),
    "unsqueeze": lambda x, i, j: x.unsqueeze(i % (x.dim() + 1)),
    "none": lambda x, i, j: x[None],
    "ellipsis": lambda x, i, j: x[...],
    "expand": lambda x, i, j: x.expand(2, *x.shape),
    "narrow": lambda x, i, j: x.narrow(0, 0, 1),
    "diagonal": lambda x, i, j: x.diagonal(),
    "unfold": lambda x, i, j: x.unfold(0, 2, 1),
    "as_strided": lambda x, i, j: x.as_strided((2,), (1,), x.storage_offset()),
    "whole": lambda x, i, j: x[:],
    "chunk": lambda x, i, j: x.chunk(2),
    "split": lambda x, i, j: x.split(1 + i % 2),
    "unbind": lambda x, i, j: x.unbind(0),
    "detach": lambda x, i, j: x.detach(),
    "data": lambda x, i, j: x.data,
    "contiguous": lambda x, i, j: x.contiguous(),
    "same": lambda x, i, j: x.to(x.dtype),
}  # fmt: skip

UNARY: dict[str, Callable[..., Any]] = {
    "sin": lambda lib, x: x.sin(),
    "tanh": lambda lib, x: x.tanh(),
    "sigmoid": lambda lib, x: x.sigmoid(),
    "sqrt": lambda lib, x: (x * x.detach() + 1).sqrt(),
    "neg": lambda lib, x: -x,
    "cos": lambda lib, x: x.cos(),
    "double": lambda lib, x: x * 2,
    "plus": lambda lib, x: x + 1,
    "from": lambda lib, x: 1 - x,
    "square": lambda lib, x: x * x.tanh(),
    "pow": lambda lib, x: x.tanh() ** 2,
    "clone": lambda lib, x: x.clone(),
    "sum": lambda lib, x: x.sum(),
    "mean": lambda lib, x: x.mean(),
    "sum0": lambda lib, x: x.sum(0, keepdim=True),
    "amax": lambda lib, x: x.amax(),
    "float": lambda lib, x: x.float(),
    "copy": lambda lib, x: x.contiguous().clone(),
    "index": lambda lib, x: x[[0, 0]],
    "mask": lambda lib, x: x[x > 0],
    "fill": lambda lib, x: x.masked_fill(x > 0, 1.5),
    "where": lambda lib, x: lib.where(x > 0, x, -x),
    "greater": lambda lib, x: x > 0,
    "clamp": lambda lib, x: x.clamp(-1, 1),
}

BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda lib, x, y: x + y,
    "sub": lambda lib, x, y: x - y,
    "mul": lambda lib, x, y: x.tanh() * y,
    "div": lambda lib, x, y: x / (y * y + 1),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "where": lambda lib, x, y: lib.where(x > 0, x, y),
    "cat": lambda lib, x, y: lib.cat([x, y]),
    "stack": lambda lib, x, y: lib.stack([x, y]),
    "dot": lambda lib, x, y: (x * y).sum(),
}

# Writes of a tensor by itself.
WRITES: dict[str, Callable[..., Any]] = {
    "sin_": lambda x, a, i: x.sin_(),
    "tanh_": lambda x, a, i: x.tanh_(),
    "sigmoid_": lambda x, a, i: x.sigmoid_(),
    "exp_": lambda x, a, i: x.tanh_().exp_(),
    "neg_": lambda x, a, i: x.neg_(),
    "add_": lambda x, a, i: x.add_(a),
    "mul_": lambda x, a, i: x.mul_(a),
    "sub_": lambda x, a, i: x.sub_(a),
    "div_": lambda x, a, i: x.div_(2),
    "pow_": lambda x, a, i: x.tanh_().pow_(2),
    "zero_": lambda x, a, i: x.zero_(),
    "fill_": lambda x, a, i: x.fill_(a),
    "clamp_": lambda x, a, i: x.clamp_(-1, 1),
    "masked_fill_": lambda x, a, i: x.masked_fill_(x > 0, a),
    "itself": lambda x, a, i: x.mul_(x),
    "first": lambda x, a, i: x.__setitem__(0, a),
    "all": lambda x, a, i: x.__setitem__(..., a),
    "slice": lambda x, a, i: x.__setitem__(slice(i % 2, 2), a),
    "mask": lambda x, a, i: x.__setitem__(x > 0, a),
    "list": lambda x, a, i: x.__setitem__([0, 0], a),
    "t_": lambda x, a, i: x.t_(),
    "squeeze_": lambda x, a, i: x.squeeze_(),
    "unsqueeze_": lambda x, a, i: x.unsqueeze_(0),
    "detach_": lambda x, a, i: x.detach_(),
}


def _augmented(x: Any, a: Any, i: int) -> None:
    """``x[place] += a`` and longer ways to a place."""
    if i % 4 == 0:
        x[0] += a
    elif i % 4 == 1:
        x[[0]] += a
    elif i % 4 == 2:
        x.t()[i % 2 :] += a
    else:
        x[x > 0] *= a


WRITES["augmented"] = _augmented
GEOMETRY = ("t_", "squeeze_", "unsqueeze_")

# Writes of one tensor into another.
WRITES_OF: dict[str, Callable[..., Any]] = {
    "add_": lambda x, y, i: x.add_(y),
    "mul_": lambda x, y, i: x.mul_(y),
    "sub_": lambda x, y, i: x.sub_(y),
    "copy_": lambda x, y, i: x.copy_(y),
    "all": lambda x, y, i: x.__setitem__(..., y),
    "part": lambda x, y, i: x.__setitem__(slice(0, 2), y),
    "fill_": lambda x, y, i: x.fill_(y),
    "masked_fill_": lambda x, y, i: x.masked_fill_(x > 0, y),
    "+=": lambda x, y, i: x.__iadd__(y),
    "list": lambda x, y, i: x.__setitem__([0], y),
}

HOOKS: dict[str, Callable[[Any], Any]] = {
    "none": lambda grad: None,
    "double": lambda grad: grad * 2,
    "same": lambda grad: grad,
}


def _tensors(lib: Any, result: Any) -> list[Any]:
    """The tensors in what a step returned."""
    if isinstance(result, lib.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for t in result if t is not None]
    return []


class Programs(RuleBasedStateMachine):
    """One program, run on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.libs = (libraries.jitgrad(), libraries.torch_or_skip())
        self.pool: list[tuple[Any, Any]] = []
        self.heard: tuple[list[Any], list[Any]] = ([], [])  # what hooks saw
        self.handles: list[tuple[Any, Any]] = []
        self.eager = True
        self.leaves: set[int] = set()  # what has ever required grad: old graphs know its shape
        self.single = False  # whether there have been tensors in single precision
        self.derived = False  # whether there have been derivatives with a graph, each side's own
        self.grads: dict[tuple[int, int], Any] = {}  # those seen at the last look
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        warnings.simplefilter("ignore")

    def teardown(self) -> None:
        try:
            self.compare(history=True)
        finally:
            self.warnings.__exit__(None, None, None)

    # Running a step ---------------------------------------------------------------------------
    def pick(self, index: int) -> tuple[Any, Any]:
        return self.pool[index % len(self.pool)]

    def fitting(self, pair: tuple[Any, Any], index: int) -> tuple[Any, Any]:
        """Another tensor, most of the time one that broadcasts against the first."""
        shape = tuple(pair[1].shape)
        found = [p for p in self.pool if _broadcasts(tuple(p[1].shape), shape)]
        return found[index % len(found)] if index % 8 else self.pick(index // 8)

    def step(
        self, fn: Callable[..., Any], *pairs: Any, mode: str = "grad", writes: bool = False
    ) -> None:
        """``fn(lib, *tensors)`` on both sides: equal results join the pool, equal errors pass."""
        if writes and _tangled(pairs[0][1]):
            return
        if writes and pairs[0][1].is_inference():
            mode = "inference"  # PyTorch refuses elsewhere, but only once it has written
        results: list[Any] = []
        errors: list[Exception | None] = []
        for side, lib in enumerate(self.libs):
            try:
                with _mode(lib, mode):
                    results.append(fn(lib, *(pair[side] for pair in pairs)))
                errors.append(None)
            except Exception as error:
                results.append(None)
                errors.append(error.with_traceback(None) if isinstance(error, _EXPECTED) else error)
        if "INTERNAL ASSERT" in str(errors[1]):
            reject()  # PyTorch has met a bug of its own
        _same_error(*errors)
        self.adopt(*results)

    def adopt(self, ours: Any, theirs: Any) -> None:
        """Results join the pool, unless they are in it already (on both sides)."""
        if isinstance(theirs, (tuple, list)):
            assert [x is None for x in ours] == [x is None for x in theirs]
        pairs = zip(_tensors(self.libs[0], ours), _tensors(self.libs[1], theirs), strict=True)
        for pair in pairs:
            known = [self.place(side, pair[side]) for side in (0, 1)]
            assert known[0] == known[1], (
                f"is pool[{known[0]}] in jitgrad, pool[{known[1]}] in torch"
            )
            if known[0] is None:
                self.pool.append(pair)

    def place(self, side: int, tensor: Any) -> int | None:
        """Where a tensor is in the pool."""
        return next((i for i, pair in enumerate(self.pool) if pair[side] is tensor), None)

    # Comparing --------------------------------------------------------------------------------
    @invariant()
    def agree(self) -> None:
        if self.pool:
            self.compare(history=self.eager)
            while len(self.pool) > MOST:
                del self.pool[len(self.pool) // 3]

    def compare(self, history: bool) -> None:
        """All that shows of every tensor; ``history`` also makes stale views look again."""
        storages: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for index, pair in enumerate(self.pool):
            ours, theirs = (
                self.facts(side, pair[side], index, storages[side], history) for side in (0, 1)
            )
            wrong = {k: (ours[k], theirs[k]) for k in theirs if ours[k] != theirs[k]}
            assert not wrong, f"pool[{index}]: (jitgrad, torch) {wrong}"
            if pair[1].requires_grad:
                self.leaves.add(id(pair[1]))
            self.single = self.single or str(pair[1].dtype).endswith("float32")
            # Loose after float32, in which derivatives of tanh are differences of almost equal
            # numbers.
            precision = 1e-2 if self.single else 1e-7
            _close(f"pool[{index}]", pair[0], pair[1], precision)
            if history:
                grads = [_attribute(t, "grad") for t in pair]
                assert [g is None for g in grads] == [g is None for g in grads[::-1]], (
                    f"pool[{index}].grad: (jitgrad, torch) {grads}"
                )
                if grads[0] is not None and not isinstance(grads[0], str):
                    _close(f"pool[{index}].grad", *grads, precision)
                for side in (0, 1):
                    self.grads[side, index] = grads[side]
        heard = self.heard
        assert len(heard[0]) == len(heard[1]), f"hooks heard (jitgrad, torch) {heard}"
        for one, other in zip(*heard, strict=True):
            assert one[0] == other[0], f"hooks heard (jitgrad, torch) {heard}"
            assert (one[1] is None) == (other[1] is None), f"hooks heard (jitgrad, torch) {heard}"
            if one[1] is not None:
                precision = 1e-2 if self.single else 1e-7
                np.testing.assert_allclose(one[1], other[1], rtol=precision, atol=precision)
        for entries in heard:
            entries.clear()

    def facts(
        self, side: int, tensor: Any, index: int, storages: dict[int, int], history: bool
    ) -> dict[str, Any]:
        facts = {
            "shape": tuple(tensor.shape),
            "strides": _strides(tensor),
            "offset": tensor.storage_offset(),
            "dtype": str(tensor.dtype).rpartition(".")[2],
            "version": _attribute(tensor, "_version"),
            "requires_grad": tensor.requires_grad,
            "view": tensor._is_view(),
            "inference": tensor.is_inference(),
            "retains_grad": tensor.retains_grad,
        }
        base = tensor._base
        facts["base"] = None if base is None else self.place(side, base)
        if tensor.numel():
            address = tensor.untyped_storage().data_ptr()
            facts["memory of"] = storages.setdefault(address, index)
        if history:
            node = _attribute(tensor, "grad_fn")
            facts["grad_fn"] = _name(node) if hasattr(node, "name") else node
            facts["is_leaf"] = _attribute(tensor, "is_leaf")
            facts["output_nr"] = None if isinstance(node, str) else tensor.output_nr
            grad = _attribute(tensor, "grad")
            if hasattr(grad, "stride"):
                facts["grad"] = (
                    tuple(grad.shape),
                    _strides(grad),
                    grad.requires_grad,
                    grad is self.grads.get((side, index)),
                    self.place(side, grad),
                )
        return facts

    # The steps --------------------------------------------------------------------------------
    @initialize(eager=st.booleans(), values=st.lists(numbers, min_size=2, max_size=3))
    def begin(self, eager: bool, values: list[int]) -> None:
        self.eager = eager
        for value in values:
            self.create(value, value // 4, value % 4 > 0)

    @rule(shape=numbers, value=numbers, requires_grad=st.booleans())
    def create(self, shape: int, value: int, requires_grad: bool) -> None:
        array = _array(shape, value)
        requires_grad = requires_grad and array.dtype.kind == "f"
        self.step(
            lambda lib: lib.tensor(array.tolist(), dtype=_dtype(lib, array)).requires_grad_(
                requires_grad
            )
        )

    @rule(shape=numbers, value=numbers)
    def from_numpy(self, shape: int, value: int) -> None:
        self.step(lambda lib: lib.from_numpy(_array(shape, value)))

    @rule(x=numbers, kind=st.sampled_from(sorted(VIEWS)), i=numbers, j=numbers, mode=modes)
    def view(self, x: int, kind: str, i: int, j: int, mode: str) -> None:
        pair = self.pick(x)
        if kind in ("data", "detach") and pair[1].is_inference():
            return  # in PyTorch inference tensors that count their writes
        if kind == "unbind" and not pair[1].numel():
            return  # of no views PyTorch asks for the history too
        self.step(lambda lib, x: VIEWS[kind](x, i, j), pair, mode=mode)

    @rule(x=numbers, kind=st.sampled_from(sorted(UNARY)), mode=modes)
    def compute(self, x: int, kind: str, mode: str) -> None:
        pair = self.pick(x)
        if not pair[1].numel() and kind in ("amax", "index"):
            return
        self.step(_results(UNARY[kind], pair, mode=mode), pair, mode=mode)

    @rule(x=numbers, y=numbers, kind=st.sampled_from(sorted(BINARY)), mode=modes)
    def combine(self, x: int, y: int, kind: str, mode: str) -> None:
        pair = self.pick(x)
        other = self.fitting(pair, y)
        of = (pair[1], other[1])
        if any(t.is_inference() for t in of) and any(
            t.requires_grad and t._is_view() and _attribute(t, "grad_fn") is None for t in of
        ):
            return  # of a view whose gradient goes nowhere PyTorch saves nothing, so it may be any
        self.step(_results(BINARY[kind], pair, other, mode=mode), pair, other, mode=mode)

    @rule(x=numbers, kind=st.sampled_from(sorted(WRITES)), a=few, i=numbers, mode=modes)
    def write(self, x: int, kind: str, a: float, i: int, mode: str) -> None:
        pair = self.pick(x)
        if kind in GEOMETRY and mode != "grad" and id(pair[1]) in self.leaves:
            return  # what was computed from it before expects gradients of the old shape
        if kind in GEOMETRY and pair[1].retains_grad:
            return  # PyTorch loses the wish, and may then meet an assertion of its own
        self.step(lambda lib, x: WRITES[kind](x, a, i), pair, mode=mode, writes=True)

    @rule(x=numbers, y=numbers, kind=st.sampled_from(sorted(WRITES_OF)), i=numbers, mode=modes)
    def write_of(self, x: int, y: int, kind: str, i: int, mode: str) -> None:
        pair = self.pick(x)
        other = self.fitting(pair, y)
        if kind in ("all", "part") and pair is other:
            return  # PyTorch sees that there is nothing to do, and forgets to check
        if not pair[1].is_floating_point() and other[1].requires_grad and not other[1].ndim:
            return  # PyTorch fills it, and then says of the bools that they require grad
        if not _left_to_chance(pair[1], other[1]):
            self.step(
                lambda lib, x, y: WRITES_OF[kind](x, y, i), pair, other, mode=mode, writes=True
            )

    @rule(x=numbers, kind=st.sampled_from(sorted(VIEWS)), i=numbers, a=few, mode=modes)
    def write_through_view(self, x: int, kind: str, i: int, a: float, mode: str) -> None:
        def through(lib: Any, x: Any) -> None:
            view = VIEWS[kind](x, i, i // 2)
            view = view[0] if isinstance(view, (tuple, list)) else view
            if kind != "unfold":
                view *= a

        self.step(through, self.pick(x), mode=mode, writes=True)

    @rule(x=numbers, value=few)
    def write_by_numpy(self, x: int, value: float) -> None:
        def write(lib: Any, x: Any) -> None:
            x.detach().numpy()[...] = value

        self.step(write, self.pick(x))

    @rule(x=numbers, on=st.booleans(), mode=modes)
    def requires_grad_(self, x: int, on: bool, mode: str) -> None:
        pair = self.pick(x)
        # An inference tensor may require grad, but PyTorch records nothing of what is done to it.
        self.step(lambda lib, x: x.requires_grad_(on and not x.is_inference()), pair, mode=mode)

    @rule(x=numbers, y=numbers)
    def set_data(self, x: int, y: int) -> None:
        def assign(lib: Any, x: Any, y: Any) -> None:
            x.data = y

        pair, other = self.pick(x), self.pick(y)
        a, b = pair[1], other[1]
        # Of an inference tensor's data PyTorch makes an inference tensor, and a leaf that is given
        # another shape remembers the old one as long as its AccumulateGrad lives.
        if (
            a.dtype == b.dtype
            and a.is_inference() == b.is_inference()
            and (a.shape == b.shape or id(a) not in self.leaves)
        ):
            self.step(assign, pair, other)

    @rule(x=numbers, shape=numbers)
    def resize_(self, x: int, shape: int) -> None:
        def resize(lib: Any, x: Any) -> None:
            x.resize_(SHAPES[shape % len(SHAPES)])
            x.data.fill_(1)  # what is new is undefined

        pair = self.pick(x)
        # A refused growth leaves PyTorch's tensor with the new shape over the old memory, and a
        # resized one with views whose gradients it writes past the end of the base's.
        storage = pair[1].untyped_storage()
        shared = sum(p[1].untyped_storage().data_ptr() == storage.data_ptr() for p in self.pool)
        known = id(pair[1]) in self.leaves or pair[1]._is_view()
        if storage.resizable() and shared <= 1 and not known:
            self.step(resize, pair, writes=True)

    @rule(x=numbers)
    def retain_grad(self, x: int) -> None:
        self.step(lambda lib, x: x.retain_grad(), self.pick(x))

    @rule(x=numbers, kind=st.sampled_from(sorted(HOOKS)))
    def register_hook(self, x: int, kind: str) -> None:
        number = len(self.handles)
        handles = []

        def register(lib: Any, x: Any) -> None:
            heard = self.heard[self.libs.index(lib)]

            def hook(grad: Any) -> Any:
                heard.append((number, None if grad is None else grad.tolist()))
                return HOOKS[kind](grad)

            x.grad_fn  # PyTorch crashes at the first hook of a view that is stale
            handles.append(x.register_hook(hook))

        self.step(register, self.pick(x))
        if handles:
            self.handles.append(tuple(handles))

    @rule(which=numbers)
    def remove_hook(self, which: int) -> None:
        if self.handles:
            for handle in self.handles[which % len(self.handles)]:
                handle.remove()

    @rule(x=numbers, y=numbers, clear=st.booleans())
    def set_grad(self, x: int, y: int, clear: bool) -> None:
        def assign(lib: Any, x: Any, y: Any) -> None:
            x.grad = None if clear else y

        self.step(assign, self.pick(x), self.pick(y))

    @rule(x=numbers, implicit=st.booleans(), keep=st.booleans(), mode=modes)
    def backward(self, x: int, implicit: bool, keep: bool, mode: str) -> None:
        def run(lib: Any, x: Any) -> None:
            x.backward(None if implicit else lib.ones_like(x.detach()), retain_graph=keep)

        self.step(run, self.pick(x), mode="grad" if mode == "inference" else mode)

    @rule(y=numbers, x=numbers, keep=st.booleans())
    def backward_to(self, y: int, x: int, keep: bool) -> None:
        def run(lib: Any, y: Any, x: Any) -> None:
            y.backward(lib.ones_like(y.detach()), retain_graph=keep, inputs=[x])

        self.step(run, self.pick(y), self.pick(x))

    @rule(
        y=numbers,
        xs=st.lists(numbers, min_size=1, max_size=2),
        create=st.booleans(),
        allow=st.booleans(),
    )
    def grad(self, y: int, xs: list[int], create: bool, allow: bool) -> None:
        def run(lib: Any, y: Any, *xs: Any) -> Any:
            ones = lib.ones_like(y.detach())
            grads = lib.autograd.grad(y, xs, ones, create_graph=create, allow_unused=allow)
            # Copies: how often a formula writes to what it computes is its own affair.
            return [None if g is None else g.clone() for g in grads]

        self.step(run, self.pick(y), *map(self.pick, xs))
        self.derived = self.derived or create

    @rule(x=numbers)
    def look(self, x: int) -> None:
        """The whole graph behind a tensor: names, edges, leaves."""
        if self.derived:
            return
        pair = self.pick(x)
        ours, theirs = (self.graph(side, pair[side]) for side in (0, 1))
        assert ours == theirs, f"graphs (jitgrad, torch)\n{ours}\n{theirs}"

    def graph(self, side: int, tensor: Any) -> list[Any]:
        root = _attribute(tensor, "grad_fn")
        if root is None or isinstance(root, str):
            return [root]
        numbers = {root: 0}
        order = [root]
        for node in order:
            for child, _ in node.next_functions:
                if child is not None and child not in numbers:
                    numbers[child] = len(order)
                    order.append(child)
        return [
            (
                self.place(side, node.variable) if hasattr(node, "variable") else _name(node),
                [(child and numbers[child], nr) for child, nr in node.next_functions],
            )
            for node in order
        ]

    @rule(x=numbers)
    def forget(self, x: int) -> None:
        if len(self.pool) > 2:
            del self.pool[x % len(self.pool)]


def _results(fn: Callable[..., Any], *pairs: tuple[Any, Any], mode: str) -> Callable[..., Any]:
    """``fn``, of whose results products are taken where their versions are PyTorch's own affair.

    Outside inference mode it counts how often an operator on inference tensors writes its result.
    """
    if mode == "inference" or not any(pair[1].is_inference() for pair in pairs):
        return fn
    return lambda *args: fn(*args) * 1


_EXPECTED = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)


def _same_error(ours: Exception | None, theirs: Exception | None) -> None:
    if ours is None and theirs is None:
        return
    if ours is None or theirs is None:
        raise AssertionError(f"raised:\njitgrad {ours!r}\ntorch {theirs!r}") from (ours or theirs)
    said = [{p for p in PHRASES if p in str(e)} for e in (ours, theirs)]
    # A call that is wrong in two ways may be refused for either.
    alike = isinstance(ours, type(theirs)) and said[0] == said[1]
    # What PyTorch says of a saved view that was overwritten is what it met while it wrote that.
    if OVERWRITTEN in said[0] and any("another view of its base" in p for p in said[1]):
        return
    if not alike and not (isinstance(ours, _EXPECTED) and set() in said):
        raise AssertionError(f"raised:\njitgrad {ours!r}\ntorch {theirs!r}") from ours


def _name(node: Any) -> str:
    return node.name().rpartition("::")[2]


def _attribute(tensor: Any, name: str) -> Any:
    """An attribute, or the phrase of the error that reading it raises."""
    try:
        return getattr(tensor, name)
    except RuntimeError as error:
        return next((p for p in PHRASES if p in str(error)), str(error))


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or m == 1 or n == 1 for m, n in zip(a[::-1], b[::-1], strict=False))


def _left_to_chance(target: Any, source: Any) -> bool:
    """Whether a write reads what it has written, which PyTorch neither refuses nor orders."""
    if target.untyped_storage().data_ptr() != source.untyped_storage().data_ptr():
        return False
    return target.data_ptr() != source.data_ptr() or target.stride() != source.stride()


def _strides(tensor: Any) -> tuple[int, ...] | None:
    """The strides that matter: of dimensions with more than one element."""
    if not tensor.numel():
        return None
    return tuple(s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)


def _tangled(tensor: Any) -> bool:
    """Whether elements share memory (windows do): what a write gives depends on its order."""
    sizes, strides = tensor.shape, tensor.stride()
    if any(n > 1 and s == 0 for n, s in zip(sizes, strides, strict=True)):
        return False  # expanded: both refuse
    places = sum(
        np.ix_(*(np.arange(n) * s for n, s in zip(sizes, strides, strict=True))), np.array(0)
    )
    return np.unique(places).size < places.size


def _array(shape: int, value: int) -> np.ndarray:
    """Small values of both signs, in float64 or now and then another dtype."""
    size = SHAPES[shape % len(SHAPES)]
    dtype = (np.float64, np.float64, np.float64, np.float32, np.int64)[shape // len(SHAPES) % 5]
    count = int(np.prod(size))
    return ((np.arange(count) * 3 + value) % 7 - 3).astype(dtype).reshape(size) / dtype(1)


def _dtype(lib: Any, array: np.ndarray) -> Any:
    return getattr(lib, array.dtype.name)


def _close(what: str, ours: Any, theirs: Any, precision: float) -> None:
    a, b = _values(ours), _values(theirs)
    if a.dtype.kind != "f":
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    finite = b[np.isfinite(b)]
    scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
    np.testing.assert_allclose(a, b, rtol=precision, atol=precision * scale, err_msg=what)


def _values(tensor: Any) -> np.ndarray:
    """The values, read without touching anything."""
    return np.array(tensor.tolist(), dtype=str(tensor.dtype).rpartition(".")[2])


@pytest.mark.oracle
class TestPrograms(Programs.TestCase):  # type: ignore[name-defined, misc]
    settings = settings(max_examples=max(250, settings().max_examples), stateful_step_count=40)
