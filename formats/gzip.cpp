#include "formats/gzip.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "lathe/error.h"

#if LATHE_HAVE_ZLIB
#include <zlib.h>
#endif

namespace lathe::formats {
namespace {

constexpr std::byte kGzipStart[] = {std::byte{0x1f}, std::byte{0x8b}};
constexpr std::size_t kPiece = std::size_t{1} << 20;

struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

std::vector<std::byte> read_raw(const std::filesystem::path& file, const char* op) {
  std::unique_ptr<std::FILE, CloseFile> in(std::fopen(file.c_str(), "rb"));
  if (!in) throw UserError(op, fmt::format("{} cannot be opened: {}", file.string(), std::strerror(errno)));
  std::vector<std::byte> bytes;
  for (std::size_t got = 1; got != 0;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kPiece);
    got = std::fread(bytes.data() + before, 1, kPiece, in.get());
    bytes.resize(before + got);
  }
  if (std::ferror(in.get()) != 0)
    throw UserError(op, fmt::format("{} cannot be read: {}", file.string(), std::strerror(errno)));
  return bytes;
}

#if LATHE_HAVE_ZLIB
struct EndInflate {
  void operator()(z_stream* s) const { inflateEnd(s); }
};

std::vector<std::byte> unpack(std::vector<std::byte> packed, const std::filesystem::path& file,
                              const char* op) {
  z_stream stream{};
  constexpr int kGzipOnly = 15 + 16;  // the largest window, with a gzip header
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw InternalError(op, "zlib did not start");
  const std::unique_ptr<z_stream, EndInflate> ended(&stream);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  std::size_t left = packed.size();
  std::vector<std::byte> out;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      stream.avail_in = static_cast<uInt>(std::min(left, kPiece));
      left -= stream.avail_in;
    }
    const std::size_t before = out.size();
    out.resize(before + kPiece);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(kPiece);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(before + kPiece - stream.avail_out);
    const bool starved = stream.avail_in == 0 && left == 0;
    if (status == Z_BUF_ERROR || (status == Z_OK && starved && stream.avail_out != 0))
      throw UserError(op, fmt::format("{} is cut off: its compressed data ends early", file.string()));
    if (status != Z_OK && status != Z_STREAM_END)
      throw UserError(op, fmt::format("{} is damaged: {}", file.string(),
                                      stream.msg != nullptr ? stream.msg : "zlib cannot read it"));
  }
  return out;
}
#else
std::vector<std::byte> unpack(std::vector<std::byte>, const std::filesystem::path& file, const char* op) {
  throw UserError(op, fmt::format("{} is compressed, and this build has no zlib", file.string()))
      .help("unpack it with gunzip, or build Lathe with zlib");
}
#endif

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& file, const char* op) {
  std::vector<std::byte> bytes = read_raw(file, op);
  if (bytes.size() >= 2 && bytes[0] == kGzipStart[0] && bytes[1] == kGzipStart[1])
    return unpack(std::move(bytes), file, op);
  return bytes;
}

}  // namespace lathe::formats
