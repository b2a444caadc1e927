"""The Python source of hot paths, written once per operator from these templates.

A call on small tensors is dominated by the interpreter, so nothing generic may run on it: no loop
over operands, no ``*args``, no per-operator branch. Each row's function is therefore expanded from
a template with its arguments spelled out (docs/decisions/0004-generated-dispatch.md has figures);
everything off the hot path is an ordinary function that the templates call.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

from .. import config

FORWARD = """
def {name}({signature}, *, out=None):
    if out is not None:
        return write(({arguments},), out, "{name}")
{numbers}
    try:
        plan = plans[{layouts}]
    except (KeyError, AttributeError):
        given = operands({arguments})
        if given is None:
            return NotImplemented
        {arguments}, = given
        plan = plans.add(({layouts}), forward(row, ({layouts},)))
{check}
    buffer = empty(plan.nbytes, BYTE)
    plan.run(plan.spec, {buffers}, buffer, 0)
    storage = new(Storage)
    storage.version = 0
    storage.buffer = buffer
    storage.owner = storage.writer = None
    result = new(Tensor)
    result.storage = result.counter = storage
    result.offset = 0
    result.layout = plan.out
    result.edge = result.view_meta = result.meta = None
    result.tracked = False
{record}
    return result
"""

RECORD = """
    mode = modes.mode
    if {tracked}:
        if mode == GRAD:
{edges}
            cls = classes[{mask}]
            if cls is None:
                if not ({quiet}):
                    untracked(({arguments},), plan, result)
            else:
                node = new(cls)
                node._seq = next_seq()
                node.next_edges = ({next_edges},)
                node._plan = plan
                node._hooks = None
{where}
                save = cls.save
                node._saved = save({arguments}, result) if save is not None else ()
                result.edge = (node, 0)
                result.tracked = True
        else:
            special(({arguments},), plan, result)
    elif mode > GRAD:
        special(({arguments},), plan, result)
    else:
        result.tracked = {inherited}
"""

# A node that saves something finds nothing there once that was released (autograd/node.py).
_SAVED = """
    saved = node._saved
    if not saved:
        raise backward_twice(node)
"""

# Where an operator was called, for error messages: most of the time right there.
_WHERE = """
                frame = getframe(1)
                code = frame.f_code
                node._where = caller(2) if ours[code.co_filename] else (code, frame.f_lasti)
"""
_WRITER = """
    frame = getframe(1)
    code = frame.f_code
    counter.writer = (
        writer("{name}_", 2) if ours[code.co_filename] else ("{name}_", code, frame.f_lasti)
    )
"""
if not config.WHERE:
    _WHERE = """
                node._where = None
"""
    _WRITER = ""

# A row without derivatives: history ends at its result.
CUT = """
    if {tracked} or modes.mode > GRAD:
        special(({arguments},), plan, result)
    else:
        result.tracked = {inherited}
"""

INPLACE = """
def {name}_({signature}):
{numbers}
    mode = modes.mode
    if mode > GRAD or mode and ({tracked}):
        return write_in_place({arguments})
    try:
        plan = plans[{layouts}]
    except (KeyError, AttributeError):
        return write_in_place({arguments})
    {target} = {first}.storage
    counter = {first}.counter
    if {target}.owner.__class__ is ReadOnly or counter is INFERENCE_COUNTER{shared}:
        return write_in_place({arguments})
    plan.run(plan.spec, {buffers}, {target}.buffer, {first}.offset)
    counter.version += 1
{where}
    return {first}
"""

APPLY = """
def apply(node, grad):
{saved}
    if grad is None:
        return {undefined}
{unpack}
    try:
        plan = plans[node._plan, {layouts}]
    except KeyError:
        plan = plans.add((node._plan, {layouts}), backward(({layouts},), node._plan))
{allocate}
    plan.run(plan.spec, {buffers}, {outputs})
{wrap}
    return ({grads},)
"""

_WRAP = """
    storage = new(Storage)
    storage.version = 0
    storage.buffer = buffer{i}
    storage.owner = storage.writer = None
    grad{i} = new(Tensor)
    grad{i}.storage = grad{i}.counter = storage
    grad{i}.offset = 0
    grad{i}.layout = plan.outs[{i}]
    grad{i}.edge = grad{i}.view_meta = grad{i}.meta = None
    grad{i}.tracked = False
    if plan.finish[{i}] is not None:
        grad{i} = finish(grad{i}, plan.finish[{i}])
