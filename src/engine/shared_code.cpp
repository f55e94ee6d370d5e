#include "engine/shared_code.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "ir/form_key.h"

namespace lathe::engine {
namespace {

// The first request of a kernel is compiled by itself and leaves nothing behind, like all kernels of a
// program of fixed sizes; the second is remembered; from the third on, sizes share code.
constexpr int kRemembered = 2, kShared = 3;
// Options that suit one size are not far from the best for another with up to so many times the work.
constexpr double kSimilarWork = 16;
// Sizes of one form that are remembered: the oldest that has no code goes.
constexpr std::size_t kMostSizes = 32;
// A process with more kernels or forms than this begins again.
constexpr std::size_t kMostRequests = 1 << 16, kMostForms = 1 << 13;

std::size_t differences(const std::vector<FormNumber>& x, const std::vector<FormNumber>& y) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) count += x[i] != y[i] ? 1 : 0;
  return count;
}

}  // namespace

std::optional<std::vector<Opt>> beside_outputs(std::span<const Opt> options) {
  std::vector<Opt> left;
  for (const Opt& opt : options) {
    if (opt.op == OptOp::UPCAST || opt.op == OptOp::THREAD) continue;
    if (opt.op != OptOp::STAGE) return std::nullopt;
    left.push_back(opt);
  }
  return left;
}

KernelSizes& SharedCodes::request(Node kernel, const std::string& choice, std::uint64_t call) {
  if (requests_.size() > kMostRequests) requests_.clear();
  KernelSizes& sizes = requests_[hash_combine(form_key(kernel), hash_string(choice))];
  if (sizes.last_call != call) {
    ++sizes.calls;
    sizes.last_call = call;
  }
  return sizes;
}

std::vector<Opt> SharedCodes::options_for(KernelSizes& sizes, std::vector<Opt> chosen, double work) {
  const std::optional<std::vector<Opt>> beside = beside_outputs(chosen);
  if (sizes.calls < kRemembered || !beside) return chosen;
  for (const KernelSizes::Options& known : sizes.options) {
    const bool similar = work <= kSimilarWork * known.work && known.work <= kSimilarWork * work;
    if (similar && beside_outputs(known.list) == beside) return known.list;
  }
  sizes.options.push_back({chosen, work});
  return chosen;
}

SharedCodes::Form& SharedCodes::form_of_words(std::vector<std::uint64_t> words, const std::string& choice) {
  std::vector<Form>& all = forms_[hash_span(std::span<const std::uint64_t>(words))];
  for (Form& form : all)
    if (form.words == words && form.choice == choice) return form;
  ++form_count_;
  return all.emplace_back(Form{choice, std::move(words), {}});
}

CodeForSize SharedCodes::find(const Program& program, const std::string& choice, const KernelSizes& sizes) {
  if (sizes.calls < kRemembered) return {};
  std::optional<ProgramForm> wanted = form_of(program);
  if (!wanted) return {};
  Form& form = form_of_words(std::move(wanted->words), choice);
  for (Size& size : form.sizes) {
    if (size.code == nullptr) continue;
    if (auto arguments = arguments_for(size.code->open, wanted->numbers))
      return {size.code, *std::move(arguments)};
  }
  // What varies is what differs from an earlier call: kernels of one call are of different layers.
  const Size* nearest = nullptr;
  std::size_t least = 0;
  for (const Size& size : form.sizes) {
    if (size.call == sizes.last_call) continue;
    const std::size_t count = differences(size.numbers, wanted->numbers);
    if (nearest != nullptr && count >= least) continue;
    nearest = &size;
    least = count;
  }
  Size made{wanted->numbers, nullptr, sizes.last_call};
  CodeForSize result;
  if (sizes.calls >= kShared && nearest != nullptr && least > 0) {
    if (auto open = open_program(program, *wanted, nearest->numbers,
                                 nearest->code != nullptr ? &nearest->code->open : nullptr)) {
      auto arguments = arguments_for(*open, wanted->numbers);
      check_internal(arguments.has_value(), "engine", "code made for a size does not take it");
      made.code = std::make_shared<SharedCode>();
      made.code->open = *std::move(open);
      result = {made.code, *std::move(arguments)};
    }
  }
  if (form.sizes.size() >= kMostSizes) {
    const auto old = std::ranges::find_if(form.sizes, [](const Size& size) { return size.code == nullptr; });
    form.sizes.erase(old != form.sizes.end() ? old : form.sizes.begin());
  }
  form.sizes.push_back(std::move(made));
  return result;
}

std::vector<std::shared_ptr<SharedCode>> SharedCodes::take_unused() {
  std::vector<std::shared_ptr<SharedCode>> unused;
  if (form_count_ < kMostForms) return unused;
  for (auto& [hash, forms] : forms_)
    for (Form& form : forms)
      for (Size& size : form.sizes)
        if (size.code != nullptr) unused.push_back(std::move(size.code));
  clear();
  return unused;
}

void SharedCodes::clear() {
  requests_.clear();
  forms_.clear();
  form_count_ = 0;
}

}  // namespace lathe::engine
