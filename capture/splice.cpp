// Rewriting of a code object: sites in front of the user's instructions, the shared pad and landings behind them.
//
//   site in front of k:  JUMP_FORWARD 0            dormant: over the next three
//                        LOAD_CONST region
//                        UNARY_INVERT
//                        POP_JUMP_IF_TRUE pad
//                        raw k                     jumps to k come to the site
//   pad:                 JUMP_FORWARD e            e: a landing, or one of the three below
//                        RETURN_VALUE              never run; the two jumps lead here until a region has set them
//                        POP_TOP ...               the exit is less deep than the site: enters among these
//                        JUMP_FORWARD out
//                        PUSH_NULL ...             deeper: among these
//                        LOAD_CONST region
//                        UNARY_INVERT              the region writes what was pushed
//                        POP_TOP
//   out:                 JUMP_FORWARD e
//                        RETURN_VALUE
//   landing of exit e:   JUMP_BACKWARD raw e
//   and of a loop's head, if the region began elsewhere, or behind a loop:
//                        JUMP_BACKWARD site        what comes may be compiled
//
// The region sets the arguments of both jumps before it answers True. Nothing runs between that and the landing.
//
// The argument byte of a site's JUMP_FORWARD is patched in the live code. JUMP_FORWARD has no cache, no specialised
// form and is no part of a super-instruction (LOAD_CONST, the site's next, can be the second half of one, so it could
// not be patched itself). Nor has EXTENDED_ARG but for its quickened form, whose argument is the same.
//
// `f_lineno = n` of a debugger analyses the whole code (`mark_stacks`) and wants one stack for each instruction. The
// pad is reached with several, and its jumps lead wherever the last region left. So the setter of `f_lineno` is wrapped
// (py/debugger_jumps.h): while it runs all sites of the frame's code are dormant, and nothing leads to the pad. Up to
// 3.13 it reads arguments from `co_code`, as a thread with a profiler does on 3.11: patched jumps are copied there.
#include "capture/py/frame.h"

#include "capture/hook.h"
#include "capture/splice.h"

#include <algorithm>
#include <set>

#include "capture/code_writer.h"
#include "capture/py/debugger_jumps.h"
#include "capture/splice_region.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

uint8_t raw(int op) { return static_cast<uint8_t>(op); }

/// The items of the rewritten code, and where things are among them.
class Layout {
 public:
  Layout(const CodeView& view, const std::vector<uint32_t>& chosen, uint32_t region_const)
      : raw_(view.code()), view_(view), region_const_(region_const), sites_(chosen.size()) {
    site_of_raw_.assign(raw_.instrs.size(), -1);
    for (uint32_t site : chosen) {
      site_of_raw_[raw_index(site)] = static_cast<int64_t>(site);
      most_pops_ = std::max(most_pops_, view.instrs()[site].depth);
    }
    copy_user_code();
    add_pad();
    add_landings();
    connect();
  }

  struct SiteItems {
    uint32_t instr, switch_item, question_item, raw_item;
  };

  CodeWriter writer;
  std::vector<SiteItems> sites;
  /// Item of the user's instruction.
  uint32_t own_item(uint32_t instr) const { return own_[raw_index(instr)]; }

  std::vector<std::pair<uint32_t, uint32_t>> landings;         // Instr index, item
  std::vector<std::pair<uint32_t, uint32_t>> asking_landings;  // those that ask at a site
  struct PadItems {
    uint32_t entry, pops_end, pushes_end, question, out;
  } pad;

 private:
  uint32_t raw_index(uint32_t instr) const {
    return static_cast<uint32_t>(raw_.index_of[view_.instrs()[instr].offset]);
  }

  uint32_t add(const RawInstr& like, int op, uint32_t arg = 0, int32_t target = -1) {
    writer.items.push_back({raw(op), arg, target, like.handler, like.position, 0});
    return static_cast<uint32_t>(writer.items.size() - 1);
  }

