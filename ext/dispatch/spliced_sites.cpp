// Which sites are dormant, and when they are tried again.
#include "ext/dispatch/spliced_sites.h"

#include <algorithm>
#include <utility>

namespace framejit::ext::dispatch {

std::unique_ptr<capture::SplicedCode> SplicedSites::splice(CodeUnit& unit,
                                                           std::shared_ptr<capture::SiteHandler> handler) {
  capture::SpliceOptions options;
  options.all_boundaries = unit.settings().stress.all_sites();
  auto made = capture::SplicedCode::make(unit.view(), std::move(handler), options);
  if (!made) {
    unsplicable_ = true;
    return nullptr;
  }
  code_ = made->get();
  places_.clear();
  places_.resize(unit.view()->instrs().size());
  for (const uint32_t site : code_->sites()) {
    places_[site] = std::make_unique<CompileSite>();
    places_[site]->varied.all = unit.settings().dynamic;
  }
  dormant_ = 0;
  return std::move(*made);
}

PyCodeObject* SplicedSites::replacement(const CodeUnit& unit, bool compiled) {
  if (!code_) return nullptr;
  const int64_t n = ++calls_;
  if (n == 4 || n == 64 || n == 1024) wake();
  return unit.settings().stress.rewrite || !has_nothing_awake(unit, compiled) ? code_->code() : nullptr;
}

/// Are all sites dormant that calls come by? Others are given a call now and then.
bool SplicedSites::has_nothing_awake(const CodeUnit& unit, bool compiled) const {
  if (dormant_ == code_->sites().size()) return true;
  if (compiled || !unit.compares() || !is_tried() || calls_ % 8 == 0) return false;
  return std::all_of(code_->sites().begin(), code_->sites().end(),
                     [this](uint32_t site) { return places_[site]->dormant || places_[site]->visits == 0; });
}

void SplicedSites::wake() {
  for (const uint32_t site : code_->sites())
    if (CompileSite& place = *places_[site]; place.dormant && place.failures < CompileSite::kMaxFailures)
      set_dormant(place, site, false);
}

void SplicedSites::set_dormant(CompileSite& place, uint32_t site, bool dormant) {
  if (place.dormant == dormant || !code_) return;
  code_->set_dormant(site, dormant);
  place.dormant = dormant;
  if (dormant) ++dormant_;
  else --dormant_;
}

}  // namespace framejit::ext::dispatch
