// What the CPU compilers put into Binary::bytes: a few lines that say what the code is and what it needs,
// then the code. The features stand in the bytes themselves, so that an object that travelled (a cache on a
// shared disk) is never run on a CPU that lacks one of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::backends {

enum class CodeKind : std::uint8_t { Object, SharedLibrary };  // from LLVM, from the system's C compiler

struct CpuCode {
  CodeKind kind = CodeKind::Object;
  std::string features;            // "+avx2,+fma,..."
  std::int64_t scratch_bytes = 0;  // each part needs this much memory of its own
  std::string_view code;           // of the bytes given to unpack
};

std::string pack(const CpuCode& code);
// Throws DeviceError where the bytes are not what pack writes.
CpuCode unpack(std::string_view bytes);

}  // namespace lathe::backends
