#include "formats/gzip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "formats/source.h"
#include "lathe/error.h"

#if LATHE_HAVE_ZLIB
#include <zlib.h>
#endif

namespace lathe::formats {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

std::vector<std::byte> read_raw(const std::filesystem::path& file, const char* op) {
  std::unique_ptr<std::FILE, CloseFile> in(std::fopen(file.c_str(), "rb"));
  if (!in) refuse_to_open(file, op, errno);
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

// The remainder of every byte, and of every byte followed by one to three zero bytes: four bytes a step.
constexpr std::array<std::array<std::uint32_t, 256>, 4> crc_tables() {
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t c = n;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0xedb88320U ^ (c >> 1) : c >> 1;
    tables[0][n] = c;
  }
  for (std::uint32_t n = 0; n < 256; ++n)
    for (std::size_t t = 1; t < 4; ++t)
      tables[t][n] = (tables[t - 1][n] >> 8) ^ tables[0][tables[t - 1][n] & 0xff];
  return tables;
}
constexpr auto kCrc = crc_tables();

#if LATHE_HAVE_ZLIB
struct EndInflate {
  void operator()(z_stream* s) const { inflateEnd(s); }
};
struct EndDeflate {
  void operator()(z_stream* s) const { deflateEnd(s); }
};
// Negative window bits mean no header; 16 more mean one of gzip.
constexpr int kRaw = -15, kGzipOnly = 15 + 16;
#endif

}  // namespace

bool is_gzip(std::span<const std::byte> start) {
  return start.size() >= 2 && start[0] == std::byte{0x1f} && start[1] == std::byte{0x8b};
}

#if LATHE_HAVE_ZLIB
namespace {

// One call of inflate or deflate: the next piece of what is left goes in, and what comes out is appended.
// `at_last` is how zlib is called once nothing is left.
int step(z_stream& stream, std::size_t& left, std::vector<std::byte>& out, int (*work)(z_stream*, int),
         int at_last) {
  if (stream.avail_in == 0) {
    stream.avail_in = static_cast<uInt>(std::min(left, kPiece));
    left -= stream.avail_in;
  }
  const std::size_t before = out.size();
  out.resize(before + kPiece);
  stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
  stream.avail_out = static_cast<uInt>(kPiece);
  const int status = work(&stream, left == 0 ? at_last : Z_NO_FLUSH);
  out.resize(before + kPiece - stream.avail_out);
  return status;
}

}  // namespace

std::vector<std::byte> unpack(std::span<const std::byte> packed, Packing packing, const std::string& name,
                              const std::string& op, std::optional<std::uint64_t> most) {
  z_stream stream{};
  if (inflateInit2(&stream, packing == Packing::Gzip ? kGzipOnly : kRaw) != Z_OK)
    throw InternalError(op, "zlib did not start");
  const std::unique_ptr<z_stream, EndInflate> ended(&stream);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));  // zlib only reads it
  std::size_t left = packed.size();
  std::vector<std::byte> out;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    status = step(stream, left, out, inflate, Z_NO_FLUSH);
    if (most && out.size() > *most)
      throw UserError(
          op, fmt::format("{} is damaged: it unpacks to more than the {} bytes it declares", name, *most));
    const bool starved = stream.avail_in == 0 && left == 0;
    if (status == Z_BUF_ERROR || (status == Z_OK && starved && stream.avail_out != 0))
      throw UserError(op, fmt::format("{} is truncated: its compressed data ends early", name));
    if (status != Z_OK && status != Z_STREAM_END)
      throw UserError(op, fmt::format("{} is damaged: {}", name,
                                      stream.msg != nullptr ? stream.msg : "zlib cannot read it"));
    // A gzip file may be several, one after the other.
    if (status == Z_STREAM_END && packing == Packing::Gzip && stream.avail_in + left >= 2 &&
        is_gzip({reinterpret_cast<const std::byte*>(stream.next_in), 2})) {
      if (inflateReset(&stream) != Z_OK) throw InternalError(op, "zlib did not start again");
      status = Z_OK;
    }
  }
  return out;
}

std::vector<std::byte> deflate_bytes(std::span<const std::byte> bytes, const std::string& op) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRaw, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw InternalError(op, "zlib did not start");
  const std::unique_ptr<z_stream, EndDeflate> ended(&stream);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));  // zlib only reads it
  std::size_t left = bytes.size();
  std::vector<std::byte> out;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    status = step(stream, left, out, deflate, Z_FINISH);
    if (status == Z_STREAM_ERROR) throw InternalError(op, "zlib cannot compress");
  }
  return out;
}
#else
std::vector<std::byte> unpack(std::span<const std::byte>, Packing, const std::string& name,
                              const std::string& op, std::optional<std::uint64_t>) {
  throw UserError(op, fmt::format("{} is compressed, and this build has no zlib", name))
      .help("unpack it with gunzip or unzip, or build Lathe with zlib");
}
std::vector<std::byte> deflate_bytes(std::span<const std::byte>, const std::string& op) {
  throw UserError(op, "this build has no zlib to compress with").help("write it uncompressed");
}
#endif

std::vector<std::byte> read_file(const std::filesystem::path& file, const char* op) {
  std::vector<std::byte> bytes = read_raw(file, op);
  if (is_gzip(bytes)) return unpack(bytes, Packing::Gzip, file.string(), op);
  return bytes;
}

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t c = ~before;
  std::size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    std::uint32_t four = 0;
    std::memcpy(&four, bytes.data() + at, 4);
    c ^= four;
    c = kCrc[3][c & 0xff] ^ kCrc[2][(c >> 8) & 0xff] ^ kCrc[1][(c >> 16) & 0xff] ^ kCrc[0][c >> 24];
  }
  for (; at < bytes.size(); ++at)
    c = kCrc[0][(c ^ std::to_integer<std::uint32_t>(bytes[at])) & 0xff] ^ (c >> 8);
  return ~c;
}

}  // namespace lathe::formats
