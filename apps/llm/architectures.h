// The architectures as a table: what the files of each take for granted and do not say.
#pragma once

#include <span>
#include <string_view>

#include "lathe/llm/checkpoint.h"

namespace lathe::llm {

struct Architecture {
  std::string_view name;      // general.architecture of GGUF
  std::string_view families;  // model_type of config.json, between spaces
  bool interleaved_in_gguf;   // GGUF has the rows of queries and keys in the order of turned pairs
  bool norm_adds_one;         // Hugging Face's files store norm weights less 1
  void (*defaults)(ModelConfig&);
};

std::span<const Architecture> architectures();
// Throws NotSupported with the list of what is known.
const Architecture& architecture_named(std::string_view name);        // GGUF's name
const Architecture& architecture_of_family(std::string_view family);  // config.json's model_type

// What follows from all else, once a file has been read: the scale of scores, heads not said.
void finish_config(ModelConfig& config);

}  // namespace lathe::llm