  void copy_user_code() {
    constexpr std::size_t kForSite = 6, kForPad = 32;  // about
    writer.items.reserve(raw_.instrs.size() + kForSite * sites_ + kForPad);
    entry_.resize(raw_.instrs.size());
    own_.resize(raw_.instrs.size());
    for (uint32_t i = 0; i < raw_.instrs.size(); ++i) {
      const RawInstr& instr = raw_.instrs[i];
      entry_[i] = static_cast<uint32_t>(writer.items.size());
      if (site_of_raw_[i] >= 0) {
        const uint32_t jump = add(instr, kRaw.jump_forward, 0, static_cast<int32_t>(writer.items.size()) + 1);
        add(instr, kRaw.load_const, region_const_);
        const uint32_t question = add(instr, kRaw.unary_invert);
        to_pad_.push_back(add(instr, kRaw.pop_jump_if_true));
        sites.push_back({static_cast<uint32_t>(site_of_raw_[i]), jump, question, question + 2});
      }
      own_[i] = static_cast<uint32_t>(writer.items.size());
      writer.items.push_back({instr.op, instr.arg, instr.target, instr.handler, instr.position, instr.prefixes});
    }
  }

  void add_pad() {
    const RawInstr nowhere;  // no position, no handler
    int16_t most_pushes = 0;
    for (const Instr& instr : view_.instrs())
      if (instr.boundary) most_pushes = std::max(most_pushes, instr.depth);
    pad.entry = add(nowhere, kRaw.jump_forward);
    for (uint32_t item : to_pad_) writer.items[item].target = static_cast<int32_t>(pad.entry);
    add(nowhere, kRaw.return_value);
    for (int i = 0; i < most_pops_; ++i) add(nowhere, kRaw.pop_top);
    pad.pops_end = add(nowhere, kRaw.jump_forward);
    for (int i = 0; i < most_pushes; ++i) add(nowhere, kRaw.push_null);
    pad.pushes_end = add(nowhere, kRaw.load_const, region_const_);
    pad.question = add(nowhere, kRaw.unary_invert);
    add(nowhere, kRaw.pop_top);
    pad.out = add(nowhere, kRaw.jump_forward);
    writer.items[pad.pops_end].target = static_cast<int32_t>(pad.out);
    add(nowhere, kRaw.return_value);
  }

  void add_landings() {
    for (uint32_t i = 0; i < view_.instrs().size(); ++i)
      if (view_.instrs()[i].boundary)
        landings.push_back(
            {i, add(raw_.instrs[raw_index(i)], kRaw.jump_backward, 0, static_cast<int32_t>(own_[raw_index(i)]))});
    const std::vector<bool> behind_loops = view_.behind_loops();
    for (const SiteItems& site : sites)
      if (view_.is_loop_head(site.instr) || behind_loops[site.instr])
        asking_landings.push_back({site.instr, add(raw_.instrs[raw_index(site.instr)], kRaw.jump_backward, 0,
                                                   static_cast<int32_t>(site.switch_item))});
    // The farthest: their arguments have room for all others.
    const auto last = static_cast<int32_t>(writer.items.size() - 1);
    for (uint32_t jump : {pad.entry, pad.out}) writer.items[jump].target = last;
  }

  // Targets of the user's jumps and handlers become items.
  void connect() {
    for (uint32_t i = 0; i < raw_.instrs.size(); ++i)
      if (raw_.instrs[i].target >= 0)
        writer.items[own_[i]].target = static_cast<int32_t>(entry_[raw_.instrs[i].target]);
    for (const RawHandler& handler : raw_.handlers)
      writer.handlers.push_back({entry_[handler.target], handler.depth, handler.lasti});
  }

  RawCode raw_;
  const CodeView& view_;
  uint32_t region_const_;
  int16_t most_pops_ = 0;
  std::size_t sites_;
  std::vector<int64_t> site_of_raw_;   // -1: there is none
  std::vector<uint32_t> entry_, own_;  // raw index -> first item (its site's, if it has one), item of the instruction
  std::vector<uint32_t> to_pad_;
};