"""

# A view is tracked, for its base may come to require grad. Where that never had to do with a
# gradient, nor the view itself, there is nothing to record nor to inherit.
_QUIET = (
    "({x}.tracked is False or {x}.view_meta is not None and {x}.view_meta.base.tracked is False"
    " and {x}.view_meta.edge is None and not {x}.view_meta.requires_grad)"
)

# The same two for structured rows, whose formulas are functions over Tensors. Recording depends on
# nothing but the number of inputs, so it is expanded once for each number and closes over the rest.
STRUCTURED_RECORD = """
def recorder(base, variants):
    def record({inputs}, result, attributes, outcome):
        if modes.mode == GRAD and ({tracked}):
{edges}
            mask = {mask}
            if mask:
                cls = variants[mask]
                node = new(cls)
                node._seq = next_seq()
                node.next_edges = ({next_edges},)
                node._plan = outcome
                node._hooks = None
                node._where = caller(3)
                node.attributes = attributes
                save = cls.save
                node._saved = save({inputs}, result) if save is not None else ()
                result.edge = (node, 0)
                result.tracked = True
                return
            if {quiet}:
                return
        general(base, ({inputs},), (result,), attributes, outcome)
    return record
"""

STRUCTURED_APPLY = """
def apply(node, grad):
{saved}
    if {undefined}:
        return {nothing}
{unpack}
{joint}
    return ({grads},)
"""


def define(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """Run expanded source, keeping its lines for tracebacks."""
    filename = f"<jitgrad dispatch {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


def _each(names: Sequence[str], pattern: str, separator: str = ", ") -> str:
    return separator.join(pattern.format(x=x, i=i) for i, x in enumerate(names))


def forward_source(
    name: str, inputs: Sequence[str], defaults: dict[str, str], differentiable: bool, checked: bool
) -> str:
    """The function of an elementwise row."""
    # The first operand that has lost its history says so to the result (autograd/cut.py).
    inherited = " else ".join(f"{x}.tracked if {x}.tracked is not False" for x in inputs[:-1])
    inherited = f"{inherited} else {inputs[-1]}.tracked" if inherited else f"{inputs[-1]}.tracked"
    if not differentiable:
        record = CUT.format(
            arguments=", ".join(inputs),
            tracked=_each(inputs, "{x}.tracked", " or "),
            inherited=inherited,
        )
    else:
        record = RECORD.format(
            where=_WHERE,
            arguments=", ".join(inputs),
            inherited=inherited,
            tracked=_each(inputs, "{x}.tracked", " or "),
            edges=_each(
                inputs,
                " " * 12 + "e{i} = ({x}.edge or gradient_edge({x})) if {x}.tracked else None",
                "\n",
            ),
            mask=" + ".join(f"({1 << i} if e{i} is not None else 0)" for i in range(len(inputs))),
            next_edges=_each(inputs, "e{i}"),
            quiet=_each(inputs, _QUIET, " and "),
        )
    return FORWARD.format(
        name=name,
        signature=_signature(inputs, defaults),
        arguments=", ".join(inputs),
        numbers=_numbers(inputs),
        layouts=_each(inputs, "{x}.layout"),
        buffers=_each(inputs, "{x}.storage.buffer, {x}.offset"),
        check=f"    check(({', '.join(inputs)},), plan)" if checked else "",
        record=record,
    )


def inplace_source(name: str, inputs: Sequence[str], defaults: dict[str, str]) -> str:
    """The in-place form of an elementwise row where nothing is recorded.

    Its plans are those of layouts for which a write needs no further checks; whatever else there is
    to look at (history, foreign memory, operands on the same storage) leaves the hot path.
    """
    first = inputs[0]
    return INPLACE.format(
        name=name,
        where=_WRITER.format(name=name),
        first=first,
        target="target_storage",
        signature=_signature(inputs, defaults),
        arguments=", ".join(inputs),
        numbers=_numbers(inputs),
        tracked=_each(inputs, "{x}.tracked and requires_grad({x})", " or "),
        layouts=_each(inputs, "{x}.layout"),
        buffers=_each(inputs, "{x}.storage.buffer, {x}.offset"),
        shared="".join(f" or {x}.storage is target_storage" for x in inputs[1:]),
    )


def _signature(inputs: Sequence[str], defaults: dict[str, str]) -> str:
    return ", ".join(x + (f"={defaults[x]}" if x in defaults else "") for x in inputs)


def _numbers(inputs: Sequence[str]) -> str:
    """Python numbers become constants."""
    return "".join(
        f"    if {x}.__class__ in NUMBERS:\n        {x} = constant({x})\n" for x in inputs[1:]
    )


def apply_source(saved: Sequence[str], positions: Sequence[int], count: int, fused: bool) -> str:
    """The backward of a node that saves ``saved`` and has gradients for inputs ``positions``.

    ``fused`` False: every gradient is the incoming one, passed on as it is.
    """
    grads = ["None"] * count
    for i, position in enumerate(positions):
        grads[position] = f"grad{i}" if fused else "grad"
    unpack = ""
    if saved:
        unpack = f"    {_each(saved, '{x}, v{i}')} = saved\n" + _each(
            saved,
            "    if {x}.counter.version != v{i}:\n        {x} = unpack(node, {i})",
            "\n",
        )
    operands = ["grad", *saved]
    outs = range(len(positions))
    return APPLY.format(
        saved=_SAVED if saved else "",
        undefined="(" + "None, " * count + ")",
        unpack=unpack,
        layouts=_each(operands, "{x}.layout"),
        buffers=_each(operands, "{x}.storage.buffer, {x}.offset"),
        allocate="\n".join(f"    buffer{i} = empty(plan.nbytes[{i}], BYTE)" for i in outs),
        outputs=", ".join(f"buffer{i}, 0" for i in outs),
        wrap="".join(_WRAP.format(i=i) for i in outs),
        grads=", ".join(grads),
    )


# save_result (autograd/saved.py), spelled out.
_KEPT = """
    kept = new(SavedResult)
    kept.storage = result.storage
    kept.offset = result.offset
    kept.layout = result.layout
    kept.counter = result.counter
    kept.edge = kept.view_meta = kept.meta = None
    kept.tracked = False
