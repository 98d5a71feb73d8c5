#include "runtime/backends/cuda/driver/Log.h"
#include "runtime/backends/cuda/driver/Stopwatch.h"
#include "runtime/backends/cuda/kernels/ColumnSum.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/libraries/GemmSums.h"
#include "runtime/backends/cuda/libraries/PreparedProduct.h"
#include <cstdlib>

namespace omnibal::rt::cuda {
namespace {

constexpr const char *libraryName = "libcublasLt.so.13";
constexpr int knownMajor = 13;
/// Each may be code that is loaded at its first launch, for milliseconds.
constexpr int mostCandidates = 4;
/// Below this a product takes the first algorithm offered: it is over before a choice pays.
constexpr double leastMeasured = 1e7; // multiplications

Status resolve(const SharedLibrary &library, lt::Functions &api) {
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtCreate", api.create));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtDestroy", api.destroy));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtGetVersion", api.version));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtGetStatusString", api.statusString));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulDescCreate", api.descriptionCreate));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulDescDestroy", api.descriptionDestroy));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulDescSetAttribute", api.descriptionSet));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatrixLayoutCreate", api.layoutCreate));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatrixLayoutDestroy", api.layoutDestroy));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatrixLayoutSetAttribute", api.layoutSet));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulPreferenceCreate", api.preferenceCreate));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulPreferenceDestroy", api.preferenceDestroy));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulAlgoGetHeuristic", api.heuristics));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulAlgoCheck", api.check));
  OMNIBAL_RETURN_IF_ERROR(library.find("cublasLtMatmulAlgoConfigGetAttribute", api.algorithmGet));
  return library.find("cublasLtMatmul", api.multiply);
}

bool isSet(const char *name) {
  const char *value = std::getenv(name);
  return value && std::string(value) == "1";
}

/// Behind the workspace: where the library leaves sums of an operand.
const void *sumsIn(const DeviceBuffer &scratch) {
  return scratch.data() + MatrixLibrary::workspaceBytes;
}

/// to += what the library left in `scratch`.
cudaError_t addSums(float *to, int64_t count, const DeviceBuffer &scratch, cudaStream_t stream) {
  CopyShape shape;
  shape.strides.append(count, 1, 1);
  shape.accumulate = true;
  return launchCopy(shape, to, sumsIn(scratch), stream);
}

/// What is left to do after a product.
cudaError_t finish(const ProductPlan &plan, const GemmShape &shape, const GemmData &data,
                   cudaStream_t stream) {
  if (plan.rest.any())
    if (cudaError_t error = launchGemmRest(shape, plan.rest, data, stream))
      return error;
  return plan.sumsApart ? launchGemmSums(shape, data, stream) : cudaSuccess;
}

/// Elements of an operand [m, n] from its first to its last.
int64_t extentOf(const GemmShape &s, const GemmShape::Operand &o) {
  int64_t last = (s.m - 1) * o.strides.row + (s.n - 1) * o.strides.col;
  for (int d = 0; d < s.batchRank; ++d)
    last += (s.batch[d] - 1) * o.batch[d];
  return last + 1;
}

/// Elements of the library's matrix d from its first to its last.
int64_t extentOf(const Product &p, int64_t line, int64_t stride) {
  return (p.n - 1) * line + p.m + (p.batches - 1) * stride;
}

} // namespace

Result<std::unique_ptr<MatrixLibrary>> MatrixLibrary::open(const std::string &device,
                                                           cudaStream_t stream) {
  std::unique_ptr<MatrixLibrary> made(new MatrixLibrary);
  OMNIBAL_ASSIGN_OR_RETURN(made->library, SharedLibrary::open(libraryName, "cu13"));
  OMNIBAL_RETURN_IF_ERROR(resolve(*made->library, made->api));
  const size_t version = made->api.version();
  if (version / 10000 != knownMajor)
    return Status(Code::Unavailable, made->library->path() + " is cuBLASLt of version " +
                                         std::to_string(version) + "; one of CUDA " +
                                         std::to_string(knownMajor) + " is needed");
  if (int error = made->api.create(&made->handle)) {
    made->handle = nullptr;
    return Status(Code::Unavailable, "cuBLASLt (" + made->library->path() +
                                         ") does not start: " + made->api.statusString(error));
  }
  made->stream = stream;
  OMNIBAL_ASSIGN_OR_RETURN(made->workspace, DeviceBuffer::allocate(productWorkspaceBytes, stream));
  made->file = AlgorithmFile::shared();
  const bool tf32 = isSet("OMNIBAL_CUDA_TF32");
  made->float32Compute = tf32 ? lt::computeTf32 : lt::computeFloat32;
  made->prefix = device + ", cuBLASLt " + std::to_string(version) + (tf32 ? ", tf32: " : ": ");
  return made;
}

