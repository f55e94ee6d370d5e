// Tensors as text, in the layout of the Python package (python/lathe/printing.py).
#include "lathe/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include "lathe/error.h"
#include "lathe/index.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

constexpr std::int64_t kThreshold = 1000;  // elements that are shown in full
constexpr std::int64_t kEdge = 3;          // of each end of an axis where there are more
constexpr std::size_t kWidth = 100;        // columns
constexpr int kDigits = 4;                 // after the point

template <class T>
struct Shown {
  std::vector<T> values;
  std::vector<std::int64_t> shape;  // with only the ends of the axes that are cut
};

// Each corner is computed by itself: what several parts of one computation share would be computed entirely.
template <class T>
Shown<T> corners(const Tensor& x, const std::vector<bool>& cut, std::size_t axis) {
  while (axis < cut.size() && !cut[axis]) ++axis;
  if (axis == cut.size()) {
    Shown<T> out{x.contiguous().template data<T>(), {}};
    for (const Size& n : x.shape()) out.shape.push_back(n.value());
    return out;
  }
  const std::int64_t n = x.size(static_cast<std::int64_t>(axis));
  std::vector<std::pair<Size, Size>> head, tail;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const std::int64_t size = x.size(static_cast<std::int64_t>(i));
    head.emplace_back(0, i == axis ? kEdge : size);
    tail.emplace_back(i == axis ? n - kEdge : 0, size);
  }
  const Shown<T> a = corners<T>(x.shrink(head), cut, axis + 1), b = corners<T>(x.shrink(tail), cut, axis + 1);
  Shown<T> out;
  out.shape = a.shape;
  out.shape[axis] = 2 * kEdge;
  std::int64_t inner = kEdge;
  for (std::size_t i = axis + 1; i < a.shape.size(); ++i) inner *= a.shape[i];
  const auto step = static_cast<std::ptrdiff_t>(inner);
  for (auto p = a.values.begin(), q = b.values.begin(); p != a.values.end(); p += step, q += step) {
    out.values.insert(out.values.end(), p, p + step);
    out.values.insert(out.values.end(), q, q + step);
  }
  return out;
}

std::string whole(double v) {
  return std::isnan(v) ? "nan" : std::isinf(v) ? (v < 0 ? "-inf" : "inf") : fmt::format("{:.0f}.", v);
}

// Digits after the point that tell the value from its neighbours, at most kDigits.
int digits_of(double v, bool single) {
  char text[64];
  const auto end = single ? std::to_chars(text, text + sizeof text, static_cast<float>(v)).ptr
                          : std::to_chars(text, text + sizeof text, v).ptr;
  double shortest = 0;
  std::from_chars(text, end, shortest);
  std::string cut = fmt::format("{:.{}f}", shortest, kDigits);
  cut.erase(cut.find_last_not_of('0') + 1);
  return static_cast<int>(cut.size() - cut.find('.') - 1);
}

std::vector<std::string> words(const std::vector<double>& values, bool single) {
  double most = 0, least = HUGE_VAL;
  bool all_whole = true;
  int digits = 1;
  for (double v : values)
    if (std::isfinite(v) && v != 0) {
      most = std::max(most, std::abs(v)), least = std::min(least, std::abs(v));
      if (v == std::trunc(v)) continue;
      all_whole = false;
      digits = std::max(digits, digits_of(v, single));
    }
  const bool scientific = most > 0 && (most >= 1e8 || least < std::pow(10.0, -kDigits) || most / least > 1e5);
  std::vector<std::string> out;
  for (double v : values)
    out.push_back(!std::isfinite(v) || (all_whole && !scientific) ? whole(v)
                  : scientific                                    ? fmt::format("{:.{}e}", v, kDigits)
                                                                  : fmt::format("{:.{}f}", v, digits));
  return out;
}

class Layout {
 public:
  Layout(std::vector<std::string> words, std::vector<std::int64_t> shape, std::vector<bool> cut)
      : words_(std::move(words)), shape_(std::move(shape)), cut_(std::move(cut)) {
    for (const std::string& w : words_) width_ = std::max(width_, w.size());
  }

  std::string text(std::size_t indent) {
    if (shape_.empty()) return words_.at(0);
    return rows(0, indent, 1);
  }

