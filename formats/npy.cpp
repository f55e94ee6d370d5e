// The npy format: a magic word and version, a Python dict literal with dtype, order and shape, then the
// elements; an npz file is a zip archive of npy files.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "formats/zip.h"

namespace lathe::state {
namespace {

using formats::shown;
using formats::Source;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMostHeader = 1 << 16;
constexpr std::size_t kMostAxes = 64;

struct Code {
  std::string_view text;  // without the byte order
  DataType dtype;
};
constexpr std::array kCodes = {
    Code{"b1", dtypes::bool_},   Code{"i1", dtypes::int8},    Code{"u1", dtypes::uint8},
    Code{"i2", dtypes::int16},   Code{"u2", dtypes::uint16},  Code{"i4", dtypes::int32},
    Code{"u4", dtypes::uint32},  Code{"i8", dtypes::int64},   Code{"u8", dtypes::uint64},
    Code{"f2", dtypes::float16}, Code{"f4", dtypes::float32}, Code{"f8", dtypes::float64},
};

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<std::int64_t> shape;
  std::uint64_t data = 0;
};

// The dict literal, key by key. Only what numpy writes is understood; nothing is evaluated.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::uint64_t base, const Source& file)
      : text_(text), base_(base), file_(file) {}

  Header read() {
    std::optional<std::string> descr;
    std::optional<bool> fortran;
    std::optional<std::vector<std::int64_t>> shape;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr)
        descr = dtype_text();
      else if (key == "fortran_order" && !fortran)
        fortran = truth();
      else if (key == "shape" && !shape)
        shape = sizes();
      else
        throw refuse(fmt::format("the key \"{}\" does not belong here", shown(key)));
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    spaces();
    if (at_ != text_.size()) throw refuse("something follows the header");
    if (!descr || !fortran || !shape) throw refuse("the header lacks descr, fortran_order or shape");
    return {*descr, *fortran, *shape, 0};
  }

 private:
  UserError refuse(const std::string& why) const { return file_.refuse_at(base_ + at_, why); }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c))
      throw refuse(at_ >= text_.size()
                       ? "the header ends early"
                       : fmt::format("\"{}\" is where \"{}\" is expected", shown(text_.substr(at_, 1)), c));
  }
  std::string quoted() {
    spaces();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') throw refuse("a quoted word should stand here");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) throw refuse("a quoted word does not end");
    std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }
  std::string dtype_text() {
    spaces();
    if (at_ < text_.size() && text_[at_] == '[')
      throw refuse("the elements are records").help("save each field as an array of its own");
    return quoted();
  }
  bool truth() {
    spaces();
    for (const auto& [word, value] : {std::pair{"True", true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    throw refuse("fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> out;
    expect('(');
    while (!take(')')) {
      spaces();
      std::int64_t size = 0;
      const char* end = text_.data() + text_.size();
      const auto [stop, error] = std::from_chars(text_.data() + at_, end, size);
      if (error != std::errc() || size < 0) throw refuse("a size is not a number, or negative, or too large");
      at_ = static_cast<std::size_t>(stop - text_.data());
      take('L');  // numpy under Python 2 wrote 3L
      if (out.size() == kMostAxes) throw refuse("the array has more than 64 axes");
      out.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  std::string_view text_;
  std::uint64_t base_;
  const Source& file_;
  std::size_t at_ = 0;
};

Header read_header(const Source& file) {
  const std::vector<std::byte> start = file.read(0, 8, "the start of an npy file");
  if (std::string_view(reinterpret_cast<const char*>(start.data()), 6) != kMagic)
    throw file.refuse_at(0, "is not an npy file: it does not begin like one");
  const auto version = std::to_integer<unsigned>(start[6]);
  if (version < 1 || version > 3)
    throw file.refuse_at(6, fmt::format("is an npy file of version {}; 1 to 3 are read", version));
  const int width = version == 1 ? 2 : 4;
  const std::uint64_t length = file.number(8, width, "the header's length");
  const std::uint64_t begin = 8 + static_cast<std::uint64_t>(width);
  if (length > kMostHeader)
    throw file.refuse_at(8, fmt::format("the header's length is {}, the most is {}", length, kMostHeader));
  const std::vector<std::byte> raw = file.read(begin, length, "the header");
  Header header = HeaderReader({reinterpret_cast<const char*>(raw.data()), raw.size()}, begin, file).read();
  header.data = begin + length;
  return header;
}

struct Elements {
  DataType dtype;
  bool swapped;  // the high byte first
};

Elements elements_of(const std::string& descr, const Source& file) {
  const std::string_view code = std::string_view(descr).substr(descr.empty() ? 0 : 1);
  const char order = descr.empty() ? ' ' : descr[0];
  for (const Code& row : kCodes)
    if (row.text == code && std::string_view("<>|=").find(order) != std::string_view::npos)
      return {row.dtype, order == '>' && row.dtype.itemsize() > 1};
  UserError error =
      file.refuse(fmt::format("the elements are \"{}\", which has no dtype here", shown(descr)));
  if (code.starts_with('O')) error.help("objects are pickles; save the array with a dtype of numbers");
  if (code.starts_with('V'))
    error.help("bfloat16 and 8-bit floats have no npy dtype: use safetensors, or save them as integers");
  throw error;
}

Tensor read_array(const Source& file) {
  const Header header = read_header(file);
  const Elements elements = elements_of(header.descr, file);
  std::uint64_t bytes = 0, count = 0;
  std::vector<std::int64_t> sizes = header.shape;
  if (!formats::checked_bytes(sizes, elements.dtype.itemsize(), bytes, count))
    throw file.refuse("the shape's bytes cannot be counted in 63 bits");
  const std::uint64_t found = file.size() - header.data;
  if (found != bytes)
    throw file.refuse_at(
        header.data, fmt::format("the file {}: {} bytes of elements, shape {} of {} takes {}",
                                 found < bytes ? "is truncated" : "is too long", found,
                                 to_string(Shape(sizes.begin(), sizes.end())), elements.dtype.name(), bytes));
  if (header.fortran) std::reverse(sizes.begin(), sizes.end());
  const Shape shape(sizes.begin(), sizes.end());
  Tensor array;
  if (elements.swapped) {
    std::vector<std::byte> turned = file.read(header.data, bytes, "the elements");
    const auto width = static_cast<std::ptrdiff_t>(elements.dtype.itemsize());
    for (auto at = turned.begin(); at != turned.end(); at += width) std::reverse(at, at + width);
    array = Tensor::from_bytes(turned.data(), turned.size(), shape, elements.dtype);
  } else {
    array = file.view(header.data, elements.dtype, shape, count);
  }
  return header.fortran ? array.T() : array;
}

std::vector<std::byte> array_bytes(const Tensor& tensor, const std::string& name, const std::string& op) {
  formats::check_plain(tensor, name, op);
  const auto code = std::find_if(kCodes.begin(), kCodes.end(),
                                 [&](const Code& row) { return row.dtype == tensor.dtype(); });
  if (code == kCodes.end())
    throw UserError(op, fmt::format("{} is {}, which has no npy dtype", name, tensor.dtype().name()))
        .help("use safe_save, or cast or bitcast it first");
  std::string sizes;
  for (const Size& size : tensor.shape()) sizes += fmt::format("{}, ", size.value());
  if (sizes.size() > 2 && tensor.ndim() > 1) sizes.resize(sizes.size() - 2);
  if (tensor.ndim() == 1) sizes.pop_back();
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   tensor.element_size() == 1 ? '|' : '<', code->text, sizes);
  // The elements begin at a multiple of 64, and the header ends in a line break.
  constexpr std::size_t kStart = 10, kAlign = 64;
  header.resize((kStart + header.size() + 1 + kAlign - 1) / kAlign * kAlign - kStart - 1, ' ');
  header += '\n';
  std::string start(kMagic);
  start += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  start += header;
  std::vector<std::byte> bytes(start.size() + static_cast<std::size_t>(tensor.nbytes()));
  std::copy_n(reinterpret_cast<const std::byte*>(start.data()), start.size(), bytes.begin());
  tensor.copy_out(bytes.data() + start.size(), bytes.size() - start.size());
  return bytes;
}

}  // namespace

Tensor load_npy(const Bytes& from) { return read_array(Source(from, "load_npy")); }

void save_npy(const Tensor& tensor, const std::filesystem::path& to) {
  const std::vector<std::byte> bytes = array_bytes(tensor, "the tensor", "save_npy");
  formats::Output out(to, "save_npy");
  out.write(bytes);
  out.commit();
}

StateDict load_npz(const Bytes& from) {
  const formats::ZipReader zip(Source(from, "load_npz"));
  StateDict arrays;
  for (const formats::ZipMember& member : zip.members()) {
    if (member.is_folder()) continue;
    std::string_view key = member.name;
    if (key.ends_with(".npy")) key.remove_suffix(4);
    arrays.emplace_back(key, read_array(zip.source(member)));
  }
  return arrays;
}

void save_npz(const StateDict& tensors, const std::filesystem::path& to, bool compressed) {
  std::unordered_set<std::string> names;
  for (const auto& [name, tensor] : tensors)
    if (!names.insert(name).second)
      throw UserError("save_npz", fmt::format("two arrays have the name \"{}\"", shown(name)));
  formats::ZipWriter zip(to, "save_npz");
  for (const auto& [name, tensor] : tensors)
    zip.add(name + ".npy", array_bytes(tensor, name, "save_npz"), compressed);
  zip.finish();
}

}  // namespace lathe::state
