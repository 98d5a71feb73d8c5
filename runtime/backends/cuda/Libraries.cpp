#include "runtime/backends/cuda/Libraries.h"
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
  return check(
      launchGemm(shape, data.a, data.b, data.c, data.bias, data.residual, data.pre, stream),
      "a product");
}

} // namespace omnibal::rt::cuda
