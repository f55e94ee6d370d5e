#include "formats/onnx/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace lathe::onnx {
namespace {

constexpr int kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5;
constexpr int kDeepest = 64;
constexpr std::uint64_t kPiece = 64 * 1024;

constexpr const char* kEncodingNames[] = {"a varint", "8 bytes",       "a length and bytes",
                                          "a group",  "a group's end", "4 bytes"};

}  // namespace

std::uint8_t Wire::File::byte_at(std::uint64_t offset) {
  if (offset < start || offset - start >= piece.size()) {
    start = offset;
    piece = source.read(offset, std::min(kPiece, source.size() - offset), "a field");
  }
  return static_cast<std::uint8_t>(piece[offset - start]);
}

Wire::Wire(const formats::Source& source)
    : Wire(std::make_shared<File>(File{source, 0, {}}), {0, source.size()}, 0) {}

Wire::Wire(std::shared_ptr<File> file, FileRange range, int depth)
    : file_(std::move(file)),
      at_(range.offset),
      end_(range.offset + range.count),
      value_end_(range.offset),
      depth_(depth) {
  if (depth_ > kDeepest) refuse(fmt::format("messages are nested deeper than {}", kDeepest));
}

void Wire::refuse(const std::string& why) const { throw file_->source.refuse_at(at_, why); }

std::uint64_t Wire::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ >= end_) refuse("the message is truncated inside a number");
    const std::uint8_t byte = file_->byte_at(at_++);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  refuse("a number has more than 64 bits");
}

std::uint64_t Wire::fixed(int bytes) {
  if (end_ - at_ < static_cast<std::uint64_t>(bytes)) refuse("the message is truncated inside a number");
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(file_->byte_at(at_++)) << (8 * i);
  return value;
}

bool Wire::next() {
  at_ = value_end_;
  if (at_ >= end_) return false;
  const std::uint64_t tag = varint();
  encoding_ = static_cast<int>(tag & 7);
  if ((tag >> 3) == 0 || (tag >> 3) > 0x1fffffff) refuse("a field has a number that protobuf does not allow");
  field_ = static_cast<int>(tag >> 3);
  const std::uint64_t start = at_;
  switch (encoding_) {
    case kVarint:
      varint();
      value_end_ = at_;
      at_ = start;
      return true;
    case kEightBytes: value_end_ = at_ + 8; break;
    case kFourBytes: value_end_ = at_ + 4; break;
    case kLength: {
      const std::uint64_t count = varint();
      if (count > end_ - at_)
        refuse(fmt::format("field {} claims {} bytes, its message has {} left", field_, count, end_ - at_));
      value_end_ = at_ + count;
      return true;
    }
    default: refuse(fmt::format("field {} has encoding {}, which ONNX does not use", field_, encoding_));
  }
  if (value_end_ > end_) refuse("the message is truncated inside a number");
  return true;
}

void Wire::expect(int encoding, std::string_view what) const {
  if (encoding_ != encoding)
    refuse(
        fmt::format("field {} is encoded as {}, {} was expected", field_, kEncodingNames[encoding_], what));
}

std::int64_t Wire::integer() {
  expect(kVarint, "a varint");
  return static_cast<std::int64_t>(varint());
}

float Wire::number() {
  expect(kFourBytes, "4 bytes");
  return std::bit_cast<float>(static_cast<std::uint32_t>(fixed(4)));
}

FileRange Wire::range() {
  expect(kLength, "a length and bytes");
  return {at_, value_end_ - at_};
}

std::string Wire::text() {
  const FileRange bytes = range();
  std::string out(bytes.count, '\0');
  file_->source.read_into(out.data(), bytes.offset, bytes.count, "a string");
  return out;
}

Wire Wire::message() { return Wire(file_, range(), depth_ + 1); }

void Wire::append_integers(std::vector<std::int64_t>& to) {
  if (encoding_ == kVarint) {
    to.push_back(integer());
    return;
  }
  expect(kLength, "a list of varints");
  const std::uint64_t whole_end = std::exchange(end_, value_end_);
  while (at_ < end_) to.push_back(static_cast<std::int64_t>(varint()));
  end_ = whole_end;
}

template <class T>
void Wire::append_fixed(std::vector<T>& to, int encoding) {
  if (encoding_ != encoding) {
    const FileRange bytes = range();
    if (bytes.count % sizeof(T) != 0)
      refuse(fmt::format("a list of {}-byte numbers has {} bytes", sizeof(T), bytes.count));
    const std::size_t before = to.size();
    to.resize(before + bytes.count / sizeof(T));
    file_->source.read_into(to.data() + before, bytes.offset, bytes.count, "a list of numbers");
    return;
  }
  const std::uint64_t bits = fixed(sizeof(T));
  T value;
  std::memcpy(&value, &bits, sizeof(T));  // the low byte is first on this machine
  to.push_back(value);
}

void Wire::append_floats(std::vector<float>& to) { append_fixed(to, kFourBytes); }
void Wire::append_doubles(std::vector<double>& to) { append_fixed(to, kEightBytes); }

}  // namespace lathe::onnx
