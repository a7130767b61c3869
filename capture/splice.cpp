// Rewriting of a code object: sites in front of the user's instructions, landings and the shared pad behind them.
//
//   site in front of k:  JUMP_FORWARD 0            dormant: over the next three
//                        LOAD_CONST region
//                        UNARY_INVERT
//                        POP_JUMP_FORWARD_IF_TRUE go
//                        raw k                     jumps to k come to the site
//   go:                  PUSH_NULL; LOAD_CONST goto; PRECALL 0; CALL 0; RETURN_VALUE
//   landing of exit e:   POP_TOP                   the goto's None
//                        JUMP_BACKWARD raw e
#include "capture/py/frame.h"

#include "capture/splice.h"

#include <algorithm>
#include <map>
#include <set>

#include "capture/code_writer.h"
#include "capture/splice_region.h"
#include "graph/support/check.h"

#if FRAMEJIT_CAN_SPLICE

namespace framejit::capture {

namespace {

uint8_t raw(int op) { return static_cast<uint8_t>(op); }

/// The items of the rewritten code, and where things are among them.
class Layout {
 public:
  Layout(const CodeView& view, const std::vector<uint32_t>& chosen, uint32_t region_const, uint32_t goto_const)
      : raw_(view.code()), view_(view), region_const_(region_const), goto_const_(goto_const) {
    for (uint32_t site : chosen) site_of_raw_[raw_index(site)] = site;
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

  std::vector<std::pair<uint32_t, uint32_t>> landings;  // Instr index, item of its POP_TOP

 private:
  uint32_t raw_index(uint32_t instr) const {
    return static_cast<uint32_t>(raw_.index_of[view_.instrs()[instr].offset]);
  }

  uint32_t add(const RawInstr& like, int op, uint32_t arg = 0, int32_t target = -1) {
    writer.items.push_back({raw(op), arg, target, like.handler, like.position, 0});
    return static_cast<uint32_t>(writer.items.size() - 1);
  }

  void copy_user_code() {
    entry_.resize(raw_.instrs.size());
    own_.resize(raw_.instrs.size());
    for (uint32_t i = 0; i < raw_.instrs.size(); ++i) {
      const RawInstr& instr = raw_.instrs[i];
      entry_[i] = static_cast<uint32_t>(writer.items.size());
      if (auto found = site_of_raw_.find(i); found != site_of_raw_.end()) {
        const uint32_t jump = add(instr, kRaw.jump_forward, 0, static_cast<int32_t>(writer.items.size()) + 1);
        add(instr, kRaw.load_const, region_const_);
        const uint32_t question = add(instr, kRaw.unary_invert);
        to_pad_.push_back(add(instr, kRaw.pop_jump_forward_if_true));
        sites.push_back({found->second, jump, question, question + 2});
      }
      own_[i] = static_cast<uint32_t>(writer.items.size());
      writer.items.push_back({instr.op, instr.arg, instr.target, instr.handler, instr.position, instr.prefixes});
    }
  }

  void add_pad() {
    const RawInstr nowhere;  // no position, no handler
    const uint32_t pad = static_cast<uint32_t>(writer.items.size());
    for (uint32_t item : to_pad_) writer.items[item].target = static_cast<int32_t>(pad);
    if (!kNullBehindCallable) add(nowhere, kRaw.push_null);
    add(nowhere, kRaw.load_const, goto_const_);
    if (kNullBehindCallable) add(nowhere, kRaw.push_null);
    if (kRaw.precall >= 0) add(nowhere, kRaw.precall);
    add(nowhere, kRaw.call);
    add(nowhere, kRaw.return_value);
  }

  void add_landings() {
    for (uint32_t i = 0; i < view_.instrs().size(); ++i) {
      if (!view_.instrs()[i].boundary) continue;
      const RawInstr& exit = raw_.instrs[raw_index(i)];
      landings.push_back({i, add(exit, kRaw.pop_top)});
      add(exit, kRaw.jump_backward, 0, static_cast<int32_t>(own_[raw_index(i)]));
    }
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
  uint32_t region_const_, goto_const_;
  std::map<uint32_t, uint32_t> site_of_raw_;
  std::vector<uint32_t> entry_, own_;  // raw index -> first item (its site's, if it has one), item of the instruction
  std::vector<uint32_t> to_pad_;
};

Ref<> bytes_of(const std::string& s) {
  return Ref<>::steal(PyBytes_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

/// The argument byte of a site's JUMP_FORWARD, and what makes the site dormant.
struct Switch {
  uint32_t unit;
  uint8_t distance;
};

class Spliced final : public SplicedCode {
 public:
  Spliced(std::shared_ptr<SiteTable> table, Ref<PyCodeObject> code, std::vector<uint32_t> sites,
          std::map<uint32_t, Switch> switches)
      : table_(std::move(table)), code_(std::move(code)), sites_(std::move(sites)), switches_(std::move(switches)) {}

  ~Spliced() override {
    std::shared_ptr<SiteHandler> handler = std::move(table_->handler);
    if (table_->busy > 0) table_->retired = std::move(handler);
  }

  PyCodeObject* code() const override { return code_.get(); }
  std::span<const uint32_t> sites() const override { return sites_; }

  void set_dormant(uint32_t site_instr, bool dormant) override {
    const auto found = switches_.find(site_instr);
    FRAMEJIT_CHECK(found != switches_.end(), "no site there");
    // One byte, under the GIL; also seen by frames that run this code already.
    *py::live_argument(code_.get(), found->second.unit) = dormant ? found->second.distance : 0;
  }

 private:
  std::shared_ptr<SiteTable> table_;
  Ref<PyCodeObject> code_;
  std::vector<uint32_t> sites_;
  std::map<uint32_t, Switch> switches_;
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

/// The user's constants, the region and the goto.
Ref<> extended_consts(PyCodeObject* code, PyObject* region, PyObject* go) {
  const Py_ssize_t count = PyTuple_GET_SIZE(code->co_consts);
  Ref<> consts = Ref<>::steal(PyTuple_New(count + 2));
  if (!consts) return consts;
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(consts.get(), i, Ref<>::share(PyTuple_GET_ITEM(code->co_consts, i)).release());
  PyTuple_SET_ITEM(consts.get(), count, Ref<>::share(region).release());
  PyTuple_SET_ITEM(consts.get(), count + 1, Ref<>::share(go).release());
  return consts;
}

Ref<PyCodeObject> new_code(PyCodeObject* code, const WrittenCode& written, PyObject* region) {
  PyObject* go = goto_function();
  if (!go || !region) return {};
  Ref<> consts = extended_consts(code, region, go);
  Ref<> bytecode = bytes_of(written.code);
  Ref<> linetable = bytes_of(written.linetable);
  Ref<> exceptiontable = bytes_of(written.exceptiontable);
  if (!consts || !bytecode || !linetable || !exceptiontable) return {};
  return Ref<PyCodeObject>::steal(py::code_like(code, bytecode.get(), linetable.get(), exceptiontable.get(),
                                                consts.get(), code->co_stacksize + SplicedCode::kExtraStack,
                                                code->co_flags));
}

}  // namespace

Expected<std::unique_ptr<SplicedCode>, std::string> SplicedCode::make(std::shared_ptr<const CodeView> view,
                                                                      std::shared_ptr<SiteHandler> handler,
                                                                      const SpliceOptions& options) {
  if (std::string reason = why_not(*view); !reason.empty()) return Unexpected{std::move(reason)};
  PyCodeObject* user = view->code();
  const auto consts = static_cast<uint32_t>(PyTuple_GET_SIZE(user->co_consts));
  const Layout layout(*view, choose_sites(*view, options), consts, consts + 1);
  const WrittenCode written = layout.writer.write(user->co_firstlineno);

  auto table = std::make_shared<SiteTable>();
  const std::size_t count = view->instrs().size();
  table->handler = std::move(handler);
  table->site_at.assign(written.code.size() / 2, -1);
  table->landing.assign(count, -1);
  for (uint32_t i = 0; i < count; ++i) {
    table->depth.push_back(view->instrs()[i].depth);
    table->own_unit.push_back(written.offsets[layout.own_item(i)]);
  }
  for (const auto& [instr, item] : layout.landings) table->landing[instr] = static_cast<int32_t>(written.offsets[item]);
  std::vector<uint32_t> sites;
  std::map<uint32_t, Switch> switches;
  for (const Layout::SiteItems& site : layout.sites) {
    table->site_at[written.offsets[site.question_item]] = static_cast<int32_t>(table->sites.size());
    table->sites.push_back({site.instr, view->instrs()[site.instr].depth});
    const uint32_t from = written.offsets[site.switch_item];
    const uint32_t distance = written.offsets[site.raw_item] - from - 1;
    FRAMEJIT_CHECK(distance < 256, "a site is longer than a short jump");
    switches[site.instr] = {from, static_cast<uint8_t>(distance)};
    sites.push_back(site.instr);
  }
  Ref<> region = make_region(table);
  Ref<PyCodeObject> code = new_code(user, written, region.get());
  if (!code) {
    PyErr_Clear();
    return Unexpected{std::string("out of memory")};
  }
  table->code = code.get();
  return std::unique_ptr<SplicedCode>(
      std::make_unique<Spliced>(std::move(table), std::move(code), std::move(sites), std::move(switches)));
}

}  // namespace framejit::capture

#endif
