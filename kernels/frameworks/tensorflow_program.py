"""What TensorFlow's programs tell of themselves: the traced graph, and the text of what XLA made of it."""

from __future__ import annotations

import re
from types import CodeType
from typing import Any

from kernels.frameworks.jax import program_text


def text(graph: Any) -> str:
    """Print a traced graph with the functions that it calls.

    Args:
        graph: a ``FuncGraph``.

    Returns:
        Its definition, as TensorFlow prints it.
    """
    return str(graph.as_graph_def())


def python_calls(graph: Any) -> list[str]:
    """Find the operations by which a traced graph, or a function that it calls, runs Python.

    Args:
        graph: a ``FuncGraph``.

    Returns:
        Their types, such as ``PyFunc``, each once.
    """
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return sorted({node.op for node in nodes if "PyFunc" in node.op})


def inputs_read(graph: Any) -> int:
    """Count the inputs that the outputs, or what has side effects, depend on.

    Args:
        graph: a ``FuncGraph``; what it calls is taken to read whatever it is given.

    Returns:
        The number of inputs; captured tensors are none.
    """
    waiting = [output.op for output in graph.outputs] + list(graph.control_outputs)
    reached: set[Any] = set()
    while waiting:
        operation = waiting.pop()
        if operation not in reached:
            reached.add(operation)
            waiting += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    captured = {id(tensor) for tensor in graph.internal_captures}
    return sum(tensor.op in reached for tensor in graph.inputs if id(tensor) not in captured)


def hlo_text(hlo: str) -> str:
    """Take the lines of source, and the process's own count of functions, out of a program's text.

    Args:
        hlo: as XLA prints it.

    Returns:
        The same for the same program.
    """
    return re.sub(r"\b(a_inference_\w+?)_\d+__", r"\1__", program_text(hlo))


def names_in(code: CodeType) -> set[str]:
    """Collect the names that a function uses, those of the functions within it included.

    Args:
        code: the function's code.

    Returns:
        Names of globals and attributes.
    """
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def parameters(hlo: str) -> list[str]:
    """Find the parameters of a compiled program's entry: inputs whose values were not compiled into it.

    Args:
        hlo: as XLA prints it.

    Returns:
        Their names.
    """
    return re.findall(r"(%?[\w.\-]+) = \S+ parameter\(\d+\)", _entry(hlo))


def parameters_read(hlo: str) -> int | None:
    """Count the parameters that a compiled program's entry reads: those that it does not read it has nevertheless.

    Args:
        hlo: as XLA prints it.

    Returns:
        The number of parameters read; None where the text has no entry.
    """
    body = _entry(hlo)
    if not body:
        return None
    returned = set(re.findall(r"ROOT (%?[\w.\-]+) = ", body))
    return sum(name in returned or len(_mentions(name, body)) > 1 for name in parameters(hlo))


def _entry(hlo: str) -> str:
    entry = re.search(r"^ENTRY .*?^}", hlo, re.MULTILINE | re.DOTALL)
    return entry.group().partition("\n")[2] if entry else ""


def _mentions(name: str, body: str) -> list[str]:
    return re.findall(rf"(?<![\w.\-%]){re.escape(name)}(?![\w.\-])", body)