"""


def saver_source(saves: Sequence[str], inputs: Sequence[str]) -> str:
    """``save(*inputs, result)``: what a node that saves these values keeps."""
    kept = ["kept" if name == "result" else name for name in saves]
    first = _KEPT if "kept" in kept else ""
    pairs = _each(kept, "{x}, {x}.counter.version")
    return f"def save({', '.join(inputs)}, result):\n{first}    return ({pairs},)\n"


def structured_record_source(count: int, edges: int) -> str:
    """How a call with ``count`` inputs, the first of which have ``edges``, is recorded."""
    inputs = [f"x{i}" for i in range(count)]
    followed = inputs[:edges]
    edge = "            e{i} = ({x}.edge or gradient_edge({x})) if {x}.tracked else None"
    return STRUCTURED_RECORD.format(
        inputs=", ".join(inputs),
        tracked=_each(inputs, "{x}.tracked", " or "),
        edges=_each(followed, edge, "\n"),
        mask=" + ".join(f"({1 << i} if e{i} is not None else 0)" for i in range(edges)),
        next_edges=_each(followed, "e{i}"),
        quiet=_each(inputs, _QUIET, " and "),
    )


def structured_apply_source(
    saves: Sequence[str],
    formulas: Sequence[Sequence[str] | None],
    outputs: int,
    holomorphic: bool,
    together: Sequence[int] = (),
    call: Sequence[str] = (),
) -> str:
    """The backward of a structured row: for each input the parameters of its formula, if wanted.

    What is no saved value is looked up among the call's attributes. The inputs ``together`` get
    their gradients from one function, with the parameters ``call``. Of a holomorphic row with one
    output a complex gradient meets the conjugates of what was saved.
    """
    unpack = []
    if saves:
        unpack.append(f"    {_each(saves, '{x}, v{i}')} = saved")
    for i, x in enumerate(saves):
        # A result has its history only once it is unpacked, which matters where that is recorded.
        recorded = " or modes.mode" if x == "result" else ""
        unpack.append(
            f"    if {x}.counter.version != v{i}{recorded}:\n        {x} = unpack(node, {i})"
        )
    if saves and holomorphic and outputs == 1:
        conjugates = _each(saves, "{x}._conjugated()")
        unpack.append(
            f"    if grad.layout.dtype.is_complex:\n        {_each(saves, '{x}')} = {conjugates}"
        )

    def argument(parameter: str, position: int) -> str:
        if parameter == "grad" or parameter in saves:
            return parameter
        if parameter == "position":
            return str(position)
        if parameter == "wanted":
            return repr(tuple(formulas[i] is not None for i in together))
        if parameter == "layout":
            return f"node._plan.inputs[{position}]"
        return f"node.attributes[{parameter!r}]"

    joint = ""
    if any(formulas[i] is not None for i in together):
        targets = "".join(f"joint{i}, " for i in together)
        joint = f"    {targets}= joint({', '.join(argument(p, together[0]) for p in call)})"
    grads = [
        "None"
        if parameters is None
        else f"joint{i}"
        if i in together
        else f"formula{i}({', '.join(argument(p, i) for p in parameters)})"
        for i, parameters in enumerate(formulas)
    ]
    none = "grad is None"
    return STRUCTURED_APPLY.format(
        saved=_SAVED if saves else "",
        undefined=none if outputs == 1 else f"{none} or all(g is None for g in grad)",
        nothing="(" + "None, " * len(formulas) + ")",
        unpack="\n".join(unpack),
        joint=joint,
        grads=", ".join(grads),
    )
