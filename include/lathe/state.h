// Files with tensors: safetensors, GGUF, torch checkpoints, npy and npz, and tar and zip archives.
// Uncompressed tensors are read lazily: they are views of the file on the DISK device, and only what is used
// is read. A damaged, truncated or hostile file is a UserError that names the file and the position; nothing
// in a file is executed. docs/formats.md lists what is supported.
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

// A file to be mapped into CPU memory: its tensors are pages of the file, not copies, so they cost nothing
// until they are touched, and programs that read the same file share them. Writing to such a tensor does not
// change the file; the file must not shrink while the tensors are in use.
struct MappedFile {
  std::filesystem::path path;
};

// The source of a file's bytes: a path, a uint8 tensor in memory, or a path to map.
using Bytes = std::variant<std::filesystem::path, Tensor, MappedFile>;

// ---- safetensors
StateDict safe_load(const Bytes& file);
Metadata safe_load_metadata(const Bytes& file);  // the file's own metadata, without the list of tensors
// Written under a temporary name and renamed, so a reader sees either the old file or the new one.
void safe_save(const StateDict& tensors, const std::filesystem::path& file, const Metadata& metadata = {});

// ---- GGUF (llama.cpp): its keys as a dict, and its tensors. Plain dtypes are read lazily; packed ones are
// unpacked to float32 on the default device when they are used. For a model split into several files give any
// one of them; the others must be in the same folder.
struct Gguf {
  // A tensor as stored in the file: GGUF's type ("F16", "Q4_K"), and its elements, or for a packed type the
  // bytes of its rows: (..., bytes per row) uint8, on the device of the file.
  struct Stored {
    std::string type;
    Tensor stored;
  };
  Object metadata;
  StateDict tensors;
  std::map<std::string, Stored> stored;
};
Gguf gguf_load(const Bytes& file);
// Unpacks rows of a packed GGUF type, (..., bytes) uint8, to float32. Lazy: the kernel that uses the values
// decodes them.
Tensor gguf_unpack(std::string_view type, const Tensor& stored);
bool gguf_is_packed(std::string_view type);
// Rows of numbers, (rows, in), times a packed matrix, (out, bytes of a row), with the numbers rounded to
// bytes first: 32 of them share a scale, their largest / 127. So products within a block are sums of
// integers, as in other programs that read the format, and a result is as exact as the bytes are. Of the
// types that gguf_has_byte_product names (Q4_0, Q8_0, Q4_K). `parts`: those of gguf_byte_parts, or none.
Tensor gguf_byte_product(std::string_view type, const Tensor& stored, const Tensor& rows,
                         const std::vector<Tensor>& parts = {});
bool gguf_has_byte_product(std::string_view type);
// What such products read of a matrix whose blocks do not suit them, as those of Q4_K, whose scales are
// packed themselves: the codes without what is between them, scales and minima as float32. A matrix that is
// multiplied often keeps these parts: realize them once, and no product makes them again. Empty for types
// whose blocks are read as they are.
std::vector<Tensor> gguf_byte_parts(std::string_view type, const Tensor& stored);

// A tensor to write: values of any dtype, which gguf_save packs as `type`; or with `packed` the bytes of rows
// that are packed already (uint8, as in Gguf::Stored).
struct GgufTensor {
  std::string name, type;
  Tensor values;
  bool packed = false;
};
// The root mean square of a tensor's packing error, and of the tensor itself.
struct GgufError {
  std::string name, type;
  std::int64_t bytes = 0;
  double error = 0, size = 0;
};
// The types that gguf_save can write, plain ones (F32, F16, BF16, F64, I8 to I64) first.
std::vector<std::string> gguf_written_types();
// Elements per block of a type: 1 for a plain type, 0 for an unknown one.
std::int64_t gguf_block_size(std::string_view type);
// Writes GGUF version 3 under a temporary name and renames it at the end. Holds only one tensor in memory at
// a time. Throws UserError for values to pack that are not finite, and for rows that are not a multiple of
// the block size.
std::vector<GgufError> gguf_save(const Object& metadata, const std::vector<GgufTensor>& tensors,
                                 const std::filesystem::path& file);

// ---- torch checkpoints, in zip and legacy form. A safe subset of pickle is read: tensors, parameters and
// plain values. Anything else, above all any other call, is a UserError that names it.
Object torch_load(const Bytes& file);

// ---- numpy
Tensor load_npy(const Bytes& file);
void save_npy(const Tensor& tensor, const std::filesystem::path& file);
StateDict load_npz(const Bytes& file);
void save_npz(const StateDict& tensors, const std::filesystem::path& file, bool compressed = false);

// ---- archives: every regular file by name, as bytes (uint8). A tar file may be compressed by gzip. Names
// that point outside the archive's folder are a UserError.
StateDict tar_extract(const Bytes& file);
StateDict zip_extract(const Bytes& file);

}  // namespace lathe::state
