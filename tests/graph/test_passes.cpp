// Text tests of the passes: each case of passes/*.gir is an input, a list of passes and the expected output.
//
//     ==== name: pass pass ...          ("optimize" runs all of them, "fuse" prints the groups at the end,
//                                      in the order that "breadth" or "depth" before it say)
//     graph @f(...) { ... }
//     ----
//     expected text
//
// FRAMEJIT_BLESS=1 rewrites the expected parts; read the difference before you commit it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/pass.h"
#include "graph/passes/fuse.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace framejit::graph {
namespace {

struct Case {
  std::string comment;  // lines before the head
  std::string name, passes, input, expected;
};

std::vector<Case> read_cases(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<Case> cases;
  std::string comment;
  std::string* part = &comment;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("==== ")) {
      const std::size_t colon = line.find(": ");
      cases.push_back({comment, line.substr(5, colon - 5), line.substr(colon + 2), "", ""});
      comment.clear();
      part = &cases.back().input;
    } else if (line == "----") {
      part = &cases.back().expected;
    } else if (line.starts_with("#")) {
      comment += line + "\n";
      part = &comment;
    } else if (!line.empty()) {
      *part += line + "\n";
    }
  }
  return cases;
}

void write_cases(const std::filesystem::path& file, const std::vector<Case>& cases) {
  std::ofstream stream(file);
  bool first = true;
  for (const Case& c : cases) {
    if (!first) stream << "\n";
    first = false;
    stream << c.comment << "==== " << c.name << ": " << c.passes << "\n" << c.input << "----\n" << c.expected;
  }
}

std::string names(const std::vector<std::string>& text, const std::vector<ValueId>& values) {
  std::string out;
  for (ValueId v : values) out.append(" ").append(text[index(v)]);
  return out;
}

std::string print_groups(const Graph& graph, const PassContext& context) {
  const std::vector<std::string> text = value_names(graph);
  std::string out;
  for (const Group& g : fuse(graph, context)) {
    const Type shape{DType::Bool, g.shape, c_strides(DType::Bool, g.shape)};
    out += "group " + str(shape).substr(4) + ":" + names(text, g.nodes);
    if (!g.stored.empty()) out += " stored" + names(text, g.stored);
    out += "\n";
  }
  return out;
}

std::string run_case(const Case& c) {
  auto graph = parse(c.input);
  if (!graph) return "line " + std::to_string(graph.error().line) + ": " + graph.error().message + "\n";
  if (auto violation = verify(*graph)) return *violation;
  PassContext context;
  std::string groups;
  std::stringstream list(c.passes);
  for (std::string word; list >> word;) {
    if (word == "ignore_flags") context.ignore_flags = true;
    if (word == "O1") context.o1 = true;
    if (word == "breadth") context.order = ExecOrder::Breadth;
    if (word == "depth") context.order = ExecOrder::Depth;
    if (word == "optimize") optimize(*graph, context);
    if (word == "fuse") groups = print_groups(*graph, context);
    for (const Pass& pass : all_passes())
      if (pass.name == word) pass.run(*graph, context);
    if (auto violation = verify(*graph)) return *violation;
  }
  return print(*graph) + groups;
}

TEST(Passes, GiveTheExpectedText) {
  const bool bless = std::getenv("FRAMEJIT_BLESS") != nullptr;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FRAMEJIT_TEST_DATA) + "/passes"))
    if (entry.path().extension() == ".gir") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) {
    std::vector<Case> cases = read_cases(file);
    EXPECT_FALSE(cases.empty()) << file;
    for (Case& c : cases) {
      const std::string output = run_case(c);
      if (!bless) {
        EXPECT_EQ(output, c.expected) << file.filename() << ", " << c.name;
      }
      c.expected = output;
    }
    if (bless) write_cases(file, cases);
  }
}

}  // namespace
}  // namespace framejit::graph