MatrixLibrary::~MatrixLibrary() {
  prepared.clear();
  if (handle)
    (void)api.destroy(handle);
}

std::string MatrixLibrary::description() const {
  const size_t version = api.version();
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

int MatrixLibrary::launch(const ProductPlan &plan, const ProductCall &call, const Prepared &p,
                          const lt::Algorithm &algorithm, const DeviceBuffer &scratch,
                          cudaStream_t where) const {
  const void *bias = plan.product.makesSums() ? sumsIn(scratch) : plan.bias;
  if (int error = p.point(bias, call.aux, plan.product.epilogue))
    return error;
  const float beta = plan.product.beta ? 1.f : 0.f;
  return api.multiply(handle, p.description, &plan.alpha, call.a, p.a, call.b, p.b, &beta, call.c,
                      p.c, call.d, p.d, &algorithm, scratch.data(), workspaceBytes, where);
}

Result<bool> MatrixLibrary::run(const GemmShape &shape, const GemmData &data) {
  std::optional<ProductPlan> plan = planProduct(shape, data);
  if (plan && plan->product.isSpecial()) {
    OMNIBAL_ASSIGN_OR_RETURN(const auto special, prepare(*plan));
    OMNIBAL_ASSIGN_OR_RETURN(bool done, pays(*plan, *special, shape, data));
    if (done) {
      OMNIBAL_ASSIGN_OR_RETURN(done, enqueue(*plan, *special, shape, data));
      if (done)
        return true;
    }
    plan = planProduct(shape, data, Epilogues::Ordinary);
  }
  if (!plan)
    return false;
  OMNIBAL_ASSIGN_OR_RETURN(const auto here, prepare(*plan));
  return enqueue(*plan, *here, shape, data);
}

/// The product and what follows it; false where the library declines.
Result<bool> MatrixLibrary::enqueue(const ProductPlan &plan, Prepared &here, const GemmShape &shape,
                                    const GemmData &data) {
  if (!here.usable)
    return false;
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    const int error = launch(plan, plan.calls[i], here, here.algorithm, *workspace, stream);
    if (error == lt::success)
      continue;
    if (i == 0 && (error == lt::notSupported || error == lt::invalidValue)) {
      here.usable = false;
      here.pays = false;
      logOnce(
          "cuBLASLt declines " + algorithmKey(plan.product) + " (" + api.statusString(error) +
          "): " +
          (plan.product.isSpecial() ? "done without its epilogue" : "our own kernel multiplies"));
      return false;
    }
    return Status(Code::Unavailable, "cuBLASLt: the product " + algorithmKey(plan.product) +
                                         " failed: " + api.statusString(error));
  }
  if (plan.sums)
    OMNIBAL_RETURN_IF_ERROR(
        check(addSums(plan.sums, plan.sumCount, *workspace, stream), "sums beside a product"));
  OMNIBAL_RETURN_IF_ERROR(check(finish(plan, shape, data, stream), "what follows a product"));
  return true;
}

