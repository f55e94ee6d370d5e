// Random programs of views, reads and writes over a few storages, against plain arrays that are changed at
// once (R6).
#include <random>

#include "support/fuzz.h"
#include "tensor/values.h"

namespace lathe {
namespace {

// A view of the model: positions in a base array.
struct ModelView {
  std::size_t base;
  std::vector<std::size_t> at;
  std::vector<std::int64_t> shape;
};

// A tensor beside what it must be: a view (which follows its base) or a value that was computed once.
struct Both {
  Tensor tensor;
  ModelView view;
  std::vector<double> value;  // where it is no view
  bool is_view = true;
};

class Program {
 public:
  explicit Program(unsigned seed) : random_(seed) {
    for (std::size_t b = 0; b < 2; ++b) {
      std::vector<double> data(12);
      for (double& v : data) v = static_cast<double>(pick(100));
      ModelView all{b, {}, {3, 4}};
      for (std::size_t i = 0; i < data.size(); ++i) all.at.push_back(i);
      things_.push_back({Tensor(data, {3, 4}), all, {}, true});
      bases_.push_back(data);
    }
  }

  void run(int steps) {
    for (int s = 0; s < steps; ++s) step();
    for (std::size_t i = 0; i < things_.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "thing " << i << " after\n" << log_);
      testing::expect_values(things_[i].tensor, values_of(things_[i]));
    }
  }

 private:
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  Both& any() { return things_[pick(things_.size())]; }
  Both& any_view() {
    while (true)
      if (Both& t = any(); t.is_view) return t;
  }
  std::vector<double> values_of(const Both& t) const {
    if (!t.is_view) return t.value;
    std::vector<double> out;
    for (std::size_t p : t.view.at) out.push_back(bases_[t.view.base][p]);
    return out;
  }

  // A part, turned or reversed, of a view of two axes.
  void add_view() {
    const Both from = any_view();
    const std::int64_t rows = from.view.shape[0], columns = from.view.shape[1];
    ModelView v{from.view.base, {}, {}};
    Tensor t;
    switch (pick(3)) {
      case 0:
        t = from.tensor.T();
        v.shape = {columns, rows};
        for (std::int64_t c = 0; c < columns; ++c)
          for (std::int64_t r = 0; r < rows; ++r)
            v.at.push_back(from.view.at[static_cast<std::size_t>(r * columns + c)]);
        break;
      case 1:
        t = from.tensor.flip(1);
        v.shape = {rows, columns};
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = columns; c-- > 0;)
            v.at.push_back(from.view.at[static_cast<std::size_t>(r * columns + c)]);
        break;
      default: {
        const auto first = static_cast<std::int64_t>(pick(static_cast<std::size_t>(columns)));
        const auto last =
            first + 1 + static_cast<std::int64_t>(pick(static_cast<std::size_t>(columns - first)));
        const std::int64_t step = 1 + static_cast<std::int64_t>(pick(2));
        t = from.tensor.getitem({Slice{}, Slice{first, last, step}});
        v.shape = {rows, (last - first + step - 1) / step};
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = first; c < last; c += step)
            v.at.push_back(from.view.at[static_cast<std::size_t>(r * columns + c)]);
      }
    }
    log_ += "  view of base " + std::to_string(v.base) + " " + to_string(t.shape()) + "\n";
    things_.push_back({t, v, {}, true});
  }

  void add_value() {
    const Both from = any();
    std::vector<double> value = values_of(from);
    for (double& v : value) v = v * 2 + 1;
    log_ += "  value\n";
    things_.push_back({from.tensor * 2 + 1, {0, {}, from.view.shape}, value, false});
  }

  // view = f(another of the same shape), or a number: everything is read before anything is written.
  void write() {
    Both to = any_view();
    std::vector<double> value = values_of(to);
    Tensor source;
    for (int tries = 0; tries < 5 && !source.defined(); ++tries) {
      const Both& from = any();
      if (from.view.shape != to.view.shape) continue;
      std::vector<double> theirs = values_of(from);
      for (std::size_t i = 0; i < value.size(); ++i) value[i] = std::fmod(value[i] + 3 * theirs[i], 1000);
      source = (to.tensor + from.tensor * 3).fmod(1000);
    }
    if (!source.defined()) {
      for (double& v : value) v = std::fmod(v + 7, 1000);
      source = (to.tensor + 7).fmod(1000);
    }
    to.tensor.assign(source);
    for (std::size_t i = 0; i < value.size(); ++i) bases_[to.view.base][to.view.at[i]] = value[i];
    log_ += "  write to base " + std::to_string(to.view.base) + " " + to_string(to.tensor.shape()) + "\n";
  }

  void step() {
    switch (pick(8)) {
      case 0:
      case 1: add_view(); break;
      case 2:
      case 3: add_value(); break;
      case 4:
        any().tensor.realize();
        log_ += "  realize\n";
        break;
      default: write();
    }
  }

  std::mt19937 random_;
  std::vector<std::vector<double>> bases_;
  std::vector<Both> things_;
  std::string log_;
};

TEST(AssignFuzz, RandomProgramsOfWritesMatchPlainArrays) {
  for (test::FuzzSeeds seeds(40); seeds.next();) {
    SCOPED_TRACE(::testing::Message() << "FUZZ_SEED=" << seeds.seed());
    Program(static_cast<unsigned>(seeds.seed())).run(14);
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace lathe
