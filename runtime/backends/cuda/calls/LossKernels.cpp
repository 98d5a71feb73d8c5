//===- LossKernels.cpp - Losses of tokens and of pairs of answers on the device ---------------===//
#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/kernels/CrossEntropy.h"
#include "runtime/backends/cuda/kernels/Preference.h"
#include "runtime/backends/cuda/kernels/Reduce.h"
#include "runtime/backends/cuda/kernels/Rows.h"
#include "runtime/backends/cuda/kernels/matrix/Gemm.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "runtime/backends/cuda/libraries/Product.h"
#include "runtime/device/calls/BoundLoss.h"
#include <algorithm>

namespace omnibal::rt::cuda {
namespace {

class CrossEntropy final : public DeviceKernel, private BoundCrossEntropy {
public:
  CrossEntropy(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &x = views[logits];
    CrossEntropyShape s;
    s.rows = x.shape[0];
    s.width = x.shape[1];
    s.logitsRow = x.strides[0];
    s.gradientRow = dlogits < 0 ? 0 : views[dlogits].strides[0];
    s.type = elementOf(x.dtype);
    s.narrowGradient = dlogits >= 0 && views[dlogits].dtype != x.dtype;
    s.smoothing = terms.smoothing;
    s.z = terms.z;
    return launched(launchCrossEntropy(
        s, x.data, static_cast<const int32_t *>(views[targets].data), nullptr,
        static_cast<float *>(views[loss].data), dlogits < 0 ? nullptr : views[dlogits].data,
        prediction < 0 ? nullptr : static_cast<int32_t *>(views[prediction].data), context.stream));
  }
};

/// Rows of the scratch operand at a time: hidden rows, logits, loss and gradient, gradients of
/// weight, hidden and bias. The gradient of the logits takes their place; float32 logits of
/// bfloat16 operands keep theirs, and the gradient is in bfloat16, as the products want it. Only
/// rows with a target take part where the runtime has said how many there are; otherwise the others
/// have a gradient of zero.
class LinearCrossEntropy final : public DeviceKernel, private BoundLinearCrossEntropy {
public:
  LinearCrossEntropy(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundLinearCrossEntropy(call) {
    if (context.libraries)
      context.libraries->expectProducts();
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const int64_t rows = views[hidden].shape[0];
    if (rows == 0)
      return Status::ok();
    Memory memory;
    OMNIBAL_RETURN_IF_ERROR(divide(views, memory));
    const int64_t taken = rowsToTake(rows);
    auto *order = reinterpret_cast<int32_t *>(memory.order);
    OMNIBAL_RETURN_IF_ERROR(
        launched(launchLabeledRows(rows, static_cast<const int32_t *>(views[targets].data), order,
                                   order + rows, context.stream)));
    if (taken < rows)
      OMNIBAL_RETURN_IF_ERROR(fillOthers(views));
    for (int64_t begin = 0; begin < taken; begin += memory.block)
      OMNIBAL_RETURN_IF_ERROR(
          runBlock(views, memory, order + begin, std::min(memory.block, taken - begin)));
    return Status::ok();
  }

private:
  using BoundLinearCrossEntropy::scratch; // the operand

  /// A matrix in memory with its element type.
  struct Matrix {
    void *data = nullptr;
    RowStrides strides{};
    DType type = DType::F32;
    Matrix turned() const { return {data, {strides.col, strides.row}, type}; }
    Matrix from(int64_t row, int64_t col) const {
      const int64_t place = row * strides.row + col * strides.col;
      return {static_cast<std::byte *>(data) + place * byteSize(type), strides, type};
    }
  };
  static Matrix matrixOf(const TensorView &v) {
    return {v.data, {v.strides[0], v.strides[1]}, v.dtype};
  }

  /// The scratch operand's parts: the order of rows and their number, then for the rows of a block
  /// the logits, their gradient (the same place where it has their type), the rows of hidden, and
  /// those of its gradient.
  struct Memory {
    std::byte *order = nullptr, *logits = nullptr, *slopes = nullptr, *inputs = nullptr,
              *inputSlopes = nullptr;
    int64_t block = 0; ///< rows
    int64_t width = 0; ///< elements from one row of logits to the next
  };

  /// Whether the gradient of the logits has a place of its own.
  bool apart(std::span<const TensorView> views) const {
    return gradients() && views[scratch].dtype != views[hidden].dtype;
  }

  /// Rows with a target come first in the order; how many there are, the runtime has counted. The
  /// number is rounded up, so that shapes repeat.
  int64_t rowsToTake(int64_t rows) const {
    const int64_t labels = context.load ? context.load->labels : -1;
    return labels < 0 ? rows : std::min(rows, labelBuckets(labels) * labelBucket);
  }

  static std::byte *take(std::byte *&from, int64_t bytes) {
    std::byte *part = from;
    from += (bytes + 15) / 16 * 16;
    return part;
  }

  /// Rows of a large vocabulary begin at multiples of 64 elements: a vocabulary of an odd number of
  /// tokens would keep the products from the tensor cores' fast loads and cross-entropy from packs.
  static int64_t strideOf(int64_t width) { return width < 512 ? width : (width + 63) / 64 * 64; }

  struct Classes {
    int64_t begin, count;
  };

  /// The classes that one product takes. The library's fast kernels want rows of whole packs of 16
  /// bytes, so what is left of a large vocabulary is multiplied apart. It comes first: where a
  /// second product adds to it in bfloat16, what was rounded is small.
  static std::vector<Classes> classesAtOnce(int64_t width) {
    constexpr int64_t pack = 8;
    const int64_t whole = width / pack * pack;
    if (width < 512 || whole == width)
      return {{0, width}};
    return {{whole, width - whole}, {0, whole}};
  }

  Status divide(std::span<const TensorView> views, Memory &memory) const {
    const TensorView &given = views[scratch], &inputs = views[hidden];
    const int64_t rows = inputs.shape[0], width = given.shape[1], features = inputs.shape[1];
    const int64_t order = 4 * (rows + 1), small = byteSize(inputs.dtype);
    const int64_t slope = dhidden >= 0 ? byteSize(views[dhidden].dtype) : 0;
    const int64_t logit = byteSize(given.dtype) + (apart(views) ? small : 0);
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
    memory.slopes = apart(views) ? take(place, memory.block * memory.width * small) : memory.logits;
    memory.inputs = take(place, memory.block * features * small);
    memory.inputSlopes = take(place, memory.block * features * slope);
    return Status::ok();
  }

  /// What rows without a target get, where not all rows are taken.
  Status fillOthers(std::span<const TensorView> views) const {
    for (auto [index, value] : {std::pair{loss, 0.0}, {prediction, -1.0}, {dhidden, 0.0}})
      if (index >= 0) {
        StridedPair all;
        for (int d = 0; d < views[index].rank; ++d)
          all.append(views[index].shape[d], views[index].strides[d], 0);
        OMNIBAL_RETURN_IF_ERROR(launched(launchFill({all, elementOf(views[index].dtype), value},
                                                    views[index].data, context.stream)));
      }
    return Status::ok();
  }

  /// c = scale a b (+ `added`), or c += scale a b.
  Status product(int64_t m, int64_t n, int64_t k, const Matrix &a, const Matrix &b, const Matrix &c,
                 const Matrix *added, bool accumulate) const {
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

  Status runBlock(std::span<const TensorView> views, const Memory &memory, const int32_t *tokens,
                  int64_t rows) const {
    const int64_t features = views[hidden].shape[1], width = views[weight].shape[0];
    const DType type = views[hidden].dtype;
    const Matrix inputs{memory.inputs, {features, 1}, type}, classes = matrixOf(views[weight]);
    const Matrix logits{memory.logits, {memory.width, 1}, views[scratch].dtype};
    const Matrix slopes{memory.slopes, {memory.width, 1}, apart(views) ? type : logits.type};
    SelectShape gather;
    gather.rows = rows;
    gather.cols = features;
    gather.out = inputs.strides;
    gather.chosen = matrixOf(views[hidden]).strides;
    gather.type = gather.chosenType = elementOf(type);
    OMNIBAL_RETURN_IF_ERROR(launched(launchSelectRows(gather, tokens, views[hidden].data, nullptr,
                                                      inputs.data, context.stream)));
    for (const auto [begin, count] : classesAtOnce(width)) {
      Matrix added;
      if (bias >= 0)
        added =
            Matrix{views[bias].data, {views[bias].strides[0], 0}, views[bias].dtype}.from(begin, 0);
      OMNIBAL_RETURN_IF_ERROR(product(rows, count, features, inputs,
                                      classes.from(begin, 0).turned(), logits.from(0, begin),
                                      bias < 0 ? nullptr : &added, false));
    }
    CrossEntropyShape s;
    s.rows = rows;
    s.width = width;
    s.logitsRow = s.gradientRow = memory.width;
    s.type = elementOf(logits.type);
    s.narrowGradient = slopes.type != logits.type;
    s.smoothing = terms.smoothing;
    s.z = terms.z;
    s.rowWeights = rowWeights < 0 ? nullptr : static_cast<const float *>(views[rowWeights].data);
    OMNIBAL_RETURN_IF_ERROR(launched(launchCrossEntropy(
        s, logits.data, static_cast<const int32_t *>(views[targets].data), tokens,
        static_cast<float *>(views[loss].data), gradients() ? slopes.data : nullptr,
        prediction < 0 ? nullptr : static_cast<int32_t *>(views[prediction].data),
        context.stream)));
    if (dweight >= 0)
      for (const auto [begin, count] : classesAtOnce(width))
        OMNIBAL_RETURN_IF_ERROR(product(count, features, rows, slopes.from(0, begin).turned(),
                                        inputs, matrixOf(views[dweight]).from(begin, 0), nullptr,
                                        true));
    if (dhidden >= 0)
      OMNIBAL_RETURN_IF_ERROR(giveInputSlopes(views, memory, slopes, classes, tokens, rows));
    if (dbias < 0)
      return Status::ok();
    ReduceShape sum;
    sum.strides.append(rows, 0, memory.width);
    sum.strides.append(width, views[dbias].strides[0], 1);
    sum.accumulate = true;
    sum.from = elementOf(slopes.type);
    sum.to = elementOf(views[dbias].dtype);
    return launched(launchReduce(sum, views[dbias].data, slopes.data, context.stream));
  }

  Status giveInputSlopes(std::span<const TensorView> views, const Memory &memory,
                         const Matrix &slopes, const Matrix &classes, const int32_t *tokens,
                         int64_t rows) const {
    const int64_t features = views[hidden].shape[1], width = views[weight].shape[0];
    const Matrix dense{memory.inputSlopes, {features, 1}, views[dhidden].dtype};
    bool adds = false;
    for (const auto [begin, count] : classesAtOnce(width)) {
      OMNIBAL_RETURN_IF_ERROR(product(rows, features, count, slopes.from(0, begin),
                                      classes.from(begin, 0), dense, nullptr, adds));
      adds = true;
    }
    ScatterShape scatter;
    scatter.rows = rows;
    scatter.cols = features;
    scatter.out = matrixOf(views[dhidden]).strides;
    scatter.from = dense.strides;
    scatter.type = elementOf(dense.type);
    return launched(
        launchScatterRows(scatter, tokens, dense.data, views[dhidden].data, context.stream));
  }
};

class PreferenceLoss : public DeviceKernel, protected BoundPreferenceLoss {
public:
  PreferenceLoss(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PreferenceLoss(call, description, context, false) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    auto numbers = [&](int operand) {
      return operand < 0 ? nullptr : static_cast<float *>(views[operand].data);
    };
    const PreferenceShape s{views[losses].shape[0], views[borders].shape[0], beta, smoothing};
    const auto *at = static_cast<const int32_t *>(views[borders].data);
    return launched(dlosses < 0
                        ? launchPreferenceLoss(s, numbers(losses), at, numbers(reference),
                                               numbers(loss), numbers(chosen), numbers(rejected),
                                               numbers(preferred), context.stream)
                        : launchPreferenceGradient(s, numbers(losses), at, numbers(reference),
                                                   numbers(rowWeights), numbers(dlosses),
                                                   context.stream));
  }

protected:
  PreferenceLoss(CallReader &call, const BoundCall &description, const KernelContext &context,
                 bool backward)
      : DeviceKernel(description, context), BoundPreferenceLoss(call, backward) {}
};

class PreferenceLossBackward final : public PreferenceLoss {
public:
  PreferenceLossBackward(CallReader &call, const BoundCall &description,
                         const KernelContext &context)
      : PreferenceLoss(call, description, context, true) {}
};

} // namespace

void addLossKernels(DeviceKernelTable &table) {
  table["cross_entropy"] = createKernelOf<CrossEntropy>;
  table["linear_cross_entropy"] = createKernelOf<LinearCrossEntropy>;
  table["preference_loss"] = createKernelOf<PreferenceLoss>;
  table["preference_loss_backward"] = createKernelOf<PreferenceLossBackward>;
}

} // namespace omnibal::rt::cuda