/// Whether an epilogue is at least as fast as the ordinary one and a kernel of our own.
Result<bool> MatrixLibrary::pays(const ProductPlan &plan, Prepared &special, const GemmShape &shape,
                                 const GemmData &data) {
  if (special.pays)
    return *special.pays;
  special.pays = special.usable;
  const std::optional<ProductPlan> ordinary = planProduct(shape, data, Epilogues::Ordinary);
  if (!special.usable || special.seconds == 0 || !ordinary)
    return special.usable;
  OMNIBAL_ASSIGN_OR_RETURN(const auto apart, prepare(*ordinary));
  if (!apart->usable || apart->seconds == 0)
    return true;
  auto rest = known(prefix + "after " + algorithmKey(plan.product),
                    [&] { return measureRest(*ordinary, shape, data); });
  if (!rest) {
    logOnce("algorithms are not measured: " + rest.status().message());
    return true;
  }
  special.pays = special.seconds <= apart->seconds + rest->seconds;
  return *special.pays;
}

Result<std::shared_ptr<MatrixLibrary::Prepared>> MatrixLibrary::prepare(const ProductPlan &plan) {
  if (auto found = prepared.find(plan.product); found != prepared.end())
    return found->second;
  if (prepared.size() >= mostPrepared)
    prepared.clear();
  auto made = std::make_shared<Prepared>(api);
  const Product &p = plan.product;
  const void *bias = p.makesSums() ? sumsIn(*workspace) : plan.bias;
  if (made->describe(p, p.type == Element::F32 ? float32Compute : lt::computeFloat32) ==
          lt::success &&
      made->point(bias, plan.calls[0].aux, p.epilogue) == lt::success)
    OMNIBAL_RETURN_IF_ERROR(choose(plan, *made));
  return prepared[p] = std::move(made);
}

std::vector<lt::Heuristic> MatrixLibrary::candidates(const Prepared &p,
                                                     const Product &product) const {
  lt::Preference preference = nullptr;
  if (api.preferenceCreate(&preference) != lt::success)
    return {};
  const uint64_t bytes = workspaceBytes;
  const uint32_t reductions = lt::reduceComputeType;
  const auto alignment = static_cast<uint32_t>(product.alignment);
  int error = api.preferenceSet(preference, lt::workspaceBytes, &bytes, sizeof bytes);
  if (!error)
    error = api.preferenceSet(preference, lt::reductionMask, &reductions, sizeof reductions);
  for (int attribute : {lt::alignmentA, lt::alignmentB, lt::alignmentC, lt::alignmentD})
    if (!error)
      error = api.preferenceSet(preference, attribute, &alignment, sizeof alignment);
  std::vector<lt::Heuristic> offered(mostCandidates);
  int found = 0;
  if (!error)
    error = api.heuristics(handle, p.description, p.a, p.b, p.c, p.d, preference, mostCandidates,
                           offered.data(), &found);
  (void)api.preferenceDestroy(preference);
  offered.resize(error ? 0 : found);
  std::erase_if(offered, [&](const lt::Heuristic &h) {
    uint32_t scheme = lt::reduceInPlace;
    size_t written = 0;
    const int unknown =
        api.algorithmGet(&h.algorithm, lt::reductionScheme, &scheme, sizeof scheme, &written);
    return h.state != lt::success || h.workspaceBytes > uint64_t{workspaceBytes} || unknown ||
           (scheme != lt::reduceNone && scheme != lt::reduceComputeType);
  });
  return offered;
}

Status MatrixLibrary::choose(const ProductPlan &plan, Prepared &p) {
  const Product &product = plan.product;
  const std::vector<lt::Heuristic> offered = candidates(p, product);
  if (offered.empty())
    return Status::ok(); // our own kernel's
  p.usable = true;
  p.algorithm = offered[0].algorithm;
  const double work = double(product.m) * double(product.n) * double(product.k) * product.batches;
  if (!file || work < leastMeasured)
    return Status::ok();
  auto found = known(prefix + algorithmKey(product), [&] { return measure(plan, p, offered); });
  lt::Heuristic checked{};
  if (!found) {
    logOnce("algorithms are not measured: " + found.status().message());
  } else if (api.check(handle, p.description, p.a, p.b, p.c, p.d, &found->algorithm, &checked) ==
                 lt::success &&
             checked.workspaceBytes <= uint64_t{workspaceBytes}) {
    p.algorithm = found->algorithm;
    p.seconds = found->seconds;
  }
  return Status::ok();
}

