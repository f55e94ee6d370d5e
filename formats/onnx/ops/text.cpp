// Strings: evaluated on the host.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

std::string changed_case(std::string text, const std::string& how) {
  for (char& ch : text) {
    const auto byte = static_cast<unsigned char>(ch);
    if (how == "LOWER") ch = static_cast<char>(std::tolower(byte));
    if (how == "UPPER") ch = static_cast<char>(std::toupper(byte));
  }
  return text;
}

Outputs normalize(const Call& c) {
  const Strings& in = c.value(0).strings();
  const std::string change = c.text("case_change_action", "NONE");
  const bool exact = c.integer("is_case_sensitive", 0) != 0;
  const std::vector<std::string> stop = c.texts("stopwords");
  const auto is_stopped = [&](const std::string& word) {
    return std::any_of(stop.begin(), stop.end(), [&](const std::string& s) {
      return exact ? s == word : changed_case(s, "LOWER") == changed_case(word, "LOWER");
    });
  };
  Strings out;
  for (const std::string& word : in.values)
    if (!is_stopped(word)) out.values.push_back(changed_case(word, change));
  if (out.values.empty()) out.values.emplace_back();  // a tensor of one empty string, as the operator says
  out.shape = {static_cast<std::int64_t>(out.values.size())};
  if (in.shape.size() == 2) out.shape.insert(out.shape.begin(), 1);
  return {out};
}

Outputs concat(const Call& c) {
  const Strings &a = c.value(0).strings(), &b = c.value(1).strings();
  const std::size_t na = a.values.size(), nb = b.values.size();
  if (a.shape != b.shape && na != 1 && nb != 1) c.not_supported("strings of these shapes are not broadcast");
  Strings out{na >= nb ? a.shape : b.shape, {}};
  for (std::size_t i = 0; i < std::max(na, nb); ++i)
    out.values.push_back(a.values[na == 1 ? 0 : i] + b.values[nb == 1 ? 0 : i]);
  return {out};
}

std::vector<std::string> split_text(const std::string& text, const std::string& by, std::int64_t most) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  const bool blanks = by.empty();
  while (true) {
    if (blanks) at = std::min(text.find_first_not_of(" \t\n\r\f\v", at), text.size());
    if (blanks && at == text.size()) break;
    std::size_t end = blanks ? text.find_first_of(" \t\n\r\f\v", at) : text.find(by, at);
    if (end == std::string::npos || static_cast<std::int64_t>(parts.size()) == most) {
      parts.push_back(text.substr(at));
      break;
    }
    parts.push_back(text.substr(at, end - at));
    at = end + (blanks ? 1 : by.size());
  }
  return parts;
}

Outputs split(const Call& c) {
  const Strings& in = c.value(0).strings();
  const std::int64_t most = c.integer("maxsplit", std::numeric_limits<std::int64_t>::max());
  std::vector<std::vector<std::string>> rows;
  std::size_t widest = 0;
  std::vector<std::int64_t> counts;
  for (const std::string& text : in.values) {
    rows.push_back(split_text(text, c.text("delimiter", ""), most));
    widest = std::max(widest, rows.back().size());
    counts.push_back(static_cast<std::int64_t>(rows.back().size()));
  }
  Strings out{in.shape, {}};
  out.shape.push_back(static_cast<std::int64_t>(widest));
  for (auto& row : rows) {
    row.resize(widest);
    out.values.insert(out.values.end(), row.begin(), row.end());
  }
  const Shape shape(in.shape.begin(), in.shape.end());
  return {out, counts.empty() ? Tensor::empty(shape, {.dtype = dtypes::int64, .device = c.device()})
                              : c.constant(counts, shape)};
}

Outputs full_match(const Call& c) {
  const Strings& in = c.value(0).strings();
  std::vector<Size> found;
  try {
    const std::regex pattern(c.text("pattern"), std::regex::ECMAScript);
    constexpr std::size_t kLongest = 4096;  // the matcher recurses over its text
    for (const std::string& text : in.values) {
      if (text.size() > kLongest)
        c.not_supported(fmt::format("a string of {} bytes is longer than {}", text.size(), kLongest));
      found.emplace_back(std::regex_match(text, pattern) ? 1 : 0);
    }
  } catch (const std::regex_error& error) {
    c.fail(fmt::format("the pattern is not read: {}", error.what()));
  }
  return {make_known(dtypes::bool_, in.shape, found)};
}