Ref<> bytes_of(const std::string& s) {
  return Ref<>::steal(PyBytes_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

/// Writes the jump in front of a site of `code`, also for frames that run it already: one byte, under the GIL.
void write_switch(PyCodeObject* code, const SiteTable& table, const SiteTable::Switch& at) {
  py::set_argument(code, at.unit, at.dormant || table.jumps > 0 ? at.distance : 0);
  py::copy_jump(code, at.unit);
}

/// The region's table if the code is spliced, or null.
SiteTable* table_in(PyCodeObject* code) {
  const Py_ssize_t count = PyTuple_GET_SIZE(code->co_consts);
  PyObject* last = count > 0 ? PyTuple_GET_ITEM(code->co_consts, count - 1) : nullptr;
  return last && is_region(last) && table_of(last).code == code ? &table_of(last) : nullptr;
}

}  // namespace

bool is_spliced(PyCodeObject* code) { return table_in(code) != nullptr; }

namespace {

PyObject* user_code(PyCodeObject* code) {
  const SiteTable* table = table_in(code);
  return table ? table->user.get() : nullptr;
}

/// The analysis in front of a debugger's jump wants one stack for each instruction, however it is reached. The pad has
/// none, so meanwhile nothing leads there, nor from there to an exit.
void hide_sites(PyCodeObject* code, int change) {
  SiteTable* table = table_in(code);
  if (!table) return;
  table->jumps += change;
  clear_pad(*table);
  for (const SiteTable::Switch& at : table->switches) write_switch(code, *table, at);
}

class Spliced final : public SplicedCode {
 public:
  Spliced(std::shared_ptr<SiteTable> table, Ref<PyCodeObject> code) : table_(std::move(table)), code_(std::move(code)) {
    for (const SiteTable::Site& site : table_->sites) sites_.push_back(site.instr);
  }

  ~Spliced() override {
    std::shared_ptr<SiteHandler> handler = std::move(table_->handler);
    if (table_->busy > 0) table_->retired = std::move(handler);
  }

  PyCodeObject* code() const override { return code_.get(); }
  std::span<const uint32_t> sites() const override { return sites_; }

  void set_dormant(uint32_t site_instr, bool dormant) override {
    const auto found = std::lower_bound(sites_.begin(), sites_.end(), site_instr);
    FRAMEJIT_CHECK(found != sites_.end() && *found == site_instr, "no site there");
    SiteTable::Switch& at = table_->switches[static_cast<std::size_t>(found - sites_.begin())];
    at.dormant = dormant;
    write_switch(code_.get(), *table_, at);
  }

 private:
  std::shared_ptr<SiteTable> table_;
  Ref<PyCodeObject> code_;
  std::vector<uint32_t> sites_;  // in order
};

std::vector<uint32_t> choose_sites(const CodeView& view, const SpliceOptions& options) {
  std::vector<uint32_t> sites;
  if (options.all_boundaries) {
    for (uint32_t i = 0; i < view.instrs().size(); ++i)
      if (view.instrs()[i].boundary) sites.push_back(i);
    return sites;
  }
  std::set<uint32_t> chosen;
  for (uint32_t i : default_sites(view)) chosen.insert(i);
  for (uint32_t i : options.extra_sites)
    if (i < view.instrs().size() && view.instrs()[i].boundary) chosen.insert(i);
  sites.assign(chosen.begin(), chosen.end());
  return sites;
}

std::string why_not(const CodeView& view) {
  constexpr std::size_t kMostInstructions = 200000;
  PyCodeObject* code = view.code();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i)
    if (is_region(PyTuple_GET_ITEM(code->co_consts, i))) return "the code is spliced already";
  if (view.instrs().size() > kMostInstructions) return "the code is too long";
  bool any = false;
  for (const Instr& instr : view.instrs()) {
    if (instr.op == Opcode::Unknown) return "the code has an instruction that is not known";
    if (instr.depth > code->co_stacksize) return "the code uses more stack than it declares";
    any |= instr.boundary;
  }
  return any ? "" : "the code has no place where a region may begin";
}

/// The user's constants and the region.
Ref<> extended_consts(PyCodeObject* code, PyObject* region) {
  const Py_ssize_t count = PyTuple_GET_SIZE(code->co_consts);
  Ref<> consts = Ref<>::steal(PyTuple_New(count + 1));
  if (!consts) return consts;
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(consts.get(), i, Ref<>::share(PyTuple_GET_ITEM(code->co_consts, i)).release());
  PyTuple_SET_ITEM(consts.get(), count, Ref<>::share(region).release());
  return consts;
}

Ref<PyCodeObject> new_code(PyCodeObject* code, const WrittenCode& written, PyObject* region) {
  if (!region) return {};
  Ref<> consts = extended_consts(code, region);
  Ref<> bytecode = bytes_of(written.code);
  Ref<> linetable = bytes_of(written.linetable);
  Ref<> exceptiontable = bytes_of(written.exceptiontable);
  if (!consts || !bytecode || !linetable || !exceptiontable) return {};
  auto made = Ref<PyCodeObject>::steal(py::code_like(
      code, bytecode.get(), linetable.get(), exceptiontable.get(), consts.get(),
      code->co_stacksize + (has_reserved_stack(code) ? 0 : SplicedCode::kExtraStack), code->co_flags, code->co_names));
  if (made) py::prepare_soon(made.get());
  return made;
}

}  // namespace

