#include "runtime/unit_compiler.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"
#include "base/interrupt.h"

namespace lathe {

std::vector<Binary> UnitCompiler::compile_all(std::span<const Program> programs, const Counted& told) const {
  std::vector<Binary> out;
  for (std::size_t begin = 0; begin < programs.size(); begin += most_) {
    stop_before("compiled", programs[begin].name);
    for (Binary& binary : compile_batch(programs.subspan(begin, std::min(most_, programs.size() - begin))))
      out.push_back(std::move(binary));
    if (told) told(out.size());
  }
  return out;
}

// A unit needs names that differ, and an error should name the kernel that is to blame: else one by one.
std::vector<Binary> UnitCompiler::compile_batch(std::span<const Program> programs) const {
  std::set<std::string> names;
  for (const Program& program : programs) names.insert(program.name);
  if (names.size() == programs.size()) {
    try {
      return compile_unit(programs);
    } catch (const CompileError&) {
      if (programs.size() == 1) throw;
    }
  }
  return Compiler::compile_all(programs, {});
}

}  // namespace lathe
