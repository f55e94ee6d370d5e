#include "engine/fallback.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/kernel_check.h"
#include "engine/repro.h"

namespace lathe::engine {
namespace {

// Nothing where the heuristic itself fails: what is wrong with the kernel may be wrong with the choice.
std::optional<std::vector<Opt>> options_without(const MadeKernel& wrong, const Target& target,
                                                const std::vector<std::string>& rules) {
  Compile compile = compile_for(target);
  compile.rules.disabled.insert(compile.rules.disabled.end(), rules.begin(), rules.end());
  try {
    return choose_options(wrong.ast, compile);
  } catch (const InternalError&) {
    return std::nullopt;
  }
}

// The kernel with the attempt's options, or nothing: an option that it does not take after all, or one that
// the fault we look for makes something malformed of.
std::optional<ReadyKernel> make(const Trial& trial, const Attempt& attempt, OpenDevice& device) {
  const KernelRequest request{trial.step().ast, trial.step().name, &device, attempt.options};
  try {
    return ready_kernels({&request, 1})[0];
  } catch (const UserError&) {
  } catch (const InternalError&) {
  } catch (const CompileError&) {
  }
  return std::nullopt;
}

std::string options_text(const MadeKernel& made) {
  const std::string text = to_string(made.options);
  return text.empty() ? "no options" : fmt::format("options {} ({})", text, made.options_from);
}

// Puts it in the place of the wrong kernel, with what is known of it: with variables, other options have
// other kinds of sizes.
void take_over(const ReadyKernel& other, const ReadyKernel& wrong, const OpenDevice& device,
               const FallbackContext& context) {
  std::lock_guard guard(other.check->mutex);
  CheckRecord& record = other.check->record;
  if (context.whole && other.made->launch.variables.empty()) {
    std::lock_guard sizes(other.check->sizes_mutex);
    record.sizes[0].settled = true;
  }
  record.replaced = options_text(*wrong.made);
  if (record.settled() && check_mode() != CheckMode::All) other.check->due = false;
  replace_kernel(wrong, other, device);
}

InternalError difference(const Trial& trial, const ReadyKernel& wrong, const Outcome& outcome,
                         const std::string& repro) {
  InternalError error("check", fmt::format("kernel {} with {} differs from REF: {}", trial.step().name,
                                           options_text(*wrong.made), outcome.text));
  error.note("it came from " + trial.step().origin);
  if (!repro.empty())
    error.note("kernel, options and elements are in " + repro)
        .help("lathe investigate " + repro + " finds out which step is wrong");
  return error;
}

}  // namespace

std::vector<Attempt> attempts(const MadeKernel& wrong, const Target& target) {
  std::vector<Attempt> out;
  auto add = [&](std::optional<std::vector<Opt>> chosen, std::string what) {
    if (!chosen) return;
    std::vector<Opt>& options = *chosen;
    const auto known = [&](const Attempt& a) { return a.options == options; };
    if (options == wrong.options || std::any_of(out.begin(), out.end(), known)) return;
    if (options.empty()) what = "without options";
    out.push_back({std::move(options), std::move(what)});
  };
  if (wrong.options_from != "heuristic")
    add(options_without(wrong, target, {}), "with the heuristic's options");
  std::vector<std::string> others;
  std::vector<std::string_view> needed;
  for (const HeuristicRule& rule : heuristic_rules()) {
    if (rule.needed) {
      needed.emplace_back(rule.name);
      continue;
    }
    others.emplace_back(rule.name);
    add(options_without(wrong, target, {rule.name}), fmt::format("without rule {}", rule.name));
  }
  add(options_without(wrong, target, others), fmt::format("with only the rules {}", fmt::join(needed, ", ")));
  add(std::vector<Opt>{}, "");
  return out;
}

ReadyKernel fall_back(Trial& trial, const ReadyKernel& wrong, OpenDevice& device, const Outcome& outcome,
                      const FallbackContext& context) {
  trial.disown_fault();
  const std::string repro = write_repro(trial, *wrong.made, device, outcome);
  if (check_mode() == CheckMode::Strict)
    throw difference(trial, wrong, outcome, repro)
        .help("LATHE_CHECK=first runs a kernel with fewer options instead and warns");
  if (!context.repeatable)
    throw difference(trial, wrong, outcome, repro)
        .note("it overwrites so much of its input that no copy was kept to run another kernel on")
        .help("LATHE_NOOPT=1 runs kernels without options");
  const Scope scope;
  for (const Attempt& attempt : attempts(*wrong.made, device.compiler->target())) {
    const std::optional<ReadyKernel> other = make(trial, attempt, device);
    if (!other || other->entry == wrong.entry) continue;
    trial.restore();
    trial.launch(*other);
    // Samples that may be roundings, or of which nothing is known, do not show that it is right.
    if (const Outcome now = trial.compare(*other); now.failed > 0 || now.passed == 0) continue;
    take_over(*other, wrong, device, context);
    log_warning_once("check",
                     fmt::format("kernel {} with {} differed from REF ({}); it now runs {}, and the "
                                 "results are right{}",
                                 trial.step().name, options_text(*wrong.made), outcome.text, attempt.what,
                                 repro.empty() ? "" : "; why: lathe investigate " + repro));
    return *other;
  }
  trial.disown_fault();
  throw difference(trial, wrong, outcome, repro).note("it also does with other options and with none");
}

}  // namespace lathe::engine
