#include "test/support/fake_libraries/FakeCublasLt.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include <algorithm>
#include <cmath>
#include <cstring>

// The library's constants, written here once more: a wrong one in the backend shows.
namespace {

using omnibal::fake::CublasLt;

constexpr int success = 0, invalidValue = 7, notSupported = 15;
constexpr int float32 = 0, bfloat16 = 14, compute32 = 68, computeTf32 = 77;
constexpr uint64_t magic = 0x6f6d6e6962616cull;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
struct Layout {
  int type;
  int64_t rows, cols, line;
  int32_t batches = 1;
  int64_t stride = 0;
};
struct Description {
  int compute, scale;
  int32_t transposeA = 0, transposeB = 0;
  uint32_t epilogue = 1;
  void *bias = nullptr, *aux = nullptr;
  int64_t auxLine = 0, auxStride = 0;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256};
};

CublasLt state;

void mistake(const std::string &text) { state.mistakes.push_back(text); }

float load(const void *base, int type, int64_t at) {
  if (type == float32)
    return static_cast<const float *>(base)[at];
  const uint32_t bits = uint32_t(static_cast<const uint16_t *>(base)[at]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void store(void *base, int type, int64_t at, float value) {
  if (type == float32) {
    static_cast<float *>(base)[at] = value;
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rest = bits & 0xffff;
  bits = (bits >> 16) + (rest > 0x8000 || (rest == 0x8000 && (bits >> 16 & 1)));
  static_cast<uint16_t *>(base)[at] = std::isnan(value) ? 0x7fc0 : static_cast<uint16_t>(bits);
}

/// What an algorithm was offered for.
uint64_t problemOf(const Description &d, const Layout &a, const Layout &b, const Layout &c) {
  uint64_t hash = 1469598103934665603ull;
  for (uint64_t part :
       {uint64_t(d.compute), uint64_t(d.epilogue), uint64_t(d.transposeA), uint64_t(d.transposeB),
        uint64_t(a.type), uint64_t(b.type), uint64_t(c.type)})
    hash = (hash ^ part) * 1099511628211ull;
  return hash;
}

bool fits(const Layout &l) {
  return l.rows > 0 && l.cols > 0 && l.line >= l.rows && l.batches >= 1 &&
         (l.type == float32 || l.type == bfloat16);
}

/// The rules of the library for this product; "" if it takes it.
std::string refusal(const Description &d, const Layout &a, const Layout &b, const Layout &c,
                    const Layout &o) {
  for (const Layout *l : {&a, &b, &c, &o})
    if (!fits(*l))
      return "a layout";
  const int64_t m = o.rows, n = o.cols, k = d.transposeA ? a.rows : a.cols;
  if ((d.transposeA ? a.cols : a.rows) != m || (d.transposeB ? b.rows : b.cols) != n ||
      (d.transposeB ? b.cols : b.rows) != k || c.rows != m || c.cols != n)
    return "sizes that do not fit together";
  if (a.batches != o.batches || b.batches != o.batches || c.batches != o.batches)
    return "numbers of batches";
  if (a.type != b.type || c.type != o.type || (a.type == float32 && o.type != float32))
    return "types";
  if (d.scale != float32 ||
      (d.compute != compute32 && !(d.compute == computeTf32 && a.type == float32)))
    return "arithmetic";
  const uint32_t known[] = {1, 2, 4, 6, 32, 36, 160, 164, 192, 256, 512};
  if (std::find(std::begin(known), std::end(known), d.epilogue) == std::end(known))
    return "epilogue";
  if (o.type != a.type && (d.epilogue & 4))
    return "a bias of another type than the result";
  if ((d.epilogue & 128) && (d.auxLine % 8 != 0 || d.auxLine < m || d.auxStride % 8 != 0))
    return "the line of the auxiliary matrix";
  if ((d.epilogue & 128) && (!d.aux || reinterpret_cast<uintptr_t>(d.aux) % 16 != 0))
    return "an auxiliary matrix that is not aligned";
  if ((d.epilogue & 772) && !d.bias)
    return "no bias";
  if ((d.epilogue & 768) && o.batches != 1)
    return "sums of several products";
  return "";
}

float geluGradient(float x) {
  const double u = 0.7978845608 * (x + 0.044715 * x * x * x), t = std::tanh(u);
  return static_cast<float>(0.5 * (1 + t) +
                            0.5 * x * (1 - t * t) * 0.7978845608 * (1 + 3 * 0.044715 * x * x));
}

int64_t workspaceOf(int algorithm) { return algorithm == 3 ? 1 << 20 : 0; }

float gelu(float x) {
  return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}

/// All but the quickest take a second longer by the device's clock: a busy host does not change
/// which one is found to be the quickest.
void passTime(int algorithm, void *stream) {
  if (algorithm != state.quickest && stream)
    static_cast<omnibal::fake::StreamBase *>(stream)->interface->pass(1'000'000'000);
}

} // namespace

extern "C" {

CublasLt *fakeCublasLt() { return &state; }

size_t cublasLtGetVersion() { return state.version; }
const char *cublasLtGetStatusString(int status) {
  return status == invalidValue   ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == notSupported ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                  : "CUBLAS_STATUS_OF_THE_FAKE";
}
int cublasLtCreate(void **handle) {
  *handle = &state;
  return state.createError;
}
int cublasLtDestroy(void *) { return success; }
int cublasLtMatmulDescCreate(Description **made, int compute, int scale) {
  *made = new Description{compute, scale};
  return success;
}
int cublasLtMatmulDescDestroy(Description *d) {
  delete d;
  return success;
}
int cublasLtMatmulDescSetAttribute(Description *d, int attribute, const void *value, size_t bytes) {
  auto set = [&](auto &field) {
    if (bytes != sizeof field)
      return invalidValue;
    std::memcpy(&field, value, bytes);
    return success;
  };
  switch (attribute) {
  case 3:
    return set(d->transposeA);
  case 4:
    return set(d->transposeB);
  case 7:
    return set(d->epilogue);
  case 8:
    return set(d->bias);
  case 11:
    return set(d->aux);
  case 12:
    return set(d->auxLine);
  case 13:
    return set(d->auxStride);
  default:
    return invalidValue;
  }
}
int cublasLtMatrixLayoutCreate(Layout **made, int type, uint64_t rows, uint64_t cols,
                               int64_t line) {
  *made = new Layout{type, int64_t(rows), int64_t(cols), line};
  return success;
}
int cublasLtMatrixLayoutDestroy(Layout *l) {
  delete l;
  return success;
}
int cublasLtMatrixLayoutSetAttribute(Layout *l, int attribute, const void *value, size_t bytes) {
  if (attribute == 5 && bytes == sizeof l->batches)
    std::memcpy(&l->batches, value, bytes);
  else if (attribute == 6 && bytes == sizeof l->stride)
    std::memcpy(&l->stride, value, bytes);
  else
    return invalidValue;
  return success;
}
int cublasLtMatmulPreferenceCreate(Preference **made) {
  *made = new Preference;
  return success;
}
int cublasLtMatmulPreferenceDestroy(Preference *p) {
  delete p;
  return success;
}
int cublasLtMatmulPreferenceSetAttribute(Preference *p, int attribute, const void *value,
                                         size_t bytes) {
  if (attribute == 1 && bytes == sizeof p->workspace)
    std::memcpy(&p->workspace, value, bytes);
  else if (attribute == 3 && bytes == sizeof p->reductions)
    std::memcpy(&p->reductions, value, bytes);
  else if (attribute >= 5 && attribute <= 8 && bytes == sizeof(uint32_t))
    std::memcpy(&p->alignment[attribute - 5], value, bytes);
  else
    return invalidValue;
  return success;
}
/// Algorithm 1 adds in place, whatever was asked; 2 adds backwards; 3 needs a workspace.
int cublasLtMatmulAlgoGetHeuristic(void *, Description *d, Layout *a, Layout *b, Layout *c,
                                   Layout *o, Preference *p, int wanted, Heuristic *results,
                                   int *found) {
  *found = 0;
  if (const std::string why = refusal(*d, *a, *b, *c, *o); !why.empty()) {
    mistake("heuristics asked with " + why);
    return invalidValue;
  }
  const uint64_t alignment = *std::min_element(p->alignment, p->alignment + 4);
  if (alignment < 2 || state.offered == 0 || (d->epilogue & state.lackingEpilogues))
    return notSupported;
  for (int i = 0; i < state.offered && *found < wanted; ++i)
    if (workspaceOf(i) <= int64_t(p->workspace))
      results[(*found)++] = {{{magic, uint64_t(i), problemOf(*d, *a, *b, *c), alignment, i == 1}},
                             size_t(workspaceOf(i)),
                             success,
                             1.f,
                             {}};
  return success;
}
int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm *algorithm, int attribute, void *value,
                                         size_t bytes, size_t *written) {
  if (attribute != 3 || bytes != sizeof(uint32_t))
    return invalidValue;
  const auto scheme = static_cast<uint32_t>(algorithm->data[4]);
  std::memcpy(value, &scheme, sizeof scheme);
  *written = sizeof scheme;
  return success;
}
int cublasLtMatmulAlgoCheck(void *, Description *d, Layout *a, Layout *b, Layout *c, Layout *o,
                            const Algorithm *algorithm, Heuristic *result) {
  if (algorithm->data[0] != magic || algorithm->data[2] != problemOf(*d, *a, *b, *c) ||
      !refusal(*d, *a, *b, *c, *o).empty())
    return notSupported;
  *result = {*algorithm, size_t(workspaceOf(int(algorithm->data[1]))), success, 1.f, {}};
  return success;
}
int cublasLtMatmul(void *, Description *d, const float *alpha, const void *a, Layout *la,
                   const void *b, Layout *lb, const float *beta, const void *c, Layout *lc, void *o,
                   Layout *lo, const Algorithm *algorithm, void *workspace, size_t workspaceBytes,
                   void *stream) {
  if (state.multiplyError && (!state.failingEpilogues || (d->epilogue & state.failingEpilogues)))
    return state.multiplyError;
  if (const std::string why = refusal(*d, *la, *lb, *lc, *lo); !why.empty()) {
    mistake("a product with " + why);
    return invalidValue;
  }
  if (algorithm->data[0] != magic || algorithm->data[2] != problemOf(*d, *la, *lb, *lc))
    mistake("an algorithm that was offered for something else");
  const int number = static_cast<int>(algorithm->data[1]);
  if (algorithm->data[4] == 1)
    mistake("an algorithm that adds in place");
  if (workspaceOf(number) > int64_t(workspaceBytes) || !workspace)
    mistake("too small a workspace");
  for (const void *pointer : {a, b, c, static_cast<const void *>(o)})
    if (reinterpret_cast<uintptr_t>(pointer) % algorithm->data[3])
      mistake("an operand that is not aligned as the heuristics were told");
  if (c == o && (lc->line != lo->line || lc->stride != lo->stride))
    mistake("the result in the place of c, with other lines");

  const int64_t m = lo->rows, n = lo->cols, k = d->transposeA ? la->rows : la->cols;
  if (d->epilogue & 256) // the rows of op(A)
    for (int64_t row = 0; row < m; ++row) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += load(a, la->type, d->transposeA ? row * la->line + i : i * la->line + row);
      store(d->bias, lo->type, row, sum);
    }
  if (d->epilogue & 512) // the columns of op(B)
    for (int64_t col = 0; col < n; ++col) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += load(b, lb->type, d->transposeB ? i * lb->line + col : col * lb->line + i);
      store(d->bias, lo->type, col, sum);
    }
  for (int64_t batch = 0; batch < lo->batches; ++batch)
    for (int64_t col = 0; col < n; ++col)
      for (int64_t row = 0; row < m; ++row) {
        float sum = 0;
        for (int64_t step = 0; step < k; ++step) {
          const int64_t i = number == 2 ? k - 1 - step : step;
          sum +=
              load(a, la->type,
                   batch * la->stride + (d->transposeA ? row * la->line + i : i * la->line + row)) *
              load(b, lb->type,
                   batch * lb->stride + (d->transposeB ? i * lb->line + col : col * lb->line + i));
        }
        float value = *alpha * sum;
        if (*beta != 0)
          value += *beta * load(c, lc->type, batch * lc->stride + col * lc->line + row);
        if (d->epilogue & 4)
          value += load(d->bias, lo->type, row);
        const int64_t inAux = batch * d->auxStride + col * d->auxLine + row;
        if (d->epilogue & 64)
          value *= geluGradient(load(d->aux, lo->type, inAux));
        else if (d->epilogue & 128)
          store(d->aux, lo->type, inAux, value);
        if (d->epilogue & 2)
          value = std::max(value, 0.f);
        if (d->epilogue & 32)
          value = gelu(value);
        store(o, lo->type, batch * lo->stride + col * lo->line + row, value);
      }
  passTime(number, stream);
  ++state.products;
  state.used.push_back(number);
  state.epilogues.push_back(d->epilogue);
  state.sizes.insert(state.sizes.end(), {m, n, k, lo->batches});
  return success;
}
}
