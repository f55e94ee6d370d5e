#include "engine/build_id.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>

namespace lathe::engine {
namespace {

struct Search {
  std::uintptr_t code;  // an address inside the module we look for
  std::string id;
};

bool holds(const dl_phdr_info& module, std::uintptr_t address) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const auto& part = module.dlpi_phdr[i];
    const std::uintptr_t begin = module.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && begin <= address && address < begin + part.p_memsz) return true;
  }
  return false;
}

std::string id_in_notes(const char* notes, std::size_t bytes) {
  const char* end = notes + bytes;
  while (notes + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes, sizeof head);
    const char* name = notes + sizeof head;
    const char* data = name + (head.n_namesz + 3) / 4 * 4;
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string id;
      for (std::size_t i = 0; i < head.n_descsz; ++i)
        id += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(data[i])));
      return id;
    }
    notes = data + (head.n_descsz + 3) / 4 * 4;
  }
  return {};
}

int visit(dl_phdr_info* module, std::size_t, void* context) {
  auto& search = *static_cast<Search*>(context);
  if (!holds(*module, search.code)) return 0;
  for (int i = 0; i < module->dlpi_phnum && search.id.empty(); ++i) {
    const auto& part = module->dlpi_phdr[i];
    if (part.p_type == PT_NOTE)
      search.id = id_in_notes(reinterpret_cast<const char*>(module->dlpi_addr + part.p_vaddr), part.p_memsz);
  }
  return 1;
}

std::string find_build_id() {
  Search search{reinterpret_cast<std::uintptr_t>(&find_build_id), {}};
  dl_iterate_phdr(visit, &search);
  if (!search.id.empty()) return search.id;
  Dl_info module{};
  struct stat file{};
  const bool found = dladdr(reinterpret_cast<void*>(search.code), &module) != 0 &&
                     stat(module.dli_fname != nullptr ? module.dli_fname : "/proc/self/exe", &file) == 0;
  if (!found && stat("/proc/self/exe", &file) != 0) return "unknown";
  return fmt::format("{}-{}-{}", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

}  // namespace

const std::string& build_id() {
  static const auto* id = new std::string(find_build_id());
  return *id;
}

}  // namespace lathe::engine
