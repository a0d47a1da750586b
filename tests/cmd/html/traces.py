# SPDX-License-Identifier: Apache-2.0
"""Descriptions of dumps for make_dump: traces that look like a transformer's, of any length."""
import random

SHAPE = [16, 24]
COUNT = SHAPE[0] * SHAPE[1]
BLOCK = [("self_attn.q_proj", "aten::linear", "attention.py:41"),
         ("self_attn.k_proj", "aten::linear", "attention.py:42"),
         ("self_attn.v_proj", "aten::linear", "attention.py:43"),
         ("self_attn", "aten::scaled_dot_product_attention", "attention.py:57"),
         ("self_attn.out_proj", "aten::linear", "attention.py:60"),
         ("dropout", "aten::dropout", "model.py:88"), ("", "aten::add.Tensor", "model.py:89"),
         ("norm1", "aten::layer_norm", "model.py:90"), ("linear1", "aten::addmm", "model.py:123"),
         ("activation", "aten::gelu", "model.py:124"), ("linear2", "aten::addmm", "model.py:125"),
         ("norm2", "aten::layer_norm", "model.py:126")]
POOL = 60
HOSTILE = ["</script><script>window.__pwned=1</script>", "<!--<script>window.__pwned=1//",
           "\"><img src=x onerror=window.__pwned=1>", "a\u2028b\u202ec", "__proto__", "constructor",
           "esc\u001b[31m", "'-alert(1)-'", "&lt;b&gt;", "x\\u003cy"]


def tensors(side, rng):
    """Pairs that are equal (e), and pairs whose error grows with their number (d); some NaN."""
    out = {}
    for i in range(POOL):
        same = random.Random(i)
        out[f"e{i}"] = {"shape": SHAPE, "values": [same.uniform(-2, 2) for _ in range(COUNT)]}
        values = [same.uniform(-2, 2) for _ in range(COUNT)]
        if side == "candidate":
            size = 10 ** (-6.5 + 5 * i / POOL)
            for k in range(COUNT):
                if rng.random() < 0.15 + 0.6 * (k % SHAPE[1] > 14):
                    values[k] += rng.gauss(0, size)
        out[f"d{i}"] = {"shape": SHAPE, "values": values}
    out["n"] = {"shape": SHAPE, "values": [
        "nan" if side == "candidate" and k % 7 == 0 else "inf" if k == 3 else k for k in range(COUNT)]}
    out["u"] = {"shape": SHAPE, "state": "uninitialised"}
    out["w"] = {"shape": [SHAPE[1]], "values": [0.5] * SHAPE[1]}
    return out


def state_at(place, ops):
    """Whether the output at a place of the trace differs, and by which tensor of the pool."""
    share = place / ops
    if share < 0.22 or 0.58 < share < 0.66:
        return False, place % POOL
    base = (share - 0.22) / 0.36 if share < 0.6 else (share - 0.66) / 0.34
    return True, min(POOL - 1, int(base * (POOL - 8)) + place % 8)


def steps_of(side, count):
    """Records of a training whose second loss parts at step 12, and its parameters a step before."""
    candidate = side == "candidate"
    for step in range(count):
        apart = 1e-4 * 1.3 ** step if candidate and step >= 11 else 0
        rate = 0.1 if step < count // 2 else 0.01
        for loss in (1.0 / (1 + step), 2.0 / (1 + step) + (apart if step >= 12 else 0)):
            yield {"operator": "repro_check::loss", "step": step, "scalars": {"loss": loss}, "results": [loss]}
        yield {"operator": "repro_check::optimizer_step", "step": step, "results": [rate],
               "scalars": {"lr[0]": rate, "grad_norm": 3.0 + step % 4, "param_sketch": [1.0 + apart, 2.0]}}


def build(side, ops, seed=7, all_differ=False, names=None, missing=False, level="tensor", steps=0):
    rng = random.Random(seed)
    listed = []
    last = "x"
    for place in range(ops):
        layer, part = divmod(place, len(BLOCK))
        module, operator, source = BLOCK[part]
        prefix = f"encoder.layers.{layer % 2000}"
        differs, slot = state_at(place, ops)
        name = f"{'d' if differs or all_differ else 'e'}{slot}"
        if ops >= 100 and place % (ops // 3) == ops // 3 - 5:
            name = "n"
        op = {"operator": operator, "module": f"{prefix}.{module}" if module else prefix,
              "source": f"/srv/model/{source}", "inputs": {"self": last, "weight": "w"}, "outputs": [name]}
        if names:
            op["operator"] = names[place % len(names)]
            op["module"] = f"m.{names[(place + 1) % len(names)]}"
        if part == 5:
            shift = 1 if side == "candidate" and place > ops * 0.66 else 0
            op["generator"] = {"device": "cpu", "seed": 42, "before": place + shift,
                               "after": place + 1 + shift, "drawn": 384}
        last = name
        if missing and side == "candidate" and place in (ops // 2, ops // 2 + 1):
            continue
        if missing and side == "candidate" and place == ops * 3 // 4:
            listed.append({**op, "operator": "aten::contiguous"})
        listed.append(op)
    if steps:
        listed += [{"operator": "aten::empty.memory_format", "outputs": ["u"]}] * 2
    listed += steps_of(side, steps)
    candidate = side == "candidate"
    return {"run": side,
            "manifest": {"model": "encoder.pt", "seed": 42, "level": level,
                         "settings": {"threads.intra_op": "1" if candidate else "2",
                                      "deterministic_algorithms": "off"},
                         "environment": {"libtorch.version": "2.13.0", "cpu.model": "a CPU",
                                         "MKL_CBWR": "COMPATIBLE" if candidate else "AVX2"}},
            "tensors": {"x": {"shape": SHAPE, "fill": 1}, **tensors(side, rng)},
            "named": [{"kind": "input", "name": "x", "tensor": "x"},
                      {"kind": "parameter", "name": "weight", "tensor": "w"}],
            "ops": listed}