// Counts of n-grams, with gaps of up to max_skip_count, weighted by frequency in the way `mode` says.
Outputs tf_idf(const Call& c) {
  const std::int64_t least = c.integer("min_gram_length"), most = c.integer("max_gram_length"),
                     skips = c.integer("max_skip_count");
  const std::string mode = c.text("mode");
  const Numbers starts = c.ints("ngram_counts"), places = c.ints("ngram_indexes"),
                pool_ints = c.ints("pool_int64s");
  const std::vector<std::string> pool_texts = c.texts("pool_strings");
  const std::vector<double> weights = c.floats("weights");
  const bool texts = c.value(0).kind() == Value::Kind::Strings;
  std::vector<std::string> words;
  Numbers shape;
  if (texts) {
    words = c.value(0).strings().values;
    shape = c.value(0).strings().shape;
  } else {
    for (std::int64_t v : c.ints(std::size_t(0))) words.push_back(std::to_string(v));
    shape = concrete_shape(c.x(0), c);
  }
  std::vector<std::string> pool = pool_texts;
  for (std::int64_t v : pool_ints) pool.push_back(std::to_string(v));
  // The grams of each length are together in the pool.
  std::map<std::vector<std::string>, std::size_t> grams;
  std::size_t next = 0;
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const auto begin = starts[k],
               end = k + 1 < starts.size() ? starts[k + 1] : static_cast<std::int64_t>(pool.size());
    const auto length = static_cast<std::int64_t>(k) + 1;
    if (begin < 0 || end < begin || end > static_cast<std::int64_t>(pool.size()) ||
        (end - begin) % length != 0)
      c.fail("ngram_counts do not fit the pool");
    for (std::int64_t at = begin; at < end; at += length)
      grams[{pool.begin() + at, pool.begin() + at + length}] = next++;
  }
  if (places.size() != next) c.fail(fmt::format("{} indexes for {} n-grams", places.size(), next));
  std::int64_t width = 0;
  for (std::int64_t p : places) {
    if (p < 0 || p > (1 << 24)) c.fail("an n-gram index is out of range");
    width = std::max(width, p + 1);
  }
  const std::int64_t rows = shape.size() == 2 ? shape[0] : 1, columns = shape.empty() ? 1 : shape.back();
  if (rows * width > (std::int64_t(1) << 28)) c.fail("the result is too large");
  std::vector<double> out(static_cast<std::size_t>(rows * width));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t n = least; n <= std::min(most, columns); ++n)
      for (std::int64_t skip = 0; skip <= (n == 1 ? 0 : skips); ++skip)
        for (std::int64_t at = 0; at + (n - 1) * (skip + 1) < columns; ++at) {
          std::vector<std::string> gram;
          for (std::int64_t k = 0; k < n; ++k)
            gram.push_back(words[static_cast<std::size_t>(r * columns + at + k * (skip + 1))]);
          const auto found = grams.find(gram);
          if (found != grams.end()) out[static_cast<std::size_t>(r * width + places[found->second])] += 1;
        }
  for (std::size_t g = 0; g < places.size(); ++g)
    for (std::int64_t r = 0; r < rows; ++r) {
      double& v = out[static_cast<std::size_t>(r * width + places[g])];
      const double weight = g < weights.size() ? weights[g] : 1.0;
      if (mode == "IDF") v = v > 0 ? weight : 0;
      if (mode == "TFIDF") v *= weight;
    }
  Shape result = {width};
  if (shape.size() == 2) result.insert(result.begin(), Size(rows));
  return {c.constant(out, result, dtypes::float32)};
}

// clang-format off
const OpRow kRows[] = {
    {"StringNormalizer", 10, normalize}, {"StringConcat", 20, concat}, {"StringSplit", 20, split},
    {"RegexFullMatch", 20, full_match}, {"TfIdfVectorizer", 9, tf_idf},
};
// clang-format on

}  // namespace

Outputs equal_strings(const Call& c) {
  const Strings &a = c.value(0).strings(), &b = c.value(1).strings();
  const std::size_t na = a.values.size(), nb = b.values.size();
  if (a.shape != b.shape && na != 1 && nb != 1) c.not_supported("strings of these shapes are not broadcast");
  std::vector<Size> out;
  for (std::size_t i = 0; i < std::max(na, nb); ++i)
    out.emplace_back(a.values[na == 1 ? 0 : i] == b.values[nb == 1 ? 0 : i] ? 1 : 0);
  return {make_known(dtypes::bool_, na >= nb ? a.shape : b.shape, out)};
}

OpTable text_ops() { return {"", "strings", kRows}; }

}  // namespace lathe::onnx
