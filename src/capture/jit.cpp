#include "lathe/jit.h"

#include <fmt/format.h>

#include <mutex>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "base/planted.h"
#include "capture/trace.h"
#include "ir/build.h"
#include "tensor/impl.h"
#include "tensor/realize.h"
#include "tensor/settle.h"

namespace lathe {
namespace {

// Traces that may differ from the one before, because state was still being made, until that is refused.
constexpr int kMostTraces = 4;

// What holds for all operations of the program and shows in no graph until one is built.
struct Ambient {
  bool training = Tensor::training();
  DataType float_dtype = dtypes::default_float(), int_dtype = dtypes::default_int();
  std::string device = default_device();

  void check(const Ambient& now) const {
    auto differs = [](std::string_view what, std::string_view here, std::string_view there) {
      throw JitError("jit", fmt::format("{} is {}, captured with {}", what, here, there))
          .help("call reset() to capture again, or capture one function for each");
    };
    if (training != now.training)
      differs("training mode", now.training ? "on" : "off", training ? "on" : "off");
    if (float_dtype != now.float_dtype)
      differs("the default float dtype", now.float_dtype.name(), float_dtype.name());
    if (int_dtype != now.int_dtype)
      differs("the default integer dtype", now.int_dtype.name(), int_dtype.name());
    if (device != now.device) differs("the default device", now.device, device);
  }
};

std::string kind_text(const capture::Argument& a) {
  return fmt::format("{} {} on {}", shape_text(a.view->shape()), a.view->dtype().name(), a.device);
}

}  // namespace

struct Jit::Impl {
  SizedFunction function;  // empty for a loaded program
  std::optional<capture::Trace> last;
  std::optional<capture::Captured> program;
  std::vector<NodeRef> written;
  std::vector<bool> written_arguments;
  OutsideReads outside;            // read by the function, not by reference
  std::optional<Ambient> ambient;  // none for a loaded program
  int traces = 0;
  std::mutex mutex;  // calls from several threads follow one another

  bool writes_argument(std::size_t i) const { return i < written_arguments.size() && written_arguments[i]; }

  void set_program(capture::Captured made) {
    program = std::move(made);
    written = program->written_states();
    written_arguments.assign(program->arguments.size(), false);
    for (const capture::Source& source : program->written())
      if (source.kind == capture::Source::Kind::Argument) written_arguments[source.index] = true;
  }

  void check_arguments(const capture::CallArguments& given) const {
    const capture::Captured& p = *program;
    if (given.kinds.size() != p.arguments.size())
      throw JitError("jit", fmt::format("{} arguments were given, captured with {}", given.kinds.size(),
                                        p.arguments.size()));
    for (std::size_t i = 0; i < p.arguments.size(); ++i) {
      const capture::Argument &now = given.kinds[i], &then = p.arguments[i];
      if (now.weak != then.weak)
        throw JitError("jit", fmt::format("argument {} is {}, captured with {}", i,
                                          now.weak ? "a number" : "a tensor with a strong dtype",
                                          then.weak ? "a number" : "a tensor with a strong dtype"))
            .help("cast() makes the dtype strong");
      if (!(now.view == then.view) || now.device != then.device)
        throw JitError("jit",
                       fmt::format("argument {} is {}, captured with {}", i, kind_text(now), kind_text(then)))
            .help("call reset() to capture again; a size that changes can be a Variable");
      if (now.same_as != then.same_as)
        throw JitError("jit", fmt::format("argument {} {} the memory of another, which it {} when captured",
                                          i, now.same_as == i ? "does not share" : "shares",
                                          now.same_as == i ? "did" : "did not"))
            .help("clone() the argument");
    }
    bool same = given.bound.size() == p.variables.size();
    for (std::size_t i = 0; same && i < p.variables.size(); ++i)
      same = given.bound[i].first == p.variables[i];
    if (same) return;
    std::string now, then;
    for (const auto& [v, value] : given.bound) now += " " + v->text();
    for (const NodeRef& v : p.variables) then += " " + v->text();
    throw JitError("jit", fmt::format("the arguments bind the variables{}, captured with{}",
                                      now.empty() ? " none" : now, then.empty() ? " none" : then));
  }

  // A tensor that is a constant is part of the program, as a number is: the call would not see a new value.
  // Nor would it see that a tensor was given other memory.
  void check_outside() const {
    if (ambient) ambient->check(Ambient());
    if (const std::shared_ptr<TensorImpl> replaced = replaced_handle(outside))
      throw JitError("jit",
                     fmt::format("a tensor that the function reads, {}, was replaced since it was captured",
                                 describe(Tensor(replaced))))
          .help("assign() to it, which keeps its memory, or reset() the function");
    const OutsideReads::Constant* changed = changed_constant(outside);
    if (changed == nullptr) return;
    throw JitError("jit",
                   fmt::format("a constant tensor that the function reads, {} {}, was changed or replaced "
                               "since it was captured",
                               shape_text(changed->value->shape()), changed->value->dtype().name()))
        .help("pass it as an argument, or give it memory before the first call: contiguous().realize()");
  }

