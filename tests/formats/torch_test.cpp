#include <cstring>

#include "formats/support.h"

namespace lathe::state {
namespace {

using test::little;

// Pieces of pickles, as Python's pickletools would list them.
std::string text(const std::string& s) { return "X" + little(s.size(), 4) + s; }
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string pickle(const std::string& body) { return "\x80\x02" + body + "."; }

// ("storage", type, key, "cpu", elements) from outside
std::string storage(const std::string& type, const std::string& key, int elements,
                    const std::string& view = "") {
  return "(" + text("storage") + global("torch", type) + text(key) + text("cpu") + "K" + little(elements, 1) +
         view + "tQ";
}
std::string numbers(std::initializer_list<int> values) {
  std::string out = "(";
  for (int v : values) out += "M" + little(v, 2);
  return out + "t";
}
std::string tensor(const std::string& from, int offset, std::initializer_list<int> sizes,
                   std::initializer_list<int> strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + from + "K" + little(offset, 1) +
         numbers(sizes) + numbers(strides) + "\x89" + global("collections", "OrderedDict") + ")RtR";
}

std::uint32_t crc(const std::string& bytes) {
  std::uint32_t c = ~0U;
  for (char byte : bytes) {
    c ^= static_cast<unsigned char>(byte);
    for (int i = 0; i < 8; ++i) c = (c & 1) != 0 ? c >> 1 ^ 0xedb88320U : c >> 1;
  }
  return ~c;
}

// A zip archive of stored members.
std::string archive(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out, directory;
  for (const auto& [name, bytes] : members) {
    const std::string facts = little(0, 2) + little(0, 2) + little(0, 4) + little(crc(bytes), 4) +
                              little(bytes.size(), 4) + little(bytes.size(), 4) + little(name.size(), 2) +
                              little(0, 2);
    directory += "PK\x01\x02" + little(20, 2) + little(20, 2) + facts + little(0, 2) + little(0, 2) +
                 little(0, 2) + little(0, 4) + little(out.size(), 4) + name;
    out += "PK\x03\x04" + little(20, 2) + facts + name + bytes;
  }
  const std::size_t at = out.size();
  return out + directory + "PK\x05\x06" + little(0, 4) + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(at, 4) + little(0, 2);
}

std::string floats(std::initializer_list<float> values) {
  std::string out;
  for (float v : values) out.append(reinterpret_cast<const char*>(&v), 4);
  return out;
}

class Torch : public test::InFolder {
 protected:
  Object load(const std::string& body, const std::string& data = floats({0, 1, 2, 3, 4, 5})) const {
    return torch_load(
        write("model.pt", archive({{"m/data.pkl", pickle(body)}, {"m/data/0", data}, {"m/version", "3\n"}})));
  }
  std::string load_refusal(const std::string& body) const {
    return refusal([&] { load(body); });
  }
};

TEST_F(Torch, ReadsAStateDictLazily) {
  const Object model =
      load(global("collections", "OrderedDict") + ")R(" + text("w") +
           tensor(storage("FloatStorage", "0", 6), 0, {2, 3}, {3, 1}) + text("b") +
           tensor(storage("FloatStorage", "0", 6), 4, {2}, {1}) + "u}" + text("_metadata") + "Nsb");
  const Tensor& w = model["w"].tensor();
  EXPECT_TRUE(w.device().starts_with("DISK:"));
  EXPECT_EQ(to_string(w.shape()), "(2, 3)");
  EXPECT_EQ(w.tolist(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(model["b"].tensor().tolist(), (std::vector<double>{4, 5})) << "of the same storage";
  EXPECT_EQ(model.tensors()[1].first, "b");
}

TEST_F(Torch, StridesAndOffsetsAreViewsOfTheStorage) {
  auto values = [&](int offset, std::initializer_list<int> sizes, std::initializer_list<int> strides) {
    return load(tensor(storage("FloatStorage", "0", 6), offset, sizes, strides)).tensor();
  };
  EXPECT_EQ(values(0, {3, 2}, {1, 3}).tolist(), (std::vector<double>{0, 3, 1, 4, 2, 5})) << "transposed";
  EXPECT_EQ(values(1, {2, 2}, {3, 1}).tolist(), (std::vector<double>{1, 2, 4, 5})) << "columns 1 and 2";
  EXPECT_EQ(values(2, {2}, {3}).tolist(), (std::vector<double>{2, 5})) << "the last column";
  EXPECT_EQ(values(1, {2, 3}, {0, 2}).tolist(), (std::vector<double>{1, 3, 5, 1, 3, 5}))
      << "expanded, every second";
  EXPECT_EQ(values(5, {}, {}).item(), 5);
  EXPECT_EQ(values(4, {1, 2, 1}, {7, 1, 9}).tolist(), (std::vector<double>{4, 5}))
      << "strides of single elements";
  EXPECT_EQ(to_string(values(0, {0, 3}, {3, 1}).shape()), "(0, 3)");
  const Tensor windows = values(0, {4, 3}, {1, 1});
  EXPECT_EQ(windows.tolist(), (std::vector<double>{0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5})) << "overlapping";
  EXPECT_TRUE(values(0, {3, 2}, {1, 3}).device().starts_with("DISK:"));
}

TEST_F(Torch, PlainValuesComeWithTheTensors) {
  const Object all = load("}(" + text("epoch") + "K\x07" + text("lr") + "G?\xf0" + std::string(6, '\0') +
                          text("done") + "\x88" + text("none") + "N" + text("list") + "](K\x01K\x02" + "e" +
                          text("size") + global("torch", "Size") + "K\x02K\x03\x86\x85R" + text("negative") +
                          "J" + little(std::uint32_t(-5), 4) + text("long") + "\x8a\x02\xff\xff" +
                          text("bytes") + global("_codecs", "encode") + text("a\xc3\xbf") + text("latin1") +
                          "\x86R" + text("dtype") + global("torch", "float16") + "u");
  EXPECT_EQ(all["epoch"].integer(), 7);
  EXPECT_EQ(all["lr"].number(), 1.0);
  EXPECT_TRUE(all["done"].boolean());
  EXPECT_TRUE(all["none"].is(Object::Kind::None));
  EXPECT_EQ(all["list"].items()[1].integer(), 2);
  EXPECT_EQ(all["size"].items()[1].integer(), 3);
  EXPECT_EQ(all["negative"].integer(), -5);
  EXPECT_EQ(all["long"].integer(), -1);
  EXPECT_EQ(all["bytes"].bytes(), (std::vector<std::byte>{std::byte{'a'}, std::byte{0xff}}));
  EXPECT_EQ(all["dtype"].string(), "torch.float16");
  EXPECT_EQ(refusal([&] { all["absent"]; }),
            "lathe: object: the dict has no \"absent\"\n  note: it has epoch, lr, done, none, list, size, "
            "negative, long "
            "and 2 more");
}

TEST_F(Torch, NothingInAFileIsCalled) {
  const std::string run = "(" + text("touch /tmp/lathe-was-here") + "tR";
  EXPECT_EQ(load_refusal(global("os", "system") + run),
            "lathe: torch_load: model.pt: member \"m/data.pkl\": at byte 2: in a pickle, the file names "
            "os.system, which "
            "is not read\n  help: only tensors and plain values are; nothing in a file is ever called");
  for (const auto& [module, name] : {std::pair{"builtins", "eval"},
                                     {"posix", "system"},
                                     {"builtins", "getattr"},
                                     {"torch", "load"},
                                     {"torch._utils", "_rebuild_qtensor"},
                                     {"", ""}})
    EXPECT_NE(load_refusal(global(module, name) + run).find("which is not read"), std::string::npos)
        << module << name;
  EXPECT_NE(load_refusal(text("os") + text("system") + "\x93" + run).find("os.system"), std::string::npos);
  EXPECT_NE(load_refusal(global("torch", "FloatStorage") + "(K\x02tR").find("which is not a function"),
            std::string::npos);
  EXPECT_NE(load_refusal("(ios\nsystem\n").find("opcode 0x69 is not read"), std::string::npos);
  EXPECT_NE(load_refusal("(" + text("os") + "o").find("opcode 0x6f"), std::string::npos);
  EXPECT_NE(load_refusal("K\x01K\x02\x86R").find("a value is taken"), std::string::npos);
  EXPECT_NE(load_refusal("K\x01)R").find("something that is not a function"), std::string::npos);
  EXPECT_NE(load_refusal("K\x01}b").find("a dict is needed"), std::string::npos);
  EXPECT_NE(load_refusal(global("torch._tensor", "_rebuild_from_type_v2") + "(" + global("builtins", "set") +
                         global("torch", "Tensor") + ")NtR")
                .find("makes no tensor"),
            std::string::npos);
}

TEST_F(Torch, PicklesThatAreWrongAreRefused) {
  EXPECT_NE(load_refusal("0").find("a value is taken where there is none"), std::string::npos);
  EXPECT_NE(load_refusal("t").find("a mark is needed"), std::string::npos);
  EXPECT_NE(load_refusal("h\x05").find("nothing was remembered under 5"), std::string::npos);
  EXPECT_EQ(load_refusal("K\x01r\xff\xff\xff\xff"), "accepted") << "a large index costs nothing";
  EXPECT_NE(load_refusal("X\xff\xff\xff\xff"
                         "abc")
                .find("is truncated"),
            std::string::npos);
  EXPECT_NE(load_refusal("\x8d" + little(std::uint64_t(-1), 8)).find("is truncated"), std::string::npos);
  EXPECT_NE(load_refusal("\x8a\x09" + std::string(9, '\x01')).find("does not fit 64 bits"),
            std::string::npos);
  EXPECT_NE(load_refusal("K\x01K\x02").find("left over"), std::string::npos);
  EXPECT_NE(load_refusal("\x80\x09").find("the protocol 9"), std::string::npos);
  EXPECT_NE(load_refusal("]q\x01h\x01"
                         "a")
                .find("contain themselves"),
            std::string::npos)
      << "a list in itself";
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "]";
  for (int i = 0; i < 99999; ++i) deep += "a";
  EXPECT_NE(load_refusal(deep).find("nested deeper than 200"), std::string::npos);
  std::string laughs = "(]";  // each list holds the one before ten times
  for (char i = 1; i < 12; ++i) {
    laughs += std::string("q") + i + "](";
    for (int again = 0; again < 10; ++again) laughs += std::string("h") + i;
    laughs += "e";
  }
  EXPECT_NE(load_refusal(laughs + "t").find("far larger than the file"), std::string::npos);
}

TEST_F(Torch, TensorsThatReachOutOfTheirStorageAreRefused) {
  auto wrong = [&](int offset, std::initializer_list<int> sizes, std::initializer_list<int> strides,
                   int elements = 6) {
    return load_refusal(tensor(storage("FloatStorage", "0", elements), offset, sizes, strides));
  };
  EXPECT_NE(wrong(0, {7}, {1}).find("beyond the 6 elements"), std::string::npos);
  EXPECT_NE(wrong(6, {1}, {1}).find("beyond"), std::string::npos);
  EXPECT_NE(wrong(0, {2, 3}, {4, 1}).find("beyond"), std::string::npos);
  EXPECT_NE(wrong(0, {60000, 60000, 60000, 60000, 60000}, {0, 0, 0, 0, 0}).find("cannot be counted"),
            std::string::npos);
  EXPECT_NE(wrong(0, {2}, {1, 1}).find("1 sizes and 2 strides"), std::string::npos);
  EXPECT_NE(wrong(0, {2}, {1}, 7).find("has 24 bytes, 7 float32 take 28"), std::string::npos);
  EXPECT_NE(load_refusal(tensor(storage("FloatStorage", "9", 6), 0, {6}, {1}))
                .find("storage \"9\" is not in the archive"),
            std::string::npos);
  EXPECT_NE(load_refusal(storage("FloatStorage", "0", 6)).find("a storage is outside a tensor"),
            std::string::npos);
  EXPECT_NE(load_refusal(tensor("K\x01", 0, {1}, {1})).find("described wrongly"), std::string::npos);
}

TEST_F(Torch, NewerDtypesHaveUntypedStorages) {
  const Object t = load(global("torch._utils", "_rebuild_tensor_v3") + "(" + "(" + text("storage") +
                            global("torch.storage", "UntypedStorage") + text("0") + text("cpu") + "K\x04tQ" +
                            "K" + little(0, 1) + numbers({4}) + numbers({1}) + "\x89N" +
                            global("torch", "float8_e4m3fn") + "NtR",
                        std::string("\x38\x40\xb8\x00", 4));
  EXPECT_EQ(t.tensor().dtype(), dtypes::fp8e4m3);
  EXPECT_EQ(t.tensor().tolist(), (std::vector<double>{1, 2, -1, 0}));
}

TEST_F(Torch, TheOlderFormIsReadLazilyToo) {
  const std::string magic = pickle("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
  const std::string start =
      magic + pickle("M" + little(1001, 2)) + pickle("}" + text("little_endian") + "\x88s");
  const std::string object =
      pickle("}" + text("w") + tensor(storage("FloatStorage", "93", 3, "N"), 1, {2}, {1}) + "s");
  const std::string good =
      start + object + pickle("](" + text("93") + "e") + little(3, 8) + floats({7, 8, 9});
  const Object model = torch_load(write("old.pt", good));
  EXPECT_TRUE(model["w"].tensor().device().starts_with("DISK:"));
  EXPECT_EQ(model["w"].tensor().tolist(), (std::vector<double>{8, 9}));
  auto refused = [&](const std::string& bytes) {
    const auto file = write("bad.pt", bytes);
    return refusal([&] { torch_load(file); });
  };
  EXPECT_NE(
      refused(good.substr(0, good.size() - 1)).find("is truncated: a storage takes 12 bytes, 11 are left"),
      std::string::npos);
  EXPECT_NE(refused(start + object + pickle("]")).find("storage \"93\" is not in the file"),
            std::string::npos);
  EXPECT_NE(refused(start + object + pickle("](" + text("93") + "e") + little(4, 8))
                .find("4 elements, 3 were promised"),
            std::string::npos);
  EXPECT_NE(refused(pickle("K\x01")).find("is not a torch checkpoint"), std::string::npos);
  EXPECT_NE(refused(magic + pickle("K\x01")).find("unknown version"), std::string::npos);
  EXPECT_NE(refused("abc").find("begins neither as a zip file nor as a pickle"), std::string::npos);
  EXPECT_NE(refused("").find("is not a torch checkpoint"), std::string::npos);
}

TEST_F(Torch, ReadsWhatTorchWrites) {
  const bool ran = python("torch", R"(
import collections, torch
torch.manual_seed(0)
base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(4, 3)).sum().backward()
optimizer.step()
everything = {
  "base": base, "turned": base.t(), "part": base[1:3, 2:5], "steps": base[::2, ::3], "wide": base[0:1].expand(5, 6),
  "half": base.half(), "bf16": base.bfloat16(), "long": base.long(), "bool": base > 7, "double": base.double(),
  "short": base.short(), "char": base.to(torch.int8), "byte": base.byte(), "int": base.int(), "empty": torch.zeros(0, 3),
  "scalar": torch.tensor(2.5), "parameter": torch.nn.Parameter(base), "model": model.state_dict(),
  "optimizer": optimizer.state_dict(), "epoch": 3, "names": ["a", ("b", 1.5, None, True)], "size": base.shape,
}
torch.save(everything, "new.pt")
torch.save(everything, "old.pt", _use_new_zipfile_serialization=False)
flat = {k: v for k, v in everything.items() if isinstance(v, torch.Tensor)}
flat.update({"model." + k: v for k, v in model.state_dict().items()})
import numpy
for k, v in flat.items():
    numpy.ascontiguousarray(v.detach().double().numpy()).tofile("value." + k)
)");
  if (!ran) GTEST_SKIP() << "the distribution's Python has no torch";
  for (const char* name : {"new.pt", "old.pt"}) {
    const Object all = torch_load(folder_ / name);
    EXPECT_EQ(all["epoch"].integer(), 3);
    EXPECT_EQ(all["names"].items()[1].items()[1].number(), 1.5);
    EXPECT_EQ(all["size"].items()[1].integer(), 6);
    EXPECT_EQ(all["optimizer"]["param_groups"].items()[0]["lr"].number(), 0.001);
    EXPECT_EQ(all["optimizer"]["state"].entries()[0].first.integer(), 0);
    EXPECT_EQ(all["bf16"].tensor().dtype(), dtypes::bfloat16);
    EXPECT_EQ(all["half"].tensor().dtype(), dtypes::float16);
    EXPECT_EQ(all["bool"].tensor().dtype(), dtypes::bool_);
    EXPECT_EQ(to_string(all["wide"].tensor().shape()), "(5, 6)");
    int compared = 0;
    for (const auto& [key, tensor] : all.tensors()) {
      const auto file = folder_ / ("value." + key);
      if (!std::filesystem::exists(file)) continue;
      const std::string bytes = read(file);
      std::vector<double> want(bytes.size() / 8);
      if (!want.empty()) std::memcpy(want.data(), bytes.data(), bytes.size());
      EXPECT_EQ(tensor.tolist(), want) << name << " " << key;
      ++compared;
    }
    EXPECT_GE(compared, 23);
  }
}

}  // namespace
}  // namespace lathe::state
