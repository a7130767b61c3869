// Lowering, inside: groups become parts, and parts become steps, each by the functions of one file.
#pragma once

#include <set>
#include <vector>

#include "codegen/lowerer.h"

namespace framejit::codegen::detail {

// lower_parts.cpp: from groups to parts

void cut_groups(Lowerer& l);
/// What each part has to leave in memory. Scalars that a part computes along the way and others want get a part of
/// their own, which changes what is wanted.
void find_stored(Lowerer& l);
/// A view that is the whole of its root, but for axes of length 1.
bool same_bytes(Lowerer& l, ValueId view, ValueId root);

// lower_attribute.cpp: the order of parts whose flags have owners

/// From the first part on that writes a param, flags must have an owner and nothing may ask for a second run. Numbers
/// that are ready before, such as a Python float in the array's dtype, are computed before.
void attribute(Lowerer& l);

// lower.cpp: loops, and the steps of all parts

void lower_parts(Lowerer& l);
StepSpec new_step(const Part& part);
void fill_elementwise(Lowerer& l, StepSpec& spec, const std::vector<ValueId>& nodes, const std::set<ValueId>& stored);
void lower_elementwise(Lowerer& l, const Part& part, const std::vector<ValueId>& nodes,
                       const std::set<ValueId>& stored);

// lower_products.cpp: matrix products and what goes with them

bool is_product(const Lowerer& l, const Part& part);
/// The part that computes element by element what is made of a product, if the product may wait for it: its first
/// reader, over the product's shape, with nothing in between that writes what the product reads. Of several products
/// the last one. None where flags have owners: those are told apart step by step.
const Part* epilogue_of(const Lowerer& l, const Part& product);
void lower_product(Lowerer& l, const Part& part, const Part* epilogue);
void lower_attention(Lowerer& l, const Part& part);

// lower_control.cpp: control flow

void lower_control(Lowerer& l, const Part& part);

}  // namespace framejit::codegen::detail
