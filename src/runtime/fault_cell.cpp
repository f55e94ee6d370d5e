#include "runtime/fault_cell.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/devices.h"

namespace lathe {
namespace {

constexpr std::size_t kPage = 4096;

// Unused cells by device; their pages are imported once and kept.
struct Table {
  std::mutex mutex;
  std::map<const OpenDevice*, std::vector<FaultCell::Word>> free;
};

Table& table() {
  static auto* all = new Table;  // never destroyed: kernels may be until the process ends
  return *all;
}

std::vector<FaultCell::Word> new_page(OpenDevice& device) {
  std::unique_ptr<std::int64_t, void (*)(void*)> held(
      static_cast<std::int64_t*>(std::aligned_alloc(kPage, kPage)), std::free);
  std::int64_t* page = held.get();
  if (page == nullptr) throw std::bad_alloc();
  constexpr std::size_t kWords = kPage / sizeof(std::int64_t);
  std::fill_n(page, kWords, 0);
  const Memory memory = device.device->import(page, kPage, [page] { std::free(page); });
  held.release();
  std::vector<FaultCell::Word> words;
  for (std::size_t i = 0; i < kWords; ++i)
    words.push_back({page + i, {memory, i * sizeof(std::int64_t), sizeof(std::int64_t)}});
  return words;
}

}  // namespace

FaultCell::FaultCell(OpenDevice& device) : device_(device) {
  std::lock_guard guard(table().mutex);
  std::vector<Word>& free = table().free[&device];
  if (free.empty()) free = new_page(device);
  word_ = free.back();
  free.pop_back();
}

FaultCell::~FaultCell() {
  std::atomic_ref(*word_.host).store(0);
  std::lock_guard guard(table().mutex);
  table().free[&device_].push_back(word_);
}

std::int64_t FaultCell::value() const { return std::atomic_ref(*word_.host).load(); }

}  // namespace lathe
