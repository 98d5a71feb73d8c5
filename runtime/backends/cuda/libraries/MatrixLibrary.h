//===- MatrixLibrary.h - One rank's products by cuBLASLt -------------------------------------===//
//
// For each distinct product the library's heuristics offer some algorithms; the fastest on the real
// shape is measured once and kept (AlgorithmFile.h). Only algorithms that add in a fixed order take
// part: split sums in float32 in the workspace, none in place. So the same file gives the same
// bits. Float32 products stay in float32 unless OMNIBAL_CUDA_TF32=1. Some epilogues are available
// in fewer algorithms (gradients of GELU and bias, GELU with its argument kept). Such an epilogue
// is used if it was measured to be faster than a plain product and a kernel of our own, which the
// file keeps too.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_LIBRARIES_MATRIXLIBRARY_H
#define RUNTIME_BACKENDS_CUDA_LIBRARIES_MATRIXLIBRARY_H

#include "runtime/backends/cuda/driver/Runtime.h"
#include "runtime/backends/cuda/driver/SharedLibrary.h"
#include "runtime/backends/cuda/libraries/AlgorithmFile.h"
#include "runtime/backends/cuda/libraries/Product.h"
#include <map>

namespace omnibal::rt::cuda {

class MatrixLibrary {
public:
  /// The workspace of a rank for split sums, outside its arena.
  static constexpr int64_t workspaceBytes =
      productWorkspaceBytes - mostSums * int64_t{sizeof(float)};

  /// Opens the library; Unavailable or NotFound says why there is none. `device` is the device's
  /// name.
  static Result<std::unique_ptr<MatrixLibrary>> open(const std::string &device,
                                                     cudaStream_t stream);
  ~MatrixLibrary();
  MatrixLibrary(const MatrixLibrary &) = delete;

  /// "cuBLASLt 13.1.0"
  std::string description() const;
  /// Enqueues the whole product, or does nothing (false) if the library declines.
  Result<bool> run(const GemmShape &shape, const GemmData &data);

private:
  struct Prepared;
  static constexpr size_t mostPrepared = 4096; ///< every number of rows is another product

  MatrixLibrary() = default;
  Result<std::shared_ptr<Prepared>> prepare(const ProductPlan &plan);
  Result<bool> enqueue(const ProductPlan &plan, Prepared &prepared, const GemmShape &shape,
                       const GemmData &data);
  Result<bool> pays(const ProductPlan &plan, Prepared &prepared, const GemmShape &shape,
                    const GemmData &data);
  Status choose(const ProductPlan &plan, Prepared &prepared);
  std::vector<lt::Heuristic> candidates(const Prepared &prepared, const Product &product) const;
  Result<MeasuredAlgorithm> measure(const ProductPlan &plan, const Prepared &prepared,
                                    const std::vector<lt::Heuristic> &offered);
  Result<MeasuredAlgorithm> measureRest(const ProductPlan &plan, const GemmShape &shape,
                                        const GemmData &data) const;
  int launch(const ProductPlan &plan, const ProductCall &call, const Prepared &prepared,
             const lt::Algorithm &algorithm, const DeviceBuffer &scratch, cudaStream_t where) const;
  Result<MeasuredAlgorithm> known(const std::string &key, const AlgorithmFile::Measure &measure);

  std::unique_ptr<SharedLibrary> library;
  lt::Functions api{};
  lt::Handle handle = nullptr;
  cudaStream_t stream = nullptr;
  std::unique_ptr<DeviceBuffer> workspace;
  std::shared_ptr<AlgorithmFile> file;
  std::string prefix; ///< of the file's keys: device, version, arithmetic
  int float32Compute = lt::computeFloat32;
  std::map<Product, std::shared_ptr<Prepared>> prepared;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_LIBRARIES_MATRIXLIBRARY_H
