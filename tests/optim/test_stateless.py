"""Steps on parameters and a state that are swapped in."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from tests.oracle.libraries import jitgrad, torch_or_skip


def trained(lib: Any) -> Any:
    p, q = (lib.nn.Parameter(lib.ones(2) * value) for value in (1.0, 2.0))
    optimizer = lib.optim.Adam([{"params": [p]}, {"params": [q], "lr": 0.1}], lr=0.01)
    for x in (p, q):
        x.grad = lib.ones(2)
    optimizer.step()
    return optimizer


@pytest.mark.oracle
def test_a_step_elsewhere() -> None:
    def run(lib: Any) -> list[Any]:
        optimizer = trained(lib)
        before = [group["params"] for group in optimizer.param_groups]
        state = copy.deepcopy(optimizer.state_dict())
        state["param_groups"][0]["lr"] = 0.5
        others = {name: lib.nn.Parameter(lib.zeros(2)) for name in ("a", "b")}
        for p in others.values():
            p.grad = lib.ones(2) * 2
        with lib.optim.swap_in_optimizer_params_and_state(optimizer, others, state):
            assert optimizer.param_groups[0]["params"][0] is others["a"]
            optimizer.step()
        after = [group["params"] for group in optimizer.param_groups]
        assert all(a is b for a, b in zip(after, before, strict=True))
        assert optimizer.param_groups[0]["lr"] == 0.01
        found = [*others.values(), *(p for (p,) in after)]
        found += [state["state"][i][key] for i in (0, 1) for key in ("step", "exp_avg")]
        found += [optimizer.state[p]["step"] for (p,) in after]
        return [x.detach().numpy() for x in found]

    for ours, theirs in zip(run(jitgrad()), run(torch_or_skip()), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5)


@pytest.mark.oracle
def test_states_that_are_refused() -> None:
    def attempts(lib: Any) -> list[str]:
        optimizer = trained(lib)
        good = optimizer.state_dict()
        groups = good["param_groups"]
        parameters = {"a": lib.ones(2), "b": lib.ones(2)}
        fresh = lib.optim.Adam([lib.nn.Parameter(lib.ones(2))])
        cases = [
            (fresh, parameters, good),
            (optimizer, parameters, 3),
            (optimizer, parameters, {"state": 3, "param_groups": groups}),
            (optimizer, parameters, {"state": {lib.ones(1): {}}, "param_groups": groups}),
            (optimizer, parameters, {"state": {0: 3}, "param_groups": groups}),
            (optimizer, parameters, {"state": {}, "param_groups": 3}),
            (optimizer, parameters, {"state": {}, "param_groups": groups[:1]}),
            (optimizer, parameters, {"state": {7: {}}, "param_groups": groups}),
            (optimizer, {"a": lib.ones(2)}, good),
            (optimizer, parameters,
             {"state": {}, "param_groups": [{**groups[0], "params": [0, 1]}, groups[1]]}),
        ]  # fmt: skip
        found = []
        for o, values, state in cases:
            with pytest.raises(RuntimeError) as caught:
                with lib.optim.swap_in_optimizer_params_and_state(o, values, state):
                    pass
            found.append(str(caught.value)[:50])
        return found

    assert attempts(jitgrad()) == attempts(torch_or_skip())
