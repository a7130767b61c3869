// Compiled graphs as bytes for another process.
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
/// `locations`: how many of its locations guards name.
void write_graph(ArchiveWriter& a, const graph::Graph& graph, uint32_t locations);

/// The indices that library calls have in this process, by those that the file has.
using LibraryCallIndices = std::map<int64_t, int64_t>;

/// Null, with `ok` cleared, if the bytes are no graph.
std::unique_ptr<graph::Graph> read_graph(ArchiveReader& a, const LibraryCallIndices& calls, uint32_t& locations);

/// Writes a program. Clears `ok` if it depends on symbols, or calls a function that another process cannot find.
void write_program(ArchiveWriter& a, const graph::Graph& graph, const codegen::Program& program);

/// Reads a program, and makes a plan that is ready to run. Nothing, with `ok` cleared, if the bytes are no program.
std::optional<Compiled> read_program(ArchiveReader& a, const LibraryCallIndices& calls, const CompileOptions& options);

}  // namespace framejit::ext::region
