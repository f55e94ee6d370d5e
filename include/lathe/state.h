// Files that hold tensors: safetensors, torch checkpoints, npy and npz, and the archives tar and zip. What is
// stored uncompressed is read lazily: the tensors are views of the file on the DISK device, and only what is
// used is read. A file that is damaged, cut off or hostile is a UserError that names the file and the place;
// nothing from a file is ever executed. docs/formats.md tells what is read and what is refused.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "lathe/nn/module.h"
#include "lathe/object.h"

namespace lathe::state {

using nn::StateDict;
using Metadata = std::map<std::string, std::string>;

// A file whose tensors are to be its own pages in the CPU's memory, not copies: they cost nothing until they
// are touched, and programs that read the same file share them. Writing to such a tensor does not change the
// file; the file must not become shorter while they are in use.
struct MappedFile {
  std::filesystem::path path;
};

// Where a file's bytes are: a path, a tensor of bytes in memory, or a path that is mapped.
using Bytes = std::variant<std::filesystem::path, Tensor, MappedFile>;

// ---- safetensors
StateDict safe_load(const Bytes& file);
Metadata safe_load_metadata(const Bytes& file);  // the file's own notes, without the list of tensors
// Written under a temporary name and renamed: a reader sees the old file or the new one.
void safe_save(const StateDict& tensors, const std::filesystem::path& file, const Metadata& metadata = {});

// ---- GGUF (llama.cpp): its keys as a dict, and its tensors. Plain dtypes are read lazily; Q4_0, Q4_1, Q5_0,
// Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are unpacked to float32 on the default device when they are used. Of a
// model split into several files any one is named; the others lie beside it.
struct Gguf {
  // How a tensor lies in the file: `type` as the format spells it ("F16", "Q4_K"), `stored` its elements, or
  // the bytes of its rows where they are packed: (..., bytes of a row) uint8, on the device of the file.
  struct Stored {
    std::string type;
    Tensor stored;
  };
  Object metadata;
  StateDict tensors;
  std::map<std::string, Stored> stored;
};
Gguf gguf_load(const Bytes& file);
// Packed rows of a GGUF type, (..., bytes) uint8, as the float32 numbers they stand for. Lazy: a kernel that
// uses them decodes them itself.
Tensor gguf_unpack(std::string_view type, const Tensor& stored);
bool gguf_is_packed(std::string_view type);

// ---- torch checkpoints, zip form and the older one. A subset of pickle is read: tensors, parameters and
// plain values. Anything else, and above all a call of anything else, is refused by name.
Object torch_load(const Bytes& file);

// ---- numpy
Tensor load_npy(const Bytes& file);
void save_npy(const Tensor& tensor, const std::filesystem::path& file);
StateDict load_npz(const Bytes& file);
void save_npz(const StateDict& tensors, const std::filesystem::path& file, bool compressed = false);

// ---- archives: every regular file in them by name, as bytes (uint8). A tar file may be compressed by gzip.
// Names that would leave the folder they are unpacked in are refused.
StateDict tar_extract(const Bytes& file);
StateDict zip_extract(const Bytes& file);

}  // namespace lathe::state
