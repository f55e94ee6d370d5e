// A captured program as bytes: a head line, then parts, each a length, a line break and that many bytes.
// Graphs are in the text form with buffers numbered -1, -2, .. in the order of a table; state is followed by
// its contents. Kernels are kept as they were compiled; a process of another build or on another machine
// makes them again.
#include <fmt/format.h>

#include <charconv>

#include "base/env.h"
#include "base/error.h"
#include "capture/captured.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"

namespace lathe::capture {
namespace {

constexpr std::string_view kHead = "lathe captured program 4\n";

class Writer {
 public:
  void part(std::string_view bytes) {
    out += fmt::format("{}\n", bytes.size());
    out += bytes;
  }
  void number(std::int64_t value) { part(fmt::format("{}", value)); }
  void source(const Source& s) {
    number(static_cast<std::int64_t>(s.kind));
    number(s.index);
    number(s.target);
  }
  void buffer_kind(Node b) {
    part(b.dtype().str());
    number(buffer_size(b));
    part(buffer_device(b));
  }
  std::string out{kHead};
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {
    if (left_.substr(0, kHead.size()) != kHead)
      throw UserError("jit", "the file is not a captured program of this version");
    left_.remove_prefix(kHead.size());
  }
  std::string_view part() {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), size);
    const auto head = static_cast<std::size_t>(end - left_.data()) + 1;
    if (error != std::errc() || head > left_.size() || size > left_.size() - head) broken();
    const std::string_view bytes = left_.substr(head, size);
    left_.remove_prefix(head + size);
    return bytes;
  }
  std::int64_t number() {
    const std::string_view text = part();
    std::int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) broken();
    return value;
  }
  std::size_t count() {
    const std::int64_t n = number();
    if (n < 0 || static_cast<std::size_t>(n) > left_.size()) broken();
    return static_cast<std::size_t>(n);
  }
  Source source() {
    const std::int64_t kind = number();
    if (kind < 0 || kind > static_cast<std::int64_t>(Source::Kind::Fresh)) broken();
    Source s;
    s.kind = static_cast<Source::Kind>(kind);
    s.index = static_cast<std::uint32_t>(number());
    s.target = static_cast<std::uint32_t>(number());
    return s;
  }
  Node buffer_kind() {
    const auto dtype = parse_dtype(part());
    const std::int64_t size = number();
    if (!dtype || size < 0) broken();
    return new_buffer(*dtype, size, part());
  }
  [[noreturn]] static void broken() {
    throw UserError("jit", "the captured program is truncated or damaged");
  }

 private:
  std::string_view left_;
};

// Buffers by number, both ways.
class Buffers {
 public:
  std::size_t number_of(Node buffer) {
    auto [place, is_new] = places_.try_emplace(buffer, all.size());
    if (is_new) all.emplace_back(buffer);
    return *place;
  }
  Node numbered(Node graph) {
    NodeMap<Node> map;
    for (Node n : toposort(graph))
      if (n.is(Op::Buffer))
        map[n] = buffer_with_id(-1 - static_cast<std::int64_t>(number_of(n)), n.dtype(), buffer_size(n),
                                buffer_device(n));
    return substitute(graph, map);
  }
  static Node restored(Node graph, std::span<const NodeRef> all) {
    NodeMap<Node> map;
    for (Node n : toposort(graph))
      if (n.is(Op::Buffer)) {
        const std::int64_t place = -1 - n.ints()[0];
        if (place < 0 || place >= static_cast<std::int64_t>(all.size())) Reader::broken();
        map[n] = all[static_cast<std::size_t>(place)];
      }
    return substitute(graph, map);
  }
  std::vector<NodeRef> all;

 private:
  NodeMap<std::size_t> places_;
};

void write_computation(Writer& w, const Computation& c) {
  const engine::PreparedSchedule& prepared = *c.prepared;
  Buffers buffers;
  for (const NodeRef& slot : prepared.slots) buffers.number_of(slot);
  Writer body;
  body.number(static_cast<std::int64_t>(prepared.schedule.steps.size()));
  for (std::size_t i = 0; i < prepared.schedule.steps.size(); ++i) {
    const Step& step = prepared.schedule.steps[i];
    const engine::PreparedStep& ready = prepared.steps[i];
    body.part(step.is_copy() ? "" : print_graph(step.ast));
    body.part(step.is_copy() ? "" : engine::saved_kernel(ready.kernel, *ready.device));
    body.number(static_cast<std::int64_t>(step.buffers.size()));
    for (const NodeRef& b : step.buffers) body.number(static_cast<std::int64_t>(buffers.number_of(b)));
    body.number(step.from_offset);
    body.part(step.device);
    body.part(step.name);
    body.part(step.origin);
  }
  body.number(static_cast<std::int64_t>(prepared.schedule.results.size()));
  for (const NodeRef& r : prepared.schedule.results) body.part(print_graph(buffers.numbered(r)));

  w.number(static_cast<std::int64_t>(prepared.slots.size()));
  w.number(static_cast<std::int64_t>(buffers.all.size()));
  for (const NodeRef& b : buffers.all) w.buffer_kind(b);
  w.out += body.out.substr(kHead.size());
  for (const Source& s : c.slots) w.source(s);
  w.number(static_cast<std::int64_t>(c.bindings.size()));
  for (const auto& [variable, value] : c.bindings) {
    w.part(print_graph(variable));
    w.number(value);
  }
}

