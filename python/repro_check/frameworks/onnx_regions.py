# SPDX-License-Identifier: Apache-2.0
"""Two optimisation levels run other nodes. What both compute are the tensors of the model as it was written that the
optimiser leaves: of each, the region of the model that makes it of others of them."""

from __future__ import annotations

import typing

from . import onnx_graph


class Region(typing.NamedTuple):
    node: onnx_graph.Node  #: the last of it, which makes the tensor
    output: str
    inputs: list[str]  #: tensors that are left, inputs and weights of the model
    nodes: list[str]  #: kinds of the others in it


def _region(name: str, makers: dict[str, onnx_graph.Node], left: set[str]) -> Region:
    inputs: list[str] = []
    nodes: list[str] = []
    seen, ahead = {name}, [name]
    while ahead:
        node = makers[ahead.pop()]
        if node is not makers[name]:
            nodes.append(node.op_type)
        for each in (*node.input, *onnx_graph.captured(node)):
            if not each or each in seen:
                continue
            seen.add(each)
            if each in left or each not in makers:
                inputs.append(each)
            else:
                ahead.append(each)
    return Region(makers[name], name, sorted(inputs), sorted(nodes))


def regions(written: onnx_graph.Model, optimised: onnx_graph.Model) -> list[Region]:
    """In the order of the model.
    @param written    the model as it is
    @param optimised  what the optimiser makes of it"""
    makers = {name: node for node in written.graph.node for name in node.output if name}
    left = {name for node in optimised.graph.node for name in node.output} & makers.keys()
    return [_region(name, makers, left) for name in makers if name in left]
