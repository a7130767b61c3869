// What compile() has made of a graph, as bytes for another process.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "ext/region/archive.h"
#include "ext/region/compile.h"

namespace framejit::graph {

FRAMEJIT_FIELDS(DimGuard, x.relation, x.left, x.right, x.outcome)

}  // namespace framejit::graph

namespace framejit::ext::region {

/// A graph without blocks or gradients. Library calls keep their indices: whoever reads them says what they are then.
/// `locations`: so many of its locations others name.
void write_graph(ArchiveWriter& a, const graph::Graph& graph, uint32_t locations);

/// By the index that a library call had, the one that it has now.
using LibraryCallIndices = std::map<int64_t, int64_t>;

/// Null, with `ok` cleared, if the bytes are no such thing.
std::unique_ptr<graph::Graph> read_graph(ArchiveReader& a, const LibraryCallIndices& calls, uint32_t& locations);

/// What compile() has compiled the graph to. Clears `ok` for what depends on
/// symbols, or calls what cannot be found again.
void write_program(ArchiveWriter& a, const graph::Graph& graph, const codegen::Program& program);

/// The reverse; the plan is ready to run. Nothing, with `ok` cleared, if the bytes are no such thing.
std::optional<Compiled> read_program(ArchiveReader& a, const LibraryCallIndices& calls, const CompileOptions& options);

}  // namespace framejit::ext::region
