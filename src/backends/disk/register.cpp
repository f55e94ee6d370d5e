// DISK: the bytes of a file as memory. `DISK:weights.bin` maps the file; copies from it read exactly the
// pages they touch. A file that is there is never written to; one that is not is made by the first
// allocation, has the size of the largest buffer in it, and takes copies.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "runtime/pool.h"
#include "runtime/registry.h"

namespace lathe::backends {
namespace {

class DiskDevice : public Device {
 public:
  explicit DiskDevice(std::string path) : path_(std::move(path)) {
    if (path_.empty()) throw UserError("DISK", "a disk device needs a path").help("write DISK:path/of/file");
    seen_ = facts_of(path_);
    created_ = !seen_;
    if (seen_) size_ = static_cast<std::size_t>(seen_->size);
  }
  ~DiskDevice() override {
    for (const Memory& mapped : mapped_) munmap(mapped.host, std::max<std::size_t>(mapped.bytes, 1));
    if (file_ >= 0) close(file_);
  }

  // The file from its first byte. Sizes asked for are rounded up, so a new file only grows when a buffer
  // begins in it. What is mapped needs no descriptor: many files may be in use at a time.
  Memory alloc(std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (created_) {
      if (file_ < 0) file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (file_ < 0) throw failed("create");
    } else if (bytes > MemoryPool::rounded(size_)) {
      throw UserError(
          "DISK", fmt::format("{} has {}, {} were requested", path_, human_bytes(size_), human_bytes(bytes)));
    }
    if (bytes == 0) return {1, 0, this};
    const int file = created_ ? file_ : open_again();
    int access = PROT_READ | (created_ ? PROT_WRITE : 0);
    void* data = mmap(nullptr, bytes, access, created_ ? MAP_SHARED : MAP_PRIVATE, file, 0);
    const int reason = errno;
    if (!created_) close(file);
    errno = reason;
    if (data == MAP_FAILED) throw failed("map");
    mapped_.push_back({reinterpret_cast<std::uintptr_t>(data), bytes, data});
    return mapped_.back();
  }

  void begin_use(const Memory&, std::size_t bytes) override {
    if (created_) grow(bytes);
  }

  // A file that was there must be as it was; one made here may have grown.
  bool is_current() const override {
    std::lock_guard lock(mutex_);
    const std::optional<Facts> now = facts_of(path_);
    if (!created_) return now == seen_;
    struct stat own{};
    if (file_ < 0) return !now;
    return now && fstat(file_, &own) == 0 && own.st_dev == now->device && own.st_ino == now->number;
  }

  Memory import(void*, std::size_t, Owner) override {
    throw UserError("DISK", "memory of the process cannot be imported into a file").help("copy it");
  }

  void free(Memory memory) override {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < mapped_.size(); ++i)
      if (mapped_[i].handle == memory.handle) {
        munmap(mapped_[i].host, mapped_[i].bytes);
        mapped_.erase(mapped_.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
  }

  std::unique_ptr<Kernel> load(const Binary& binary) override {
    throw DeviceError("DISK", fmt::format("a file cannot run kernel {}", binary.entry))
        .help("copy the tensor to CPU first");
  }

  // Runs at once: the executor has waited for what other backends do, and this one has no work of its own.
  Event copy(Queue, Span to, Span from, std::span<const Event>) override {
    if (!created_ && owns(to.memory))
      throw DeviceError("DISK", fmt::format("{} is not written to: it was there before", path_))
          .help("copy to a new file");
    if (owns(to.memory)) grow(to.offset + to.bytes);
    std::memmove(static_cast<char*>(to.memory.host) + to.offset,
                 static_cast<char*>(from.memory.host) + from.offset, to.bytes);
    return {0, ++value_};
  }

  Event launch(Queue, Kernel&, const Grid&, std::span<const Arg>, std::span<const Event>) override {
    throw DeviceError("DISK", "a file cannot run a kernel").help("copy the tensor to CPU first");
  }
  void wait(Event) override {}
  double elapsed_ns(Event, Event) override { return 0; }

 private:
  // Tells a file from another that has taken its name, or from itself before it was changed.
  struct Facts {
    dev_t device;
    ino_t number;
    off_t size;
    time_t seconds;
    long nanoseconds;
    bool operator==(const Facts&) const = default;
  };
  static std::optional<Facts> facts_of(const std::string& path) {
    struct stat file{};
    if (stat(path.c_str(), &file) != 0) return std::nullopt;
    return Facts{file.st_dev, file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec};
  }
  int open_again() const {
    const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw failed("open");
    struct stat now{};
    if (fstat(file, &now) == 0 && now.st_ino == seen_->number && now.st_size == seen_->size) return file;
    close(file);
    throw DeviceError("DISK", fmt::format("{} was changed while it was opened", path_));
  }
  bool owns(const Memory& memory) {
    std::lock_guard lock(mutex_);
    for (const Memory& mapped : mapped_)
      if (mapped.host == memory.host) return true;
    return false;
  }
  void grow(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    if (bytes <= size_) return;
    if (ftruncate(file_, static_cast<off_t>(bytes)) != 0) throw failed("grow");
    size_ = bytes;
  }
  DeviceError failed(const char* what) const {
    return DeviceError("DISK", fmt::format("{}: cannot {} it: {}", path_, what, std::strerror(errno)));
  }

  std::string path_;
  int file_ = -1;              // of a file made here
  std::optional<Facts> seen_;  // of one that was there
  bool created_ = false;
  std::size_t size_ = 0;
  mutable std::mutex mutex_;
  std::vector<Memory> mapped_;
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace

void register_disk_backend(Registry& registry);

void register_disk_backend(Registry& registry) {
  Backend backend;
  backend.name = "DISK";
  backend.targets = [] { return std::vector<std::string>(); };
  backend.open_path = [](const std::string& path) { return std::make_unique<DiskDevice>(path); };
  backend.unavailable = [] { return std::string(); };
  registry.add(std::move(backend));
}

}  // namespace lathe::backends
