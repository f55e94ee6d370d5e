#include "formats/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace lathe::formats {
namespace {

std::atomic<unsigned> made{0};

}  // namespace

// Opened by name and not by mkstemp, so that the file has the rights the user's mask gives new files.
Output::Output(std::filesystem::path file, std::string op) : op_(std::move(op)), file_(std::move(file)) {
  temporary_ = fmt::format("{}.{}-{}.tmp", file_.string(), getpid(), ++made);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ >= 0) return;
  const bool missing = errno == ENOENT;  // the folder is
  const UserError error = failed("made");
  if (missing) throw MissingFile(op_, error.message());
  throw error;
}

Output::~Output() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void Output::write(std::span<const std::byte> bytes) {
  write_at(position_, bytes);
  position_ += bytes.size();
}

void Output::number(std::uint64_t value, int bytes) {
  std::byte low_first[8];
  std::memcpy(low_first, &value, 8);
  write(std::span(low_first, static_cast<std::size_t>(bytes)));
}

void Output::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t put =
        pwrite(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw failed("written");
    done += static_cast<std::size_t>(put);
  }
}

void Output::commit() {
  if (fsync(descriptor_) != 0) throw failed("written");
  if (close(descriptor_) != 0) {
    descriptor_ = -1;
    throw failed("written");
  }
  descriptor_ = -1;
  if (std::rename(temporary_.c_str(), file_.c_str()) == 0) return;
  const UserError error = failed("put in place");
  unlink(temporary_.c_str());
  throw error;
}

UserError Output::failed(const char* what) const {
  return UserError(op_, fmt::format("{} cannot be {}: {}", file_.string(), what, std::strerror(errno)));
}

void check_plain(const Tensor& tensor, const std::string& name, const std::string& op) {
  if (!tensor.defined()) throw UserError(op, fmt::format("{} has no tensor", name));
  for (const Size& size : tensor.shape())
    if (size.is_symbolic())
      throw UserError(op, fmt::format("{} has shape {}, which is symbolic", name, to_string(tensor.shape())))
          .help("save a tensor of plain sizes: shrink it to the bound value, or pad it");
}

}  // namespace lathe::formats
