#include "capture/guard_set.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>

#include "capture/array_inputs.h"
#include "capture/py/repr.h"

namespace framejit::capture {

bool same_source(const SourceRef& a, const SourceRef& b) { return a == b || (a && b && same(*a, *b)); }

namespace {

bool same_dim_guard(const graph::DimGuard& a, const graph::DimGuard& b) {
  return a.relation == b.relation && a.outcome == b.outcome && a.left == b.left && a.right == b.right;
}

std::size_t guard_hash(const Guard& g) {
  std::size_t hash = static_cast<std::size_t>(g.kind) + reinterpret_cast<std::size_t>(g.object.get());
  hash = hash * 1000003 + key_hash(g.key.get());
  if (g.kind == GuardKind::DimRelation) hash = hash * 1000003 + (g.dim.left.hash() * 31 ^ g.dim.right.hash());
  for (const SourceRef& each : {g.source, g.other})
    if (each) hash = hash * 1000003 + hash_of(*each);
  for (const SourceRef& each : g.several) hash = hash * 1000003 + hash_of(*each);
  return hash;
}

}  // namespace

void GuardSet::add(Guard guard) {
  constexpr int kMostSteps = 100;
  if (guard.source && guard.source->depth() > kMostSteps) too_deep_ = true;
  const std::size_t hash = guard_hash(guard);
  const auto [first, last] = index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Guard& g = guards_[it->second];
    if (g.kind == guard.kind && g.object.get() == guard.object.get() && g.number == guard.number &&
        same_source(g.source, guard.source) && same_source(g.other, guard.other) &&
        std::equal(g.several.begin(), g.several.end(), guard.several.begin(), guard.several.end(), same_source) &&
        same_key(g.key.get(), guard.key.get()) && g.kind != GuardKind::Array && g.kind != GuardKind::IntSymbol &&
        (g.kind != GuardKind::DimRelation || same_dim_guard(g.dim, guard.dim)))
      return;
  }
  if (guard.location == 0) guard.location = position_.location();
  index_.emplace(hash, guards_.size());
  guards_.push_back(std::move(guard));
}

void GuardSet::add_relations(const graph::ShapeEnv& shapes) {
  const std::vector<graph::DimGuard>& recorded = shapes.guards();
  if (recorded.size() == relations_) return;
  const std::size_t before = relations_;
  for (std::size_t i = relations_; i < recorded.size(); ++i) {
    if (shapes.is_measured(recorded[i].left) || shapes.is_measured(recorded[i].right)) continue;
    Guard g{};
    g.kind = GuardKind::DimRelation;
    g.dim = recorded[i];
    add(std::move(g));
  }
  relations_ = recorded.size();
  undo_.learn([this, before] { relations_ = before; });
}

uint32_t GuardSet::append(Guard guard) {
  guards_.push_back(std::move(guard));
  return static_cast<uint32_t>(guards_.size() - 1);
}

void GuardSet::roll_back(std::size_t count) {
  for (std::size_t i = count; i < guards_.size(); ++i) {
    const auto [first, last] = index_.equal_range(guard_hash(guards_[i]));
    const auto at = std::find_if(first, last, [i](const auto& entry) { return entry.second == i; });
    if (at != last) index_.erase(at);
  }
  guards_.erase(guards_.begin() + static_cast<std::ptrdiff_t>(count), guards_.end());
  too_deep_ = false;
}

namespace {

using Names = std::map<std::string, std::string>;

std::string shown(const graph::Dim& dim, const Names& names) {
  const std::string text = dim.str();
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool start = text[i] == 's' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1])));
    std::size_t end = i + 1;
    while (start && end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    auto found = start ? names.find(text.substr(i, end - i)) : names.end();
    out += found != names.end() ? found->second : text.substr(i, end - i);
    i = end;
  }
  return out;
}

}  // namespace

void GuardSet::show_dimensions(const std::vector<Input>& inputs) {
  Names names;  // of every symbol, the expression whose value it is
  auto bind = [&](const graph::Dim& d, const std::string& name) {
    if (!d.is_const()) names.emplace(d.str(), name);
  };
  for (const Input& in : inputs)
    for (std::size_t k = 0; k < in.spec.shape.size(); ++k)
      bind(in.spec.shape[k], in.source->str() + ".shape[" + std::to_string(k) + "]");
  for (const Guard& g : guards_)
    if (g.kind == GuardKind::IntSymbol) bind(g.dim.left, g.object ? "len(" + g.source->str() + ")" : g.source->str());
  static constexpr const char* kYes[] = {" == ", " != ", " < ", " <= "};
  static constexpr const char* kNo[] = {" != ", " == ", " >= ", " > "};
  for (Guard& g : guards_) {
    if (g.kind != GuardKind::DimRelation) continue;
    const auto relation = static_cast<std::size_t>(g.dim.relation);
    g.shown = shown(g.dim.left, names) + (g.dim.outcome ? kYes : kNo)[relation] + shown(g.dim.right, names);
  }
}

}  // namespace framejit::capture