Result<MeasuredAlgorithm> MatrixLibrary::known(const std::string &key,
                                               const AlgorithmFile::Measure &measure) {
  if (!file->knows(key)) // not while others wait for the file: their messages may be awaited here
    OMNIBAL_RETURN_IF_ERROR(settle(stream));
  return file->get(key, measure);
}

/// How long it takes to finish an ordinary product, in memory of its own.
Result<MeasuredAlgorithm> MatrixLibrary::measureRest(const ProductPlan &plan,
                                                     const GemmShape &shape,
                                                     const GemmData &data) const {
  OMNIBAL_ASSIGN_OR_RETURN(auto watch, Stopwatch::create());
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  Status status = Status::ok();
  auto place = [&](bool there, int64_t bytes) -> void * {
    if (!there || !status)
      return nullptr;
    auto made = DeviceBuffer::allocate(bytes, watch->stream());
    if (!made) {
      status = std::move(made).status();
      return nullptr;
    }
    memory.push_back(*std::move(made));
    return memory.back()->data();
  };
  const int64_t size = bytesOf(shape.resultType);
  GemmData apart = data;
  apart.c = place(true, extentOf(shape, shape.c) * size);
  apart.pre = place(data.pre, extentOf(shape, shape.pre) * size);
  apart.sumA = static_cast<float *>(place(data.sumA, shape.m * int64_t{sizeof(float)}));
  apart.sumB = static_cast<float *>(place(data.sumB, shape.n * int64_t{sizeof(float)}));
  apart.partials =
      static_cast<float *>(place(data.partials, columnSumScratch * int64_t{sizeof(float)}));
  OMNIBAL_RETURN_IF_ERROR(std::move(status));
  OMNIBAL_ASSIGN_OR_RETURN(const std::optional<double> seconds, watch->time([&] {
    return finish(plan, shape, apart, watch->stream()) == cudaSuccess;
  }));
  if (!seconds)
    return Status(Code::Internal, "a kernel does not start");
  return MeasuredAlgorithm{{}, *seconds};
}

/// Measures on a separate stream, into separate memory: the operands may be in use, and a graph may
/// be being recorded.
Result<MeasuredAlgorithm> MatrixLibrary::measure(const ProductPlan &plan, const Prepared &p,
                                                 const std::vector<lt::Heuristic> &offered) {
  const Product &product = plan.product;
  OMNIBAL_ASSIGN_OR_RETURN(auto watch, Stopwatch::create());
  const int64_t size = bytesOf(product.resultType);
  OMNIBAL_ASSIGN_OR_RETURN(
      auto result, DeviceBuffer::allocate(extentOf(product, product.lineD, product.strideD) * size,
                                          watch->stream()));
  OMNIBAL_ASSIGN_OR_RETURN(auto scratch,
                           DeviceBuffer::allocate(productWorkspaceBytes, watch->stream()));
  std::unique_ptr<DeviceBuffer> aux;
  ProductCall call = plan.calls[0];
  call.d = result->data();
  if (!product.beta)
    call.c = call.d;
  if (product.writesAux()) {
    OMNIBAL_ASSIGN_OR_RETURN(
        aux, DeviceBuffer::allocate(extentOf(product, product.lineAux, product.strideAux) * size,
                                    watch->stream()));
    call.aux = aux->data();
  }
  MeasuredAlgorithm best;
  bool found = false;
  for (const lt::Heuristic &candidate : offered) {
    auto seconds = watch->time(
        [&] {
          return launch(plan, call, p, candidate.algorithm, *scratch, watch->stream()) ==
                     lt::success &&
                 (!plan.sums || addSums(reinterpret_cast<float *>(result->data()), plan.sumCount,
                                        *scratch, watch->stream()) == cudaSuccess);
        },
        found ? std::optional<double>(best.seconds) : std::nullopt);
    if (!seconds)
      return std::move(seconds).status();
    if (*seconds && (!found || **seconds < best.seconds)) {
      best = {candidate.algorithm, **seconds};
      found = true;
    }
  }
  if (!found)
    return Status(Code::Unavailable, "cuBLASLt runs none of the algorithms that it offers for " +
                                         algorithmKey(product));
  return best;
}

} // namespace omnibal::rt::cuda
