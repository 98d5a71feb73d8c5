#include "runtime/backends/cuda/Libraries.h"
#include "runtime/backends/cuda/GemmSums.h"
#include "runtime/backends/cuda/Notice.h"

namespace omnibal::rt::cuda {

MatrixLibrary *Libraries::matrix() {
  if (matrixSought)
    return matrixLibrary.get();
  matrixSought = true;
  auto opened = MatrixLibrary::open(device, stream);
  if (opened)
    matrixLibrary = *std::move(opened);
  if (opened && own)
    own->took("products", productWorkspaceBytes);
  if (!opened)
    notice("matrix products run on our own kernels, which are slow: " + opened.status().message());
  return matrixLibrary.get();
}

Status Libraries::multiply(const GemmShape &shape, const GemmData &data) {
  if (MatrixLibrary *library = matrix()) {
    OMNIBAL_ASSIGN_OR_RETURN(const bool done, library->run(shape, data));
    if (done)
      return Status::ok();
  }
  OMNIBAL_RETURN_IF_ERROR(check(launchGemm(shape, data, stream), "a product"));
  return check(launchGemmSums(shape, data, stream), "sums beside a product");
}

} // namespace omnibal::rt::cuda
