# SPDX-License-Identifier: Apache-2.0
"""Numbers and tables of the format, made by `scripts/python-rows` (target `update_python_rows`) from the sources in
C++: a test fails when they differ. docs/DUMP_FORMAT.md says what they mean."""

FORMAT = "repro-check-dump"
MAJOR, MINOR = 1, 5
NONE = 0xFFFFFFFF
#: Bits of `flags` of a tensor: RequiresGrad, Stored, Steady, Moved, Counted.
FLAGS = (1, 2, 4, 8, 16)
#: The bit of `flags` of a block that was in training mode.
BLOCK_TRAINING = 1
STATES = (
    "hashed", "uninitialised", "none", "undefined", "composite", "excluded",
)
PHASES = (
    "forward", "backward", "optimizer", "setup", "data", "loss", "reduce", "recompute", "eval",
)
DTYPES = (
    "unknown", "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "complex32", "complex64", "complex128",
    "qint8", "quint8", "qint32",
)
#: The members of a row, each with its type in numpy, in order and without padding. t4 is the number of a
#: text, `?` what older minor versions lack. A type alone is that of rows that are a number.
TABLES = {
    "blocks": (
        "in_high:u8 in_low:u8 out_high:u8 out_low:u8 step:u4 path:t4 call:u4 unopened:u2 phase:u1 "
        "flags:u1"
    ),
    "contents": "digest_high:u8 digest_low:u8 shape_begin:u8 bytes:u8 shape_count:u4 dtype:u4 packed:i8?",
    "dims": "i8",
    "frames": "file:t4 line:u4 function:t4",
    "generators": "seed:u8 position_before:u8 position_after:u8 drawn:i8 device:t4 reserved:u4",
    "non_finite": "tensor:u8 nans:u8 positive_infs:u8 negative_infs:u8",
    "operators": "name:t4 overload:t4 seeded:u4",
    "ops": (
        "parent:i8 wall_ns:u8 values_begin:u8 tensors_begin:u8 substitutions_begin:u8 generator:i8 "
        "op:u4 site:u4 depth:u4 phase:u4 step:u4 rank:u4 lane:u4 argument_rows:u4 result_rows:u4 "
        "tensor_count:u4 substitution_count:u4 modes:t4"
    ),
    "parameters": "digest_high:u8 digest_low:u8 step:u4 name:t4",
    "sites": "module_path:t4 module_type:t4 frames_begin:u4 frame_count:u4",
    "slices": (
        "digest_high:u8 digest_low:u8 slice_high:u8 slice_low:u8 elements:u8 stride:u8 "
        "shape_begin:u8 shape_count:u4 dtype:u4"
    ),
    "stats": (
        "min:f8 max:f8 mean:f8 std:f8 l2:f8 zeros:u8 nans:u8 positive_infs:u8 negative_infs:u8 "
        "subnormals:u8"
    ),
    "substitutions": "argument:t4 from:t4 to:t4 reason:t4",
    "tensors": (
        "digest_high:u8 digest_low:u8 storage_offset:i8 storage:i8 producer:i8 stats:i8 "
        "shape_begin:u8 strides_begin:u8 shape_count:u4 strides_count:u4 slot:t4 device:t4 "
        "layout:t4 attributes:t4 name:t4 role:u1 state:u1 dtype:u1 flags:u1"
    ),
    "text_bytes": "u1",
    "text_offsets": "u8",
    "values": "integer:i8 real:f8 imaginary:f8 name:u4 kind:u2 level:u2",
}
#: Tables that are not in every dump.
IN_SOME_DUMPS = (
    "blocks", "non_finite", "parameters", "slices",
)
