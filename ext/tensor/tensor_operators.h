// What eager Tensors compute: the operators, and the functions of the operator table by name.
#pragma once

#include <Python.h>

#include <optional>
#include <string_view>

#include "ext/tensor/tensor_promotion.h"
#include "graph/op.h"

namespace framejit::ext::tensor {

/// Python's int, float, bool or complex, or a NumPy scalar: what is weak in promotion.
bool is_number_operand(PyObject* object);
/// What a Tensor or number is to promotion.
Promoted promoted_of(PyObject* operand);

/// A binary operator of Tensors, numbers, lists and tuples, as a Tensor; NotImplemented for other operands.
PyObject* apply_binary(graph::Op op, PyObject* a, PyObject* b);
PyObject* apply_unary(graph::Op op, PyObject* x);

/// The number of the operand that such a function has under a name, which may be that of any of MindSpore's functions;
/// -1: none.
int operand_named(const graph::OpDef& row, std::string_view name);
/// The operator that a function of the module computes (framejit._core._op_exp ...), if it is one.
std::optional<graph::Op> operator_of(PyObject* callable);

}  // namespace framejit::ext::tensor
