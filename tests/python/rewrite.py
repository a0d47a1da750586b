# SPDX-License-Identifier: Apache-2.0
import repro_check


def rewrite(source, directory, **options):
    """Writes what a dump holds with DumpWriter."""

    def given(tensor):
        return repro_check.tensor(
            tensor.raw(),
            dtype=tensor.dtype,
            device=tensor.device,
            layout=tensor.layout,
            attributes=tensor.attributes,
            producer=tensor.producer if tensor.role == "input" else None,
        )

    with repro_check.open(source) as dump, repro_check.DumpWriter(directory, **options) as writer:
        for op in dump:
            side = {
                role: {t.slot: given(t) for t in op.tensors if t.role == role}
                for role in ("input", "output")
            }
            frame = op.frames[0][:2] if op.frames else None
            slot = repro_check.TensorSlot
            writer.op(
                op.name,
                overload=op.overload,
                module=op.module,
                source=frame,
                phase=op.phase,
                inputs=side["input"],
                outputs=side["output"],
                arguments={n: v for n, v in op.arguments if not isinstance(v, slot)},
                results=[v for v in op.results if not isinstance(v, slot)],
            )
    return directory
