// The types of tensors in GGUF files, a row for each.
#include <algorithm>
#include <array>
#include <utility>

#include "formats/gguf_blocks.h"
#include "formats/gguf_unpack.h"

namespace lathe::formats {
namespace {

using dtypes::float32;

constexpr std::array kTypes = {
    // code, name, elements and bytes of a block, dtype, how it is unpacked, to floats and to bytes with
    // scales
    GgufType{0, "F32", 1, 4, float32, nullptr},
    GgufType{1, "F16", 1, 2, dtypes::float16, nullptr},
    GgufType{2, "Q4_0", 32, 18, float32, gguf::q4_0, gguf::q4_0_bytes},
    GgufType{3, "Q4_1", 32, 20, float32, gguf::q4_1},
    GgufType{6, "Q5_0", 32, 22, float32, gguf::q5_0},
    GgufType{7, "Q5_1", 32, 24, float32, gguf::q5_1},
    GgufType{8, "Q8_0", 32, 34, float32, gguf::q8_0, gguf::q8_0_bytes},
    GgufType{9, "Q8_1", 32, 36, float32, gguf::q8_1},
    GgufType{10, "Q2_K", 256, 84, float32, gguf::q2_k},
    GgufType{11, "Q3_K", 256, 110, float32, gguf::q3_k},
    GgufType{12, "Q4_K", 256, 144, float32, gguf::q4_k, gguf::q4_k_bytes, gguf::q4_k_parts},
    GgufType{13, "Q5_K", 256, 176, float32, gguf::q5_k},
    GgufType{14, "Q6_K", 256, 210, float32, gguf::q6_k},
    GgufType{15, "Q8_K", 256, 292, float32, gguf::q8_k},
    GgufType{16, "IQ2_XXS", 256, 66, float32, gguf::iq2_xxs},
    GgufType{17, "IQ2_XS", 256, 74, float32, gguf::iq2_xs},
    GgufType{18, "IQ3_XXS", 256, 98, float32, gguf::iq3_xxs},
    GgufType{19, "IQ1_S", 256, 50, float32, gguf::iq1_s},
    GgufType{20, "IQ4_NL", 32, 18, float32, gguf::iq4_nl},
    GgufType{21, "IQ3_S", 256, 110, float32, gguf::iq3_s},
    GgufType{22, "IQ2_S", 256, 82, float32, gguf::iq2_s},
    GgufType{23, "IQ4_XS", 256, 136, float32, gguf::iq4_xs},
    GgufType{24, "I8", 1, 1, dtypes::int8, nullptr},
    GgufType{25, "I16", 1, 2, dtypes::int16, nullptr},
    GgufType{26, "I32", 1, 4, dtypes::int32, nullptr},
    GgufType{27, "I64", 1, 8, dtypes::int64, nullptr},
    GgufType{28, "F64", 1, 8, dtypes::float64, nullptr},
    GgufType{29, "IQ1_M", 256, 56, float32, gguf::iq1_m},
    GgufType{30, "BF16", 1, 2, dtypes::bfloat16, nullptr},
    GgufType{34, "TQ1_0", 256, 54, float32, gguf::tq1_0},
    GgufType{35, "TQ2_0", 256, 66, float32, gguf::tq2_0},
    GgufType{39, "MXFP4", 32, 17, float32, gguf::mxfp4},
    GgufType{40, "NVFP4", 64, 36, float32, gguf::nvfp4},
};
// Taken out of the format again, or too new.
constexpr std::pair<std::uint32_t, std::string_view> kUnread[] = {
    {4, "Q4_2"},        {5, "Q4_3"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"},
    {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}, {41, "Q1_0"}};

}  // namespace

std::span<const GgufType> gguf_types() { return kTypes; }

const GgufType* gguf_type(std::uint32_t code) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const GgufType& t) { return t.code == code; });
  return found == kTypes.end() ? nullptr : found;
}

const GgufType* gguf_type(std::string_view name) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const GgufType& t) { return t.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

std::string_view unread_gguf_type(std::uint32_t code) {
  for (const auto& [number, name] : kUnread)
    if (number == code) return name;
  return {};
}

}  // namespace lathe::formats