Expected<std::unique_ptr<SplicedCode>, std::string> SplicedCode::make(std::shared_ptr<const CodeView> view,
                                                                      std::shared_ptr<SiteHandler> handler,
                                                                      const SpliceOptions& options) {
  if (std::string reason = why_not(*view); !reason.empty()) return Unexpected{std::move(reason)};
  PyCodeObject* user = view->code();
  const auto consts = static_cast<uint32_t>(PyTuple_GET_SIZE(user->co_consts));
  const Layout layout(*view, choose_sites(*view, options), consts);
  WrittenCode written = layout.writer.write(user->co_firstlineno);

  auto table = std::make_shared<SiteTable>();
  const std::size_t count = view->instrs().size();
  const auto unit_of = [&](uint32_t item) { return written.offsets[item]; };
  table->handler = std::move(handler);
  table->site_at.assign(written.code.size() / 2, SiteTable::kNoQuestion);
  table->landing.assign(count, -1);
  table->asking_landing.assign(count, -1);
  for (uint32_t i = 0; i < count; ++i) {
    table->depth.push_back(view->instrs()[i].depth);
    table->own_unit.push_back(unit_of(layout.own_item(i)));
  }
  for (const auto& [instr, item] : layout.landings) table->landing[instr] = static_cast<int32_t>(unit_of(item));
  for (const auto& [instr, item] : layout.asking_landings)
    table->asking_landing[instr] = static_cast<int32_t>(unit_of(item));
  for (const Layout::SiteItems& site : layout.sites) {
    table->site_at[unit_of(site.question_item)] = static_cast<int32_t>(table->sites.size());
    table->sites.push_back({site.instr, view->last_of_nest(site.instr), view->instrs()[site.instr].depth});
    const uint32_t from = unit_of(site.switch_item);
    const uint32_t distance = unit_of(site.raw_item) - from - 1;
    FRAMEJIT_CHECK(distance < 256, "a site is longer than a short jump");
    table->switches.push_back({from, static_cast<uint8_t>(distance)});
    written.code[2 * from + 1] = static_cast<char>(distance);
  }
  table->site_at[unit_of(layout.pad.question)] = SiteTable::kWritesPushed;
  table->pad = {{unit_of(layout.pad.entry), unit_of(layout.pad.entry + 1)},
                {unit_of(layout.pad.out), unit_of(layout.pad.out + 1)},
                unit_of(layout.pad.pops_end),
                unit_of(layout.pad.pushes_end)};
  // Both jumps lead to the RETURN_VALUE behind them.
  for (const PatchedJump& jump : {table->pad.entry, table->pad.out})
    for (uint32_t unit = jump.unit; unit < jump.end; ++unit) written.code[2 * unit + 1] = 0;
  Ref<> region = make_region(table);
  Ref<PyCodeObject> code = new_code(user, written, region.get());
  if (!code) {
    PyErr_Clear();
    return Unexpected{std::string("out of memory")};
  }
  table->code = code.get();
  table->user = Ref<>::steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(user), nullptr));
  if (!table->user) PyErr_Clear();
  // Until 3.13 a debugger's jump reads the bytes that CPython makes here and keeps: they have no way into the pad
  // either.
  Ref<>::steal(PyCode_GetCode(code.get()));
  for (const SiteTable::Switch& at : table->switches) write_switch(code.get(), *table, at);
  py::set_user_code(user_code);
  watch_debugger_jumps([](PyCodeObject* jumping) { hide_sites(jumping, +1); },
                       [](PyCodeObject* jumping) { hide_sites(jumping, -1); });
  return std::unique_ptr<SplicedCode>(std::make_unique<Spliced>(std::move(table), std::move(code)));
}

}  // namespace framejit::capture
