#include "search/tuned_options.h"

#include <fmt/format.h>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "codegen/codegen.h"
#include "engine/kernels.h"
#include "search/search.h"
#include "search/space.h"
#include "search/store.h"

namespace lathe::search {
namespace {

// Nothing computes what the kernel says. No reason to go on, unlike all other failures of a search.
struct NoRightKernel : InternalError {
  explicit NoRightKernel(const InternalError& error) : InternalError(error) {}
};

std::optional<Tuned> searched(const engine::KernelRequest& request, const std::string& key) {
  Limits limits;
  limits.beam = static_cast<int>(flag_number(Flag::Beam));
  limits.seconds = static_cast<double>(flag_number(Flag::BeamSeconds));
  if (limits.seconds <= 0) return std::nullopt;
  Progress bar("lathe: tuning " + request.name, static_cast<std::int64_t>(limits.seconds * 1e3),
               {.passing = true});
  const Result result = search_kernel(
      {request.ast, request.name, request.device, {}}, limits, [&](double seconds, const Result& now) {
        bar.update(static_cast<std::int64_t>(std::min(seconds, limits.seconds) * 1e3),
                   fmt::format("{} tried, best {}", now.tried, human_seconds(now.best_ns * 1e-9)));
      });
  const std::string repro = result.repros.empty() ? "it could not be saved" : result.repros[0];
  if (result.unusable)
    throw NoRightKernel(InternalError("search", fmt::format("kernel {}: {}", request.name, result.why))
                            .note("repro: " + repro));
  if (!result.distrusted.empty())
    log_warning_once("search",
                     fmt::format("the default options of kernel {} are not used, they differ from REF: {} "
                                 "(repro: {})",
                                 request.name, result.distrusted, repro));
  if (!result.searched) {
    log_warning_once("search", fmt::format("kernel {} is not searched: {}", request.name, result.why));
    if (result.distrusted.empty()) return std::nullopt;
  }
  Tuned tuned{result.options, result.keeps_default(), result.default_ns, result.best_ns, result.seconds};
  keep_tuned(key, tuned);
  return tuned;
}

// The options for a kernel, or nothing where the default is best or nothing can be found out: a program must
// not fail because it could not be made faster.
std::optional<std::vector<Opt>> options_for(const engine::KernelRequest& request) {
  if (request.device->compiler == nullptr || request.device->backend->name == "NULL") return std::nullopt;
  try {
    const std::string key = store_key(request.ast, *request.device);
    std::optional<Tuned> tuned = find_tuned(key);
    if (!tuned) tuned = searched(request, key);
    if (!tuned || tuned->is_default) return std::nullopt;
    if (!allowed(request.ast, tuned->options, request.device->compiler->target(), {})) return std::nullopt;
    return tuned->options;
  } catch (const NoRightKernel&) {
    throw;
  } catch (const Error& error) {
    log_warning_once("search", fmt::format("no search: {}", error.message()));
    return std::nullopt;
  }
}

}  // namespace

void install() {
  static const bool done = [] {
    engine::set_option_source(options_for);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace lathe::search
