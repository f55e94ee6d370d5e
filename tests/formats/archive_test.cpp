#include <sstream>

#include "formats/support.h"

namespace lathe::state {
namespace {

using test::little;

std::string text_of(const Tensor& t) {
  const std::vector<std::byte> bytes = t.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string octal(std::uint64_t value, int width) {
  std::ostringstream out;
  out << std::oct << value;
  return std::string(static_cast<std::size_t>(width) - out.str().size(), '0') + out.str();
}

// One header and its data, padded to whole blocks.
std::string member(std::string name, char kind, const std::string& data, const std::string& prefix = "",
                   std::string size = "") {
  std::string header = name.substr(0, 100);
  header.resize(100);
  header += octal(0644, 7) + '\0' + octal(0, 7) + '\0' + octal(0, 7) + '\0';
  header += size.empty() ? octal(data.size(), 11) + '\0' : size;
  header += octal(0, 11) + '\0' + std::string(8, ' ') + kind;
  header.resize(257);
  header += std::string("ustar\0", 6) + "00";
  header.resize(345);
  header += prefix;
  header.resize(512);
  std::uint64_t sum = 0;
  for (char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 8, octal(sum, 6) + '\0' + ' ');
  std::string padded = data;
  padded.resize((data.size() + 511) / 512 * 512);
  return header + padded;
}
const std::string kEnd(1024, '\0');

class Archive : public test::InFolder {
 protected:
  StateDict tar(const std::string& bytes) const { return tar_extract(write("a.tar", bytes)); }
  std::string tar_refusal(const std::string& bytes) const {
    return refusal([&] { tar(bytes); });
  }
};

TEST_F(Archive, TarMembersAreBytesByName) {
  const StateDict files =
      tar(member("./a.txt", '0', "hello") + member("folder/", '5', "") + member("b", '\0', "", "deep/er") +
          member("link", '2', "") + member("a.txt", '0', "again") + kEnd);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].first, "a.txt");
  EXPECT_EQ(text_of(files[0].second), "again") << "a later member replaces an earlier one";
  EXPECT_TRUE(files[0].second.device().starts_with("DISK:"));
  EXPECT_EQ(files[1].first, "deep/er/b");
  EXPECT_EQ(files[1].second.numel().value(), 0);
}

TEST_F(Archive, LongNamesComeFromRecordsBeforeAMember) {
  const std::string name(150, 'n');
  EXPECT_EQ(tar(member("././@LongLink", 'L', name + '\0') + member("x", '0', "1") + kEnd)[0].first, name);
  const std::string record = "path=" + name + "\n", counted = "160 " + record;
  ASSERT_EQ(counted.size(), 160U);
  const StateDict files =
      tar(member("p", 'x', counted) + member("x", '0', "1") + member("y", '0', "2") + kEnd);
  EXPECT_EQ(files[0].first, name);
  EXPECT_EQ(files[1].first, "y") << "only the next one";
  const std::string binary = '\x80' + std::string(9, '\0') + std::string("\x00\x05", 2);
  EXPECT_EQ(text_of(tar(member("x", '0', "12345", "", binary) + kEnd)[0].second), "12345") << "a binary size";
}

TEST_F(Archive, TarRefusesNamesThatLeaveAndFilesThatAreWrong) {
  for (const char* name : {"../x", "/etc/passwd", "a/../../x", "..", "a\\..\\..\\x", "C:x"})
    EXPECT_NE(tar_refusal(member(name, '0', "1") + kEnd).find("leaves the archive's folder"),
              std::string::npos)
        << name;
  EXPECT_EQ(tar_refusal(member("a..b/..c", '0', "1") + kEnd), "accepted");
  EXPECT_NE(tar_refusal(std::string(512, 'x')).find("not an octal number"), std::string::npos);
  std::string changed = member("a", '0', "1") + kEnd;
  changed[0] = 'b';
  EXPECT_NE(tar_refusal(changed).find("is not a tar file: the first header's checksum is wrong"),
            std::string::npos);
  EXPECT_NE(tar_refusal(member("a", '0', "1").substr(0, 512))
                .find("is truncated: a member has 1 bytes, 0 are left"),
            std::string::npos);
  EXPECT_NE(tar_refusal(member("a", '0', "1").substr(0, 300)).find("is truncated"), std::string::npos);
  EXPECT_NE(tar_refusal(member("a", '0', "1", "", "77777777777" + std::string(1, '\0'))).find("is truncated"),
            std::string::npos);
  EXPECT_NE(tar_refusal(member("a", '0', "1", "", '\x80' + std::string(11, '\xff'))).find("too large"),
            std::string::npos);
  EXPECT_NE(tar_refusal(member("p", 'x', "999999 path=x\n") + member("a", '0', "1"))
                .find("a record before a member is damaged"),
            std::string::npos);
  EXPECT_NE(tar_refusal(member("p", 'x', "12 size=abc\n") + member("a", '0', "1")).find("an invalid size"),
            std::string::npos);
  EXPECT_NE(tar_refusal(member("s", 'S', "")).find("has holes"), std::string::npos);
  EXPECT_NE(tar_refusal("").find("is empty"), std::string::npos);
}

TEST_F(Archive, ReadsWhatTheUsualProgramsWrite) {
  const bool ran = python("tarfile, zipfile, gzip", R"(
import io, tarfile, zipfile
long = "d/" * 60 + "file"
for name, form in [("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT), ("ustar", tarfile.USTAR_FORMAT)]:
    for mode in ["w", "w:gz"]:
        with tarfile.open(name + ("" if mode == "w" else ".gz"), mode, format=form) as tar:
            for path, data in [("a", b"hello"), (long, b"x" * 1000), ("\u00e4", b"")]:
                info = tarfile.TarInfo(path); info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
for name, method in [("stored.zip", zipfile.ZIP_STORED), ("packed.zip", zipfile.ZIP_DEFLATED)]:
    with zipfile.ZipFile(name, "w", method) as z:
        z.writestr("a", "hello"); z.writestr("folder/", ""); z.writestr("folder/b", "x" * 100000)
        with z.open(zipfile.ZipInfo("wide"), "w", force_zip64=True) as f: f.write(b"64")
)");
  if (!ran) GTEST_SKIP() << "there is no Python";
  for (const char* name : {"gnu", "pax", "ustar", "gnu.gz", "pax.gz", "ustar.gz"}) {
    const StateDict files = tar_extract(folder_ / name);
    ASSERT_EQ(files.size(), 3U) << name;
    EXPECT_EQ(text_of(files[0].second), "hello");
    EXPECT_EQ(files[1].first.size(), 124U);
    EXPECT_EQ(text_of(files[1].second), std::string(1000, 'x'));
    EXPECT_EQ(files[2].first, "\xc3\xa4") << name;
  }
  for (const char* name : {"stored.zip", "packed.zip"}) {
    const StateDict files = zip_extract(folder_ / name);
    ASSERT_EQ(files.size(), 3U) << name;
    EXPECT_EQ(text_of(files[0].second), "hello");
    EXPECT_EQ(files[1].first, "folder/b");
    EXPECT_EQ(text_of(files[1].second), std::string(100000, 'x'));
    EXPECT_EQ(text_of(files[2].second), "64");
  }
}

TEST_F(Archive, ZipRefusesWhatIsDamaged) {
  save_npz({{"a", Tensor::arange(100)}, {"b", Tensor::arange(50)}}, folder_ / "good.npz");
  const std::string good = read(folder_ / "good.npz");
  auto refused = [&](std::string bytes) {
    const auto file = write("bad.zip", bytes);
    return refusal([&] { zip_extract(file); });
  };
  EXPECT_EQ(refused(good), "accepted");
  EXPECT_NE(refused("").find("too short"), std::string::npos);
  EXPECT_NE(refused(good.substr(0, good.size() / 2)).find("it has no directory"), std::string::npos);
  EXPECT_NE(refused(good.substr(10)).find("outside the file") != std::string::npos ||
                refused(good.substr(10)).find("not where it should be") != std::string::npos,
            false);
  const std::size_t central = good.find("PK\x01\x02"), second = good.find("PK\x01\x02", central + 4);
  auto with = [&](std::size_t at, const std::string& bytes) {
    std::string changed = good;
    return changed.replace(at, bytes.size(), bytes);
  };
  EXPECT_NE(refused(with(central + 8, little(1, 2))).find("is encrypted"), std::string::npos);
  EXPECT_NE(refused(with(central + 10, little(12, 2))).find("packed by method 12"), std::string::npos);
  EXPECT_NE(refused(with(second + 46, "a")).find("two members have the name \"a.npy\""), std::string::npos);
  EXPECT_NE(refused(with(central + 46, "/")).find("leaves the archive's folder"), std::string::npos);
  // The sizes and the place of a member are in its 64-bit fields, after the name and four bytes.
  const std::size_t fields = central + 46 + 5 + 4;
  EXPECT_NE(refused(with(fields, little(std::uint64_t(1) << 60, 8))).find("is stored, but has"),
            std::string::npos);
  EXPECT_NE(refused(with(fields, little(1 << 30, 8) + little(1 << 30, 8))).find("is outside the file"),
            std::string::npos);
  EXPECT_NE(refused(with(fields + 16, little(std::uint64_t(-40), 8))).find("is outside the file"),
            std::string::npos);
  EXPECT_NE(refused(with(fields + 16, little(4, 8))).find("is not where the directory says"),
            std::string::npos);
  const std::size_t other = second + 46 + 5 + 4;
  EXPECT_NE(refused(with(other + 16, good.substr(fields + 16, 8))).find("overlap"), std::string::npos)
      << "two names for the same bytes";
  save_npz({{"a", Tensor::arange(100)}}, folder_ / "packed.npz", true);
  std::string packed = read(folder_ / "packed.npz");
  const std::size_t entry = packed.find("PK\x01\x02");
  const auto bomb = packed.replace(entry + 46 + 5 + 4, 8, little(std::uint64_t(1) << 40, 8));
  EXPECT_NE(refused(bomb).find("which is impossible"), std::string::npos);
  packed = read(folder_ / "packed.npz");
  EXPECT_NE(refused(packed.replace(entry + 16, 4, "abcd")).find("its checksum differs"), std::string::npos);
  packed = read(folder_ / "packed.npz");
  EXPECT_NE(refused(packed.replace(entry + 46 + 5 + 4, 8, little(20, 8)))
                .find("more than the 20 bytes it declares"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe::state
