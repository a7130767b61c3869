// Fusion: which nodes run together in one loop nest. A side table over the optimized graph, not a rewrite of it.
//
// Nodes are taken in program order, and each joins a group or opens a new one at the end. Every group runs at its place
// in the list, as a whole, so a node may join a group if
//  - the group's iteration shape is the node's (for a reduction: that of its operand);
//  - each operand is computed in the group itself, element by element, or stored by an earlier group;
//  - the flags that it may set are handled as those of the group's other nodes are (FlagRule);
//  - memory order holds: what it reads was last written by an earlier group, and what it writes is read by no later
//    one.
// Inside of a group, the bytes of a root that is written are read and written at places (offset, strides and shape) of
// which no two share an element (never_meet), such as columns, and no load follows a write of its place: element by
// element is as good as one node after the other, and a loop body may load before it stores. Other values are
// materialised: x[1:] += x[:-1] becomes a group that stores the sum and one that copies it.
//
// 0-d operators that are one native operation, on memory that the graph never writes, are free: they are recomputed in
// each group that uses them. The others run in a group of shape [] and are loaded. A recomputed one must set its flags
// even where the group's shape turns out to be empty.
//
// What is computed again (Node::rematerialized) is free as well, where all that use it are loops over its shape; else
// it is in no group that began before it: it is there so that nothing of it lives so long.
//
// A group may be as large as an expression is: values that only it uses take no memory, however many wait for their
// use. What it loads and stores has to fit a step, which is known at the end only. If a group has more, or if it could
// not be lowered (its values wait in the scratch memory of NumPy's loops), groups are made once more, and each value
// that a later group may need counts as one of 40 operands (PassContext::whole_expressions).
//
// In-place writes to params are joined freely, also across statements that may set a flag: the run time can undo them.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/pass.h"

namespace framejit::graph {

/// A stretch of nodes that one loop nest computes, operands before users. Exactly one of:
///  - elementwise: `nodes` are elementwise, casts, fulls, iotas, copies and writes over one iteration shape; every
///    value in `stored` is written to memory, the others live in registers or tile scratch only;
///  - reduction: as above, and the last nodes are one or more reductions over the same axes, of operands with the same
///    shape and layout; their results are in `stored`;
///  - contraction: a single MatMul, Convolution or Attention;
///  - control flow: a single if or loop with the groups of its blocks, or an expect. It stands for what its blocks
///  read.
/// A write stores its value at its destination and is not in `stored`. A group that only sets flags stores nothing.
/// Views, params, constants and dims belong to no group; 0-d nodes may stand in several.
struct Group {
  std::vector<ValueId> nodes;
  std::vector<ValueId> stored;
  ValueId first = kNoValue;  // with which it began
  Dims shape;                // the iteration shape (of the operand, for a reduction)
  std::vector<std::vector<Group>> blocks;
};

/// Groups in an order in which they can run. Each value is stored by one group at most.
std::vector<Group> fuse(const Graph& graph, const PassContext& context);

}  // namespace framejit::graph
