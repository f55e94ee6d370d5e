// Whatever is done to a file, a reader gives tensors or a UserError: it does not crash, hang or take memory
// by a number it read. Run under the sanitizers by make asan.
#include <functional>
#include <random>

#include "formats/support.h"
#include "lathe/datasets.h"
#include "support/fuzz.h"
#include "support/mutated.h"

namespace lathe::state {
namespace {

struct Case {
  const char* name;
  std::string bytes;
  std::function<void(const Tensor& file)> read;
};

void use(const StateDict& tensors) {
  std::int64_t small = 0;
  for (const auto& [name, tensor] : tensors)
    if (tensor.defined() && tensor.numel().value() < 4096 && small++ < 2) tensor.bytes();
}

class Fuzz : public test::InFolder {
 protected:
  std::vector<Case> cases() {
    const Tensor w = Tensor::arange(24).reshape({4, 6}).cast(dtypes::float32).realize(),
                 b = Tensor({1, 2, 3}).realize();
    const StateDict some = {{"w", w}, {"b", b}};
    std::vector<Case> all;
    auto add = [&](const char* name, std::function<void(const Tensor&)> read) {
      all.push_back({name, test::InFolder::read(folder_ / name), std::move(read)});
    };
    safe_save(some, folder_ / "safetensors", {{"k", "v"}});
    add("safetensors", [](const Tensor& t) { use(safe_load(t)); });
    save(Object::Entries{{"w", w}, {"n", Object::Items{1, 2.5, "x"}}}, folder_ / "tree");
    add("tree", [this](const Tensor& t) {
      const std::vector<std::byte> bytes = t.bytes();
      load(write("again", {reinterpret_cast<const char*>(bytes.data()), bytes.size()})).tensors();
    });
    save_npy(w, folder_ / "npy");
    add("npy", [](const Tensor& t) { use({{"", load_npy(t)}}); });
    save_npz(some, folder_ / "npz");
    add("npz", [](const Tensor& t) { use(load_npz(t)); });
    save_npz(some, folder_ / "packed", true);
    add("packed", [](const Tensor& t) { use(zip_extract(t)); });
    auto number = [](std::uint64_t value, int bytes) {
      return std::string(reinterpret_cast<const char*>(&value), static_cast<std::size_t>(bytes));
    };
    std::string gguf = "GGUF" + number(3, 4) + number(1, 8) + number(1, 8) + number(1, 8) + "k" +
                       number(9, 4) + number(5, 4) + number(2, 8) + number(1, 4) + number(2, 4) +
                       number(1, 8) + "w" + number(2, 4) + number(32, 8) + number(2, 8) + number(2, 4) +
                       number(0, 8);
    gguf.resize((gguf.size() + 31) / 32 * 32);
    write("gguf", gguf + std::string(36, '1'));
    add("gguf", [](const Tensor& t) { use(gguf_load(t).tensors); });
    std::vector<GgufTensor> packed;
    for (const std::string& type : gguf_written_types()) {
      const bool integers = type.starts_with("I") && !type.starts_with("IQ");
      packed.push_back(
          {"w" + type, type,
           Tensor::arange(512).reshape({2, 256}).cast(integers ? dtypes::int64 : dtypes::float32)});
    }
    gguf_save(Object::Entries{{"i", 7},
                              {"f", 1.5},
                              {"b", true},
                              {"s", "text"},
                              {"l", Object::Items{1, 2}},
                              {"n", Object::Items{Object::Items{"a"}}}},
              packed, folder_ / "types.gguf");
    add("types.gguf", [](const Tensor& t) { use(gguf_load(t).tensors); });
    const bool torch = python("torch, tarfile", R"(
import io, tarfile, torch
x = torch.arange(24.).reshape(4, 6)
obj = {"w": x.t(), "p": torch.nn.Parameter(x[1:, ::2]), "m": torch.nn.Linear(2, 2).state_dict(), "l": [1, (2.5, None)]}
torch.save(obj, "zip"); torch.save(obj, "legacy", _use_new_zipfile_serialization=False)
)");
    if (torch) {
      add("zip", [](const Tensor& t) { use(torch_load(t).tensors()); });
      add("legacy", [](const Tensor& t) { use(torch_load(t).tensors()); });
    }
    if (python("tarfile", R"(
import io, tarfile
for name, mode in [("tar", "w"), ("tgz", "w:gz")]:
    with tarfile.open(name, mode, format=tarfile.PAX_FORMAT) as tar:
        for path, data in [("a", b"hello"), ("d/" * 60 + "f", b"x" * 600)]:
            info = tarfile.TarInfo(path); info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
)")) {
      add("tar", [](const Tensor& t) { use(tar_extract(t)); });
      add("tgz", [](const Tensor& t) { use(tar_extract(t)); });
    }
    return all;
  }
};

TEST_F(Fuzz, DamagedFilesAreReadOrRefused) {
  const std::vector<Case> all = cases();
  for (const Case& one : all) {  // undamaged, all are read
    SCOPED_TRACE(one.name);
    EXPECT_NO_THROW(one.read(
        Tensor::from_bytes(one.bytes.data(), one.bytes.size(), {Size(one.bytes.size())}, dtypes::uint8)));
  }
  std::uint64_t read = 0, refused = 0;
  for (test::FuzzSeeds seeds(30); seeds.next();)
    for (const Case& one : all) {
      std::mt19937_64 random(seeds.seed());
      const std::string bytes = test::mutated(one.bytes, random);
      try {
        one.read(Tensor::from_bytes(bytes.data(), bytes.size(), {Size(bytes.size())}, dtypes::uint8));
        ++read;
      } catch (const UserError& error) {
        ++refused;
        ASSERT_GT(std::string(error.what()).size(), 20U);
      } catch (const std::exception& error) {
        FAIL() << "FUZZ_SEED=" << seeds.seed() << ": " << one.name << ": " << error.what();
      }
    }
  std::printf("%llu read, %llu refused\n", static_cast<unsigned long long>(read),
              static_cast<unsigned long long>(refused));
  EXPECT_GT(read + refused, 0U);
}

}  // namespace
}  // namespace lathe::state
