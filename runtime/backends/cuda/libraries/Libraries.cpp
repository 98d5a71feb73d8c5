#include "runtime/backends/cuda/libraries/Libraries.h"
#include "runtime/backends/cuda/driver/Log.h"
#include "runtime/backends/cuda/libraries/GemmSums.h"

namespace omnibal::rt::cuda {

MatrixLibrary *Libraries::matrix() {
  if (matrixSought)
    return matrixLibrary.get();
  matrixSought = true;
  auto opened = MatrixLibrary::open(device, stream);
  if (!opened) {
    logOnce("matrix products run on our own kernels, which are slow: " + opened.status().message());
    return nullptr;
  }
  matrixLibrary = *std::move(opened);
  if (own)
    own->took("products", productWorkspaceBytes);
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

FusedAttention *Libraries::attention() {
  if (attentionSought)
    return fusedAttention.get();
  attentionSought = true;
  const AttentionWish wish = attentionWish();
  if (wish == AttentionWish::Own)
    return nullptr;
  auto opened = openAttentionLibrary({stream, capability, "", ""});
  if (opened)
    fusedAttention = std::make_unique<FusedAttention>(*std::move(opened), wish, stream, own);
  else if (!opened.status().message().empty()) // built without: the user chose that
    logOnce("attention runs on our own kernels: " + opened.status().message());
  return fusedAttention.get();
}

Result<bool> Libraries::attend(const AttentionShape &shape, const AttentionData &data,
                               const Load *load, bool backward) {
  if (shape.type != Element::BF16) // no library has it in float32
    return false;
  FusedAttention *library = attention();
  return library ? library->run(shape, data, load, backward) : Result<bool>(false);
}

} // namespace omnibal::rt::cuda
