// Protobuf's wire format, as far as ONNX files use it: a cursor over the fields of one message. It reads
// through a Source in small pieces, so that weights stay in the file, and checks every length against the
// message that holds it. Nothing is allocated by a number from the file before that many bytes were seen in
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/source.h"

namespace lathe::onnx {

// A part of the file: bytes that are left where they are.
struct FileRange {
  std::uint64_t offset = 0, count = 0;
};

class Wire {
 public:
  explicit Wire(const formats::Source& source);

  // Moves to the next field, past whatever of the one before was not read; false at the end of the message.
  bool next();
  int field() const { return field_; }

  // The value of the field. Each refuses a field that is encoded as something else.
  std::int64_t integer();
  float number();
  std::string text();
  FileRange range();
  Wire message();

  // A repeated field: one element, or several packed together.
  void append_integers(std::vector<std::int64_t>& to);
  void append_floats(std::vector<float>& to);
  void append_doubles(std::vector<double>& to);

  // Throws a refusal that names the file and the byte.
  [[noreturn]] void refuse(const std::string& why) const;
  const formats::Source& source() const { return file_->source; }

 private:
  // The file and the piece of it that was read last; shared by the cursors of nested messages.
  struct File {
    formats::Source source;
    std::uint64_t start = 0;
    std::vector<std::byte> piece;
    std::uint8_t byte_at(std::uint64_t offset);
  };
  Wire(std::shared_ptr<File> file, FileRange range, int depth);

  std::uint64_t varint();
  std::uint64_t fixed(int bytes);
  void expect(int encoding, std::string_view what) const;
  template <class T>
  void append_fixed(std::vector<T>& to, int encoding);

  std::shared_ptr<File> file_;  // shared: a cursor of a nested message outlives no other
  std::uint64_t at_ = 0, end_ = 0;
  std::uint64_t value_end_ = 0;  // where the field's value ends; at_ is moved there by next()
  int field_ = 0, encoding_ = 0, depth_ = 0;
};

}  // namespace lathe::onnx
