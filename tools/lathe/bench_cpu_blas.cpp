// OpenBLAS and MKL as contenders of `lathe bench cpu`, through the C interface of BLAS they share, loaded at
// run time.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <new>

#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;  // the interface's numbers
constexpr std::size_t kAlignment = 64;

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                       float*, int);
using SgemmBatch = void (*)(int, int, int, int, int, int, float, const float*, int, int, const float*, int,
                            int, float, float*, int, int, int);
using Bgemm = void (*)(int, int, int, int, int, int, float, const std::uint16_t*, int, const std::uint16_t*,
                       int, float, float*, int);
using Sgemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

struct Freed {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{kAlignment}); }
};
using Buffer = std::unique_ptr<std::byte[], Freed>;

Buffer make_buffer(std::size_t bytes) {
  return Buffer(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kAlignment})));
}

class BlasContender : public Contender {
 public:
  BlasContender(const std::string& library, std::string prefix) : prefix_(std::move(prefix)) {
    handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) failed_ = dlerror();
  }

  std::string version() const override {
    std::string text = "unknown version";
    if (const auto config = find<char* (*)()>("openblas_get_config")) text = config();
    if (const auto mkl = find<void (*)(char*, int)>("mkl_get_version_string")) {
      text.assign(200, '\0');
      mkl(text.data(), static_cast<int>(text.size()));
      text = text.c_str();
    }
    return text.substr(0, 60);
  }

  std::string prepare(const CpuRow& row, const std::string& folder) override {
    if (handle_ == nullptr) return failed_;
    if (row.kind != "gemm" && !(row.kind == "matvec" && row.dtype == "f32")) return "not a product it has";
    call_ = {};
    turn_ = 0;
    const std::vector<RowInput> inputs = inputs_of(row);
    data_.clear();
    copy_bytes_ = static_cast<std::size_t>(inputs[0].bytes());
    copies_ = static_cast<std::size_t>(inputs[0].copies);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const MappedFile file(fmt::format("{}/in{}", folder, i));
      data_.push_back(make_buffer(file.size()));
      std::memcpy(data_.back().get(), file.data(), file.size());
    }
    out_ = make_buffer(static_cast<std::size_t>(output_elements(row)) * sizeof(float));
    if (row.kind == "matvec")
      prepare_matvec(row);
    else if (row.dtype == "f32")
      prepare_sgemm(row);
    else if (row.dtype == "bf16")
      prepare_bgemm(row);
    if (!call_) return "not a product it has";
    run();
    return "";
  }

  void run() override { call_(data_[0].get() + turn_++ % copies_ * copy_bytes_); }

  std::vector<double> result(const std::vector<std::int64_t>& places) override {
    turn_ = 0;
    run();
    std::vector<double> values;
    for (const std::int64_t place : places)
      values.push_back(reinterpret_cast<const float*>(out_.get())[place]);
    return values;
  }

 private:
  template <class Function>
  Function find(const char* name) const {
    void* plain = handle_ == nullptr ? nullptr : dlsym(handle_, (prefix_ + name).c_str());
    return reinterpret_cast<Function>(plain);
  }
  template <class T>
  const T* input(std::size_t i) const {
    return reinterpret_cast<const T*>(data_[i].get());
  }

  struct Sizes {
    int batch, m, n, k, a, b, lda, ldb;
  };
  static Sizes sizes_of(const CpuRow& row) {
    auto size = [&](std::size_t i) { return static_cast<int>(row.sizes[i]); };
    const bool a = row.variant[0] == 't', b = row.variant[1] == 't';
    return {size(0),
            size(1),
            size(2),
            size(3),
            a ? kTransposed : kPlain,
            b ? kTransposed : kPlain,
            a ? size(1) : size(3),
            b ? size(3) : size(2)};
  }

  void prepare_sgemm(const CpuRow& row) {
    const Sizes s = sizes_of(row);
    const float* b = input<float>(1);
    auto* c = reinterpret_cast<float*>(out_.get());
    const auto many = find<SgemmBatch>("cblas_sgemm_batch_strided");
    const auto one = find<Sgemm>("cblas_sgemm");
    if (s.batch > 1 && many != nullptr)
      call_ = [=](const std::byte* a) {
        many(kRowMajor, s.a, s.b, s.m, s.n, s.k, 1, reinterpret_cast<const float*>(a), s.lda, s.m * s.k, b,
             s.ldb, s.k * s.n, 0, c, s.n, s.m * s.n, s.batch);
      };
    else if (one != nullptr)
      call_ = [=](const std::byte* a) {
        for (int i = 0; i < s.batch; ++i)
          one(kRowMajor, s.a, s.b, s.m, s.n, s.k, 1, reinterpret_cast<const float*>(a) + i * s.m * s.k, s.lda,
              b + i * s.k * s.n, s.ldb, 0, c + i * s.m * s.n, s.n);
      };
  }

  void prepare_bgemm(const CpuRow& row) {
    const Sizes s = sizes_of(row);
    auto product = find<Bgemm>("cblas_sbgemm");
    if (product == nullptr) product = find<Bgemm>("cblas_gemm_bf16bf16f32");
    if (product == nullptr) return;
    const auto* b = input<std::uint16_t>(1);
    auto* c = reinterpret_cast<float*>(out_.get());
    call_ = [=](const std::byte* a) {
      product(kRowMajor, s.a, s.b, s.m, s.n, s.k, 1, reinterpret_cast<const std::uint16_t*>(a), s.lda, b,
              s.ldb, 0, c, s.n);
    };
  }

  void prepare_matvec(const CpuRow& row) {
    const auto product = find<Sgemv>("cblas_sgemv");
    if (product == nullptr) return;
    const int m = static_cast<int>(row.sizes[0]), k = static_cast<int>(row.sizes[1]);
    const float* x = input<float>(1);
    auto* y = reinterpret_cast<float*>(out_.get());
    call_ = [=](const std::byte* a) {
      product(kRowMajor, kPlain, m, k, 1, reinterpret_cast<const float*>(a), k, x, 1, 0, y, 1);
    };
  }

  std::string prefix_, failed_;
  void* handle_ = nullptr;
  std::vector<Buffer> data_;
  Buffer out_;
  std::size_t copy_bytes_ = 0, copies_ = 1, turn_ = 0;
  std::function<void(const std::byte* large)> call_;
};

}  // namespace

std::unique_ptr<Contender> make_blas_contender(const std::string& library, const std::string& prefix) {
  return std::make_unique<BlasContender>(library, prefix);
}

}  // namespace lathe::tool
