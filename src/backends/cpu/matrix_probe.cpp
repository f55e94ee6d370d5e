#include "backends/cpu/matrix_probe.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "target/matrix_units.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lathe::backends {
namespace {

#if defined(__x86_64__)
constexpr int kAskForState = 0x1023, kTileData = 18;  // arch_prctl: registers saved only for who asks

bool ask_for_tiles() { return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0; }

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
struct alignas(64) Tile {
  std::uint32_t words[16][16];
};

enum class Numbers { BFloat16, Bytes };

// All words of x are ones, all of y twos: every sum is twice the number of products.
void fill(Tile& tile, std::uint32_t word) {
  for (auto& row : tile.words)
    for (std::uint32_t& w : row) w = word;
}
constexpr std::uint32_t kOnes[] = {0x3f803f80, 0x01010101}, kTwos[] = {0x40004000, 0x02020202};

bool tile_product(std::string_view name, Numbers numbers) {
  if (!ask_for_tiles()) return false;
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.row_bytes[i] = 64, config.rows[i] = 16;
  Tile x, y, sums;
  fill(x, kOnes[static_cast<int>(numbers)]);
  fill(y, kTwos[static_cast<int>(numbers)]);
  fill(sums, 0);
  const std::int64_t stride = 64;
  asm volatile("ldtilecfg %0" : : "m"(config));
  asm volatile("tilezero %%tmm0" : :);
  asm volatile("tileloadd (%0,%1,1), %%tmm1" : : "r"(&x), "r"(stride) : "memory");
  asm volatile("tileloadd (%0,%1,1), %%tmm2" : : "r"(&y), "r"(stride) : "memory");
  if (name == "tdpbf16ps")
    asm volatile("tdpbf16ps %%tmm2, %%tmm1, %%tmm0" : :);
  else if (name == "tdpbssd")
    asm volatile("tdpbssd %%tmm2, %%tmm1, %%tmm0" : :);
  else if (name == "tdpbsud")
    asm volatile("tdpbsud %%tmm2, %%tmm1, %%tmm0" : :);
  else if (name == "tdpbusd")
    asm volatile("tdpbusd %%tmm2, %%tmm1, %%tmm0" : :);
  else
    asm volatile("tdpbuud %%tmm2, %%tmm1, %%tmm0" : :);
  asm volatile("tilestored %%tmm0, (%0,%1,1)" : : "r"(&sums), "r"(stride) : "memory");
  asm volatile("tilerelease" : :);
  const float real = 64;  // 16 words of 2 products of 2
  std::uint32_t want = 128;
  if (numbers == Numbers::BFloat16) std::memcpy(&want, &real, 4);
  for (const auto& row : sums.words)
    for (const std::uint32_t sum : row)
      if (sum != want) return false;
  return true;
}

// In four lanes, which every row has.
bool vector_product(std::string_view name) {
  const bool real = name == "vdpbf16ps", wide = name.starts_with("vpdpwssd") || name.starts_with("vpmaddwd");
  const std::uint32_t one = real   ? kOnes[0]
                            : wide ? 0x00010001
                                   : kOnes[1],
                      two = real   ? kTwos[0]
                            : wide ? 0x00020002
                                   : kTwos[1];
  __m128i sums = _mm_setzero_si128(), x = _mm_set1_epi32(static_cast<int>(one)),
          y = _mm_set1_epi32(static_cast<int>(two));
  if (real)
    asm volatile("vdpbf16ps %2, %1, %0" : "+x"(sums) : "x"(x), "x"(y));
  else if (name == "vpdpbusd")
    asm volatile("vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(x), "x"(y));
  else if (name == "vpdpwssd")
    asm volatile("vpdpwssd %2, %1, %0" : "+x"(sums) : "x"(x), "x"(y));
  else if (name.starts_with("vpmaddubsw"))
    asm volatile("vpmaddubsw %2, %1, %1\n vpmaddwd %3, %1, %1\n vpaddd %1, %0, %0"
                 : "+x"(sums), "+x"(x)
                 : "x"(y), "x"(_mm_set1_epi16(1)));
  else if (name.starts_with("vpmaddwd"))
    asm volatile("vpmaddwd %2, %1, %1\n vpaddd %1, %0, %0" : "+x"(sums), "+x"(x) : "x"(y));
  else if (wide)
    asm volatile("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sums) : "x"(x), "x"(y));
  else
    asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(x), "x"(y));
  std::uint32_t got[4];
  std::memcpy(got, &sums, sizeof got);
  const float real_want = 4;
  std::uint32_t want = wide ? 4 : 8;
  if (real) std::memcpy(&want, &real_want, 4);
  return got[0] == want && got[3] == want;
}

bool works(const MatrixUnit& unit) {
  return unit.m > 1 ? tile_product(unit.name, unit.dot == "bf16" ? Numbers::BFloat16 : Numbers::Bytes)
                    : vector_product(unit.name);
}
#else
bool ask_for_tiles() { return false; }
bool works(const MatrixUnit&) { return false; }
#endif

// The child tries unit after unit from `first` on, and says a byte before each and one after: 'w' where it
// works. Returns what it said.
std::string ask_child(const std::vector<const MatrixUnit*>& units, std::size_t first) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGALRM}) std::signal(signal, SIG_DFL);
    alarm(2);
    for (std::size_t i = first; i < units.size(); ++i) {
      if (write(ends[1], "b", 1) != 1) _exit(1);
      if (write(ends[1], works(*units[i]) ? "w" : "-", 1) != 1) _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char byte = 0;
  for (ssize_t got = 0; child > 0 && (got = read(ends[0], &byte, 1)) != 0;) {
    if (got == 1) said += byte;
    if (got < 0 && errno != EINTR) break;
  }
  close(ends[0]);
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return said;
}

}  // namespace

std::vector<std::string> working_units(const std::vector<std::string>& units) {
  std::vector<const MatrixUnit*> rows;
  for (const std::string& name : units)
    if (const MatrixUnit* unit = find_matrix_unit(name)) rows.push_back(unit);
  std::vector<std::string> out;
  bool tiles = false;
  for (std::size_t next = 0; next < rows.size();) {
    const std::string said = ask_child(rows, next);
    if (said.empty()) break;
    for (std::size_t i = 0; i < said.size(); i += 2, ++next)
      if (i + 1 < said.size() && said[i + 1] == 'w') {
        out.emplace_back(rows[next]->name);
        tiles |= rows[next]->m > 1;
      }
  }
  if (tiles && !ask_for_tiles()) std::erase_if(out, is_fragment_unit);
  return out;
}

}  // namespace lathe::backends