  std::vector<Tensor> run_captured(const capture::CallArguments& given) {
    check_arguments(given);
    check_outside();
    settle_memory(written);
    const Scope scope;
    std::vector<Node> buffers(given.buffers.begin(), given.buffers.end());
    std::vector<Tensor> out;
    if (planted(Fault::StaleCapture)) {
      static const std::vector<NodeRef> kFirst = given.buffers;
      buffers.assign(kFirst.begin(), kFirst.end());
    }
    const std::vector<NodeRef> values = capture::replay(*program, buffers, given.bound);
    std::vector<NodeRef> changed = written;
    for (const capture::Source& source : program->written())
      if (source.kind == capture::Source::Kind::Argument) changed.push_back(given.buffers[source.index]);
    rename_memory(changed, false);
    for (std::size_t i = 0; i < values.size(); ++i)
      out.push_back(make_tensor(values[i], program->outputs[i].device));
    return out;
  }

  std::vector<Tensor> run_traced(const capture::CallArguments& given, const std::vector<Size>& bound) {
    // What others still read of the memory it writes is no part of it.
    if (last) settle_memory(last->program.written_states());
    capture::Trace now = capture::trace(given, [&] { return function(given.tensors, bound); }, traces == 0);
    ++traces;
    std::vector<Tensor> outputs = std::move(now.outputs);
    now.outputs.clear();
    if (last) {
      const std::optional<std::string> why = difference(*last, now);
      if (!why) {
        set_program(capture::joined(std::move(now.program)));
        outside = std::move(now.outside);
        ambient.emplace();
        last.reset();
        return outputs;
      }
      if (traces >= kMostTraces)
        throw JitError("jit", fmt::format("the function cannot be captured: {}", *why))
            .help("assign to tensors instead of replacing them, and pass what changes as arguments");
    }
    last = std::move(now);
    return outputs;
  }
};

Jit::Jit(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Jit::Jit(SizedFunction function) : impl_(std::make_unique<Impl>()) { impl_->function = std::move(function); }
Jit::Jit(Function function)
    : Jit(SizedFunction([f = std::move(function)](const std::vector<Tensor>& in, const std::vector<Size>&) {
        return f(in);
      })) {}
Jit::Jit(Jit&&) noexcept = default;
Jit& Jit::operator=(Jit&&) noexcept = default;
Jit::~Jit() = default;

std::vector<Tensor> Jit::operator()(const std::vector<Tensor>& inputs, const std::vector<Size>& bound) {
  // Part of the outer capture, or of none.
  if (impl_->function && (capture::tracing() || !flag_on(Flag::Capture)))
    return impl_->function(inputs, bound);
  std::lock_guard guard(impl_->mutex);
  // What is traced tells arguments from state by their memory; what is replayed only writes to it.
  const capture::CallArguments given = capture::call_arguments(
      inputs, bound, [&](std::size_t i) { return !impl_->program || impl_->writes_argument(i); });
  return impl_->program ? impl_->run_captured(given) : impl_->run_traced(given, bound);
}

bool Jit::captured() const { return impl_->program.has_value(); }

std::size_t Jit::kernels() const {
  std::size_t count = 0;
  if (impl_->program)
    for (const capture::Computation& c : impl_->program->computations) count += c.prepared->steps.size();
  return count;
}

void Jit::reset() {
  if (!impl_->function) throw JitError("jit", "a loaded program cannot be traced again");
  impl_->last.reset();
  impl_->program.reset();
  impl_->written.clear();
  impl_->outside = {};
  impl_->ambient.reset();
  impl_->traces = 0;
}

void Jit::save(const std::filesystem::path& file) const {
  if (!impl_->program)
    throw JitError("jit", "nothing is captured yet").help("call the function twice before save()");
  settle_memory({});
  write_file_atomic(file.string(), capture::to_bytes(*impl_->program));
}

Jit Jit::load(const std::filesystem::path& file) {
  const std::optional<std::string> bytes = read_file(file.string());
  if (!bytes) throw MissingFile("jit", "there is no file " + file.string());
  auto impl = std::make_unique<Impl>();
  impl->set_program(capture::from_bytes(*bytes));
  return Jit(std::move(impl));
}

}  // namespace lathe