 private:
  std::string rows(std::size_t axis, std::size_t indent, std::size_t tail) {
    if (axis + 1 == shape_.size()) return row(indent, tail);
    const std::string between =
        "," + std::string(shape_.size() - axis - 1, '\n') + std::string(indent + 1, ' ');
    std::string out = "[";
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (i > 0) out += between;
      if (cut_[axis] && i == kEdge) out += "..." + between;
      out += rows(axis + 1, indent + 1, 0);
    }
    return out + "]";
  }

  std::string row(std::size_t indent, std::size_t tail) {
    std::vector<std::string> line_words;
    for (std::int64_t i = 0; i < shape_.back(); ++i) {
      if (cut_.back() && i == kEdge) line_words.emplace_back("...");
      line_words.push_back(fmt::format("{:>{}}", words_.at(next_++), width_));
    }
    std::string out = "[", line;
    for (std::size_t i = 0; i < line_words.size(); ++i) {
      const bool last = i + 1 == line_words.size();
      const std::string piece = line_words[i] + (last ? "" : ",");
      if (!line.empty() && line.size() + 1 + piece.size() > kWidth - indent - 1 - (last ? tail : 0)) {
        out += line + "\n" + std::string(indent + 1, ' ');
        line = piece;
      } else {
        line += (line.empty() ? "" : " ") + piece;
      }
    }
    return out + line + "]";
  }

  std::vector<std::string> words_;
  std::vector<std::int64_t> shape_;
  std::vector<bool> cut_;
  std::size_t width_ = 0, next_ = 0;
};

template <class T>
std::string values_text(const Tensor& x, const std::vector<bool>& cut, std::size_t indent) {
  Shown<T> shown = corners<T>(x, cut, 0);
  std::vector<std::string> texts;
  if constexpr (std::is_same_v<T, double>)
    texts = words(shown.values, x.dtype().bitsize() <= 32);
  else
    for (const T v : shown.values)
      if constexpr (std::is_same_v<T, bool>)
        texts.emplace_back(v ? "true" : "false");
      else
        texts.push_back(fmt::to_string(v));
  return Layout(std::move(texts), std::move(shown.shape), cut).text(indent);
}

std::string values_text(const Tensor& x, std::size_t indent) {
  std::int64_t count = 1;
  for (const Size& n : x.shape()) count *= n.value();
  if (count == 0) return "[]";
  std::vector<bool> cut;
  for (const Size& n : x.shape()) cut.push_back(count > kThreshold && n.value() > 2 * kEdge);
  const DataType dtype = x.dtype();
  return dtype.is_bool()       ? values_text<bool>(x, cut, indent)
         : dtype.is_float()    ? values_text<double>(x, cut, indent)
         : dtype.is_unsigned() ? values_text<std::uint64_t>(x, cut, indent)
                               : values_text<std::int64_t>(x, cut, indent);
}

std::string why_unknown(const Tensor& x) {
  if (x.device().starts_with("NULL")) return "this device computes nothing";
  for (const Size& n : x.shape())
    if (n.is_symbolic()) return "its size is symbolic";
  return {};
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "Tensor()";
  const std::string open = "Tensor(";
  const std::string facts =
      fmt::format("shape={}, dtype={}, device={}{}", to_string(tensor.shape()), tensor.dtype().name(),
                  tensor.device(), tensor.grad_wish() == std::optional(true) ? ", requires_grad=true" : "");
  std::string values, why = why_unknown(tensor);
  if (why.empty()) try {
      values = values_text(tensor.detach(), open.size());
    } catch (const Error& error) {  // what prints tensors goes on
      const std::string said = error.what();
      why = "not computed: " + said.substr(0, said.find('\n'));
    }
  if (!why.empty()) return fmt::format("<Tensor {}: {}>", facts, why);
  const std::size_t line = values.rfind('\n');
  const std::size_t last = line == std::string::npos ? open.size() + values.size() : values.size() - line - 1;
  const bool fits = last + 2 + facts.size() < kWidth;
  return open + values + "," + (fits ? " " : "\n" + std::string(open.size(), ' ')) + facts + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace lathe