Computation read_computation(Reader& r) {
  const std::size_t slots = r.count(), count = r.count();
  if (slots > count) Reader::broken();
  std::vector<NodeRef> all;
  for (std::size_t i = 0; i < count; ++i) all.emplace_back(r.buffer_kind());
  Schedule schedule;
  schedule.steps.resize(r.count());
  std::vector<std::string_view> kernels;
  for (Step& step : schedule.steps) {
    const std::string_view ast = r.part();
    if (!ast.empty()) step.ast = parse_graph(ast);
    kernels.push_back(r.part());
    step.buffers.resize(r.count());
    for (NodeRef& b : step.buffers) {
      const std::size_t place = r.count();
      if (place >= all.size()) Reader::broken();
      b = all[place];
    }
    step.from_offset = r.number();
    step.device = r.part();
    step.name = r.part();
    step.origin = r.part();
  }
  schedule.results.resize(r.count());
  for (NodeRef& result : schedule.results) result = Buffers::restored(parse_graph(r.part()), all);
  Computation c;
  for (std::size_t i = 0; i < slots; ++i) c.slots.push_back(r.source());
  for (std::size_t n = r.count(); n > 0; --n) {
    Node variable = parse_graph(r.part());
    c.bindings.emplace_back(variable, r.number());
  }
  const std::vector<Node> stand_ins(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(slots));
  if (!flag_on(Flag::Capture)) kernels.clear();  // made anew
  c.prepared = engine::prepare_schedule(std::move(schedule), stand_ins, kernels);
  return c;
}

void check_source(const Captured& p, const Source& s, std::size_t computations) {
  const std::size_t limit = s.kind == Source::Kind::Argument ? p.arguments.size()
                            : s.kind == Source::Kind::State  ? p.states.size()
                            : s.kind == Source::Kind::Fresh  ? p.fresh.size()
                                                             : computations;
  if (s.index >= limit) Reader::broken();
  if (s.kind == Source::Kind::Result && s.target >= p.computations[s.index].prepared->schedule.results.size())
    Reader::broken();
}

}  // namespace

std::string to_bytes(const Captured& program) {
  const Scope scope;
  Writer w;
  w.number(static_cast<std::int64_t>(program.arguments.size()));
  for (const Argument& a : program.arguments) {
    w.part(print_graph(a.view));
    w.part(a.device);
    w.number(a.same_as);
    w.number(a.weak ? 1 : 0);
  }
  w.number(static_cast<std::int64_t>(program.variables.size()));
  for (const NodeRef& v : program.variables) w.part(print_graph(v));
  w.number(static_cast<std::int64_t>(program.states.size()));
  for (const NodeRef& state : program.states) {
    w.buffer_kind(state);
    std::string bytes(buffer_bytes(state), '\0');
    engine::buffer_to_host(state, bytes.data(), bytes.size());
    w.part(bytes);
  }
  w.number(static_cast<std::int64_t>(program.fresh.size()));
  for (const NodeRef& b : program.fresh) w.buffer_kind(b);
  w.number(static_cast<std::int64_t>(program.computations.size()));
  for (const Computation& c : program.computations) write_computation(w, c);
  w.number(static_cast<std::int64_t>(program.outputs.size()));
  for (const Output& o : program.outputs) {
    Buffers buffers;
    w.part(print_graph(buffers.numbered(o.value)));
    w.number(static_cast<std::int64_t>(buffers.all.size()));
    for (const NodeRef& b : buffers.all) w.buffer_kind(b);
    w.source(o.source);
    w.part(o.device);
  }
  return w.out;
}

Captured from_bytes(std::string_view bytes) {
  const Scope scope;
  Reader r(bytes);
  Captured p;
  p.arguments.resize(r.count());
  for (Argument& a : p.arguments) {
    a.view = parse_graph(r.part());
    a.device = r.part();
    a.same_as = static_cast<std::uint32_t>(r.number());
    a.weak = r.number() != 0;
  }
  p.variables.resize(r.count());
  for (NodeRef& v : p.variables) v = parse_graph(r.part());
  p.states.resize(r.count());
  for (NodeRef& state : p.states) {
    state = r.buffer_kind();
    const std::string_view contents = r.part();
    if (contents.size() != buffer_bytes(state)) Reader::broken();
    engine::buffer_write(state, contents.data(), contents.size());
  }
  p.fresh.resize(r.count());
  for (NodeRef& b : p.fresh) b = r.buffer_kind();
  const std::size_t computations = r.count();
  for (std::size_t k = 0; k < computations; ++k) {
    Computation c = read_computation(r);
    for (const Source& s : c.slots) check_source(p, s, k);
    p.computations.push_back(std::move(c));
  }
  p.outputs.resize(r.count());
  for (Output& o : p.outputs) {
    Node value = parse_graph(r.part());
    std::vector<NodeRef> buffers;
    for (std::size_t n = r.count(); n > 0; --n) buffers.emplace_back(r.buffer_kind());
    o.value = Buffers::restored(value, buffers);
    if (!buffers.empty()) o.stand_in = buffers.front();
    o.source = r.source();
    o.device = r.part();
    if (o.stand_in) check_source(p, o.source, p.computations.size());
  }
  return p;
}

}  // namespace lathe::capture
