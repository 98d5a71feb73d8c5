#include "runtime/backends/cuda/calls/LogitKernel.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/kernels/Reduce.h"
#include "runtime/backends/cuda/kernels/Rows.h"
#include "runtime/backends/cuda/kernels/matrix/Gemm.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "runtime/backends/cuda/libraries/Product.h"
#include <algorithm>

namespace omnibal::rt::cuda {

struct LogitKernel::Matrix {
  void *data = nullptr;
  RowStrides strides{};
  DType type = DType::F32;

  static Matrix of(const TensorView &v) { return {v.data, {v.strides[0], v.strides[1]}, v.dtype}; }
  Matrix turned() const { return {data, {strides.col, strides.row}, type}; }
  Matrix from(int64_t row, int64_t col) const {
    const int64_t place = row * strides.row + col * strides.col;
    return {static_cast<std::byte *>(data) + place * byteSize(type), strides, type};
  }
};

/// The scratch operand's parts: the order of rows and their number, then for the rows of a block
/// the logits, their gradient (the same place where it has their type), the rows of hidden, and
/// those of its gradient.
struct LogitKernel::Memory {
  std::byte *order = nullptr, *logits = nullptr, *slopes = nullptr, *inputs = nullptr,
            *inputSlopes = nullptr;
  int64_t block = 0; ///< rows
  int64_t width = 0; ///< elements from one row of logits to the next
};

namespace {

/// Whether the gradient of the logits has a place of its own.
bool areApart(const LogitOperands &operands) {
  return operands.gradients() && operands.scratch->dtype != operands.hidden->dtype;
}

std::byte *take(std::byte *&from, int64_t bytes) {
  std::byte *part = from;
  from += (bytes + 15) / 16 * 16;
  return part;
}

/// Rows of a large vocabulary begin at multiples of 64 elements: a vocabulary of an odd number of
/// tokens would keep the products from the tensor cores' fast loads and cross-entropy from packs.
int64_t strideOf(int64_t width) { return width < 512 ? width : (width + 63) / 64 * 64; }

struct Classes {
  int64_t begin, count;
};

/// The classes that one product takes. The library's fast kernels want rows of whole packs of 16
/// bytes, so what is left of a large vocabulary is multiplied apart. It comes first: where a
/// second product adds to it in bfloat16, what was rounded is small.
std::vector<Classes> classesAtOnce(int64_t width) {
  constexpr int64_t pack = 8;
  const int64_t whole = width / pack * pack;
  if (width < 512 || whole == width)
    return {{0, width}};
  return {{whole, width - whole}, {0, whole}};
}

} // namespace

LogitKernel::LogitKernel(const BoundCall &description, const KernelContext &context)
    : DeviceKernel(description, context) {
  if (context.libraries)
    context.libraries->expectProducts();
}

Status LogitKernel::forBlocks(const LogitOperands &operands,
                              const std::vector<std::pair<const TensorView *, double>> &others,
                              const std::function<Status(LogitBlock &)> &onBlock) const {
  const int64_t rows = operands.hidden->shape[0];
  if (rows == 0)
    return Status::ok();
  Memory memory;
  OMNIBAL_RETURN_IF_ERROR(divide(operands, memory));
  const int64_t taken = rowsToTake(rows);
  auto *order = reinterpret_cast<int32_t *>(memory.order);
  OMNIBAL_RETURN_IF_ERROR(
      launched(launchLabeledRows(rows, static_cast<const int32_t *>(operands.targets->data), order,
                                 order + rows, context.stream)));
  for (auto [view, value] : others)
    if (view && taken < rows)
      OMNIBAL_RETURN_IF_ERROR(fill(*view, value));
  for (int64_t begin = 0; begin < taken; begin += memory.block)
    OMNIBAL_RETURN_IF_ERROR(
        runBlock(operands, memory, order + begin, std::min(memory.block, taken - begin), onBlock));
  return Status::ok();
}

Status LogitKernel::fill(const TensorView &view, double value) const {
  if (view.elements() == 0)
    return Status::ok();
  StridedPair all;
  for (int d = 0; d < view.rank; ++d)
    all.append(view.shape[d], view.strides[d], 0);
  return launched(launchFill({all, elementOf(view.dtype), value}, view.data, context.stream));
}

/// Rows with a target come first in the order; how many there are, the runtime has counted. The
/// number is rounded up, so that shapes repeat.
int64_t LogitKernel::rowsToTake(int64_t rows) const {
  const int64_t labels = context.load ? context.load->labels : -1;
  return labels < 0 ? rows : std::min(rows, labelBuckets(labels) * labelBucket);
}

Status LogitKernel::divide(const LogitOperands &operands, Memory &memory) const {
  const TensorView &given = *operands.scratch, &inputs = *operands.hidden;
  const int64_t rows = inputs.shape[0], width = operands.weight->shape[0],
                features = inputs.shape[1];
  const int64_t order = 4 * (rows + 1), small = byteSize(inputs.dtype);
  const int64_t slope = operands.dhidden ? byteSize(operands.dhidden->dtype) : 0;
  const int64_t logit = byteSize(given.dtype) + (areApart(operands) ? small : 0);
  const int64_t bytes = given.elements() * byteSize(given.dtype) - order - 5 * 16;
  auto rowsThatFit = [&](int64_t stride) {
    const int64_t row = stride * logit + features * (small + slope);
    return std::min(rows, row > 0 ? bytes / row : rows);
  };
  memory.width = strideOf(width);
  memory.block = rowsThatFit(memory.width);
  if (memory.block <= 0) {
    memory.width = width;
    memory.block = rowsThatFit(width);
  }
  if (memory.block <= 0)
    return bad("operand 'scratch' cannot hold the order of the rows and the logits of one token");
  auto *place = static_cast<std::byte *>(given.data);
  memory.order = take(place, order);
  memory.logits = take(place, memory.block * memory.width * byteSize(given.dtype));
  memory.slopes =
      areApart(operands) ? take(place, memory.block * memory.width * small) : memory.logits;
  memory.inputs = take(place, memory.block * features * small);
  memory.inputSlopes = take(place, memory.block * features * slope);
  return Status::ok();
}

/// c = scale a b (+ `added`), or c += scale a b.
Status LogitKernel::product(int64_t m, int64_t n, int64_t k, const Matrix &a, const Matrix &b,
                            const Matrix &c, float scale, const Matrix *added,
                            bool accumulate) const {
  GemmShape s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.a.strides = a.strides;
  s.b.strides = b.strides;
  s.c.strides = c.strides;
  s.alpha = scale;
  s.accumulate = accumulate;
  s.type = elementOf(a.type);
  s.resultType = elementOf(c.type);
  if (added)
    s.biasStride = added->strides.row;
  return multiply(s, {a.data, b.data, c.data, added ? added->data : nullptr, nullptr, nullptr});
}

Status LogitKernel::runBlock(const LogitOperands &operands, const Memory &memory,
                             const int32_t *tokens, int64_t rows,
                             const std::function<Status(LogitBlock &)> &onBlock) const {
  const int64_t features = operands.hidden->shape[1], width = operands.weight->shape[0];
  const DType type = operands.hidden->dtype;
  const Matrix inputs{memory.inputs, {features, 1}, type}, classes = Matrix::of(*operands.weight);
  const Matrix logits{memory.logits, {memory.width, 1}, operands.scratch->dtype};
  const Matrix slopes{memory.slopes, {memory.width, 1}, areApart(operands) ? type : logits.type};
  SelectShape gather;
  gather.rows = rows;
  gather.cols = features;
  gather.out = inputs.strides;
  gather.chosen = Matrix::of(*operands.hidden).strides;
  gather.type = gather.chosenType = elementOf(type);
  OMNIBAL_RETURN_IF_ERROR(launched(launchSelectRows(gather, tokens, operands.hidden->data, nullptr,
                                                    inputs.data, context.stream)));
  for (const auto [begin, count] : classesAtOnce(width)) {
    Matrix added;
    if (const TensorView *bias = operands.bias)
      added = Matrix{bias->data, {bias->strides[0], 0}, bias->dtype}.from(begin, 0);
    OMNIBAL_RETURN_IF_ERROR(product(rows, count, features, inputs, classes.from(begin, 0).turned(),
                                    logits.from(0, begin), operands.scale,
                                    operands.bias ? &added : nullptr, false));
  }
  LogitBlock block;
  block.shape.rows = rows;
  block.shape.width = width;
  block.shape.logitsRow = block.shape.gradientRow = memory.width;
  block.shape.type = elementOf(logits.type);
  block.shape.narrowGradient = slopes.type != logits.type;
  block.targets = static_cast<const int32_t *>(operands.targets->data);
  block.tokens = tokens;
  block.logits = logits.data;
  block.slopes = operands.gradients() ? slopes.data : nullptr;
  OMNIBAL_RETURN_IF_ERROR(onBlock(block));
  return giveGradients(operands, memory, inputs, slopes, tokens, rows);
}

Status LogitKernel::giveGradients(const LogitOperands &operands, const Memory &memory,
                                  const Matrix &inputs, const Matrix &slopes, const int32_t *tokens,
                                  int64_t rows) const {
  const int64_t features = operands.hidden->shape[1], width = operands.weight->shape[0];
  if (operands.dweight)
    for (const auto [begin, count] : classesAtOnce(width))
      OMNIBAL_RETURN_IF_ERROR(product(count, features, rows, slopes.from(0, begin).turned(), inputs,
                                      Matrix::of(*operands.dweight).from(begin, 0), operands.scale,
                                      nullptr, true));
  if (operands.dhidden)
    OMNIBAL_RETURN_IF_ERROR(giveInputSlopes(operands, memory, slopes, tokens, rows));
  if (!operands.dbias)
    return Status::ok();
  ReduceShape sum;
  sum.strides.append(rows, 0, memory.width);
  sum.strides.append(width, operands.dbias->strides[0], 1);
  sum.accumulate = true;
  sum.from = elementOf(slopes.type);
  sum.to = elementOf(operands.dbias->dtype);
  return launched(launchReduce(sum, operands.dbias->data, slopes.data, context.stream));
}

Status LogitKernel::giveInputSlopes(const LogitOperands &operands, const Memory &memory,
                                    const Matrix &slopes, const int32_t *tokens,
                                    int64_t rows) const {
  const int64_t features = operands.hidden->shape[1];
  const Matrix classes = Matrix::of(*operands.weight);
  const Matrix dense{memory.inputSlopes, {features, 1}, operands.dhidden->dtype};
  bool adds = false;
  for (const auto [begin, count] : classesAtOnce(operands.weight->shape[0])) {
    OMNIBAL_RETURN_IF_ERROR(product(rows, features, count, slopes.from(0, begin),
                                    classes.from(begin, 0), dense, operands.scale, nullptr, adds));
    adds = true;
  }
  ScatterShape scatter;
  scatter.rows = rows;
  scatter.cols = features;
  scatter.out = Matrix::of(*operands.dhidden).strides;
  scatter.from = dense.strides;
  scatter.type = elementOf(dense.type);
  return launched(
      launchScatterRows(scatter, tokens, dense.data, operands.dhidden->data, context.stream));
}

} // namespace omnibal::rt::cuda
