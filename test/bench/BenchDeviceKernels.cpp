//===- BenchDeviceKernels.cpp - Times kernels of a backend ------------------------------------===//
//
//   bench_device_kernels CASES.json OUT.jsonl [BACKEND]        default backend: cuda
//
// CASES.json (test/gpu/kernels.json) lists calls of docs/kernels.md: operands with type, shape and
// strides (dense where absent) on random values. A line of OUT is a case's name with the shortest
// and the median time of a call in microseconds, by the backend's own events around 20 calls in a
// row, so that the first call's way to the device hardly counts.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/executor/BackendPlugin.h"
#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>

using namespace omnibal::rt;
using nlohmann::json;

namespace {

constexpr int warmUp = 5, repeats = 15, callsARepeat = 20;

struct Operand {
  TensorView view;
  int64_t bytes = 0, offset = 0;
};

DType typeOf(const std::string &name) {
  for (DType type : {DType::F32, DType::BF16, DType::I32})
    if (name == nameOf(type))
      return type;
  throw std::runtime_error("unknown element type " + name);
}

Operand readOperand(const json &entry) {
  Operand made;
  TensorView &view = made.view;
  view.dtype = typeOf(entry.at(1));
  const json &shape = entry.at(2);
  view.rank = static_cast<int>(shape.size());
  int64_t dense = 1;
  for (int d = view.rank; d-- > 0;) {
    view.shape[d] = shape.at(d);
    view.strides[d] = entry.size() > 3 ? entry.at(3).at(d).get<int64_t>() : dense;
    dense *= view.shape[d];
  }
  made.bytes = dense * byteSize(view.dtype);
  return made;
}

/// Values of an operand: small normal numbers; of integers whatever means something there.
std::vector<std::byte> valuesOf(const json &entry, const Operand &operand, const json &call) {
  std::vector<std::byte> bytes(operand.bytes);
  const int64_t count = operand.bytes / byteSize(operand.view.dtype);
  const std::string name = entry.at(0);
  std::mt19937 random(7);
  if (operand.view.dtype == DType::I32) {
    auto *values = reinterpret_cast<int32_t *>(bytes.data());
    const int64_t segments = call.value("segments", int64_t{1});
    for (int64_t i = 0; i < count; ++i)
      values[i] = static_cast<int32_t>(
          name == "cu_seqlens" ? std::min(i * ((count - 1) / segments), count - 1) : i % 8192);
    return bytes;
  }
  // A block of normal numbers again and again: what a kernel computes does not change its time.
  std::normal_distribution<float> normal(0, 0.5f);
  std::vector<float> block(65521);
  std::generate(block.begin(), block.end(), [&] { return normal(random); });
  for (int64_t i = 0; i < count; ++i) {
    const float value = block[i % block.size()];
    if (operand.view.dtype == DType::F32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    } else {
      const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
  }
  return bytes;
}

/// Times `enqueue` on the backend; microseconds of a call, ascending.
template <typename F> Result<std::vector<double>> time(Backend &backend, F enqueue) {
  for (int i = 0; i < warmUp; ++i)
    OMNIBAL_RETURN_IF_ERROR(enqueue());
  OMNIBAL_RETURN_IF_ERROR(backend.finish());
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    Event begin = backend.recordEvent();
    for (int call = 0; call < callsARepeat; ++call)
      OMNIBAL_RETURN_IF_ERROR(enqueue());
    Event end = backend.recordEvent();
    OMNIBAL_RETURN_IF_ERROR(backend.reach(end));
    times.push_back(
        std::chrono::duration<double, std::micro>(backend.timeOf(end) - backend.timeOf(begin))
            .count() /
        callsARepeat);
  }
  backend.forgetEvents();
  std::sort(times.begin(), times.end());
  return times;
}

/// What the runtime would tell of the samples.
Load loadOfCall(const json &call) {
  const int64_t segments = call.value("segments", int64_t{0});
  if (segments == 0)
    return {};
  const int64_t rows = call.at("operands").at(0).at(2).at(0);
  std::vector<int64_t> borders;
  for (int64_t i = 0; i <= segments; ++i)
    borders.push_back(i * (rows / segments));
  return loadOf(borders, -1);
}

Result<std::vector<double>> timeKernel(Backend &backend, const json &call, ThreadPool &pool) {
  backend.expectLoad(loadOfCall(call));
  std::vector<Operand> operands;
  int64_t total = 0;
  BoundCall bound;
  bound.kernel = call.at("kernel");
  bound.attributes = call.value("attributes", json::object());
  for (const json &entry : call.at("operands")) {
    bound.operands.push_back(entry.at(0));
    operands.push_back(readOperand(entry));
    operands.back().offset = total;
    total += (operands.back().bytes + 255) / 256 * 256;
  }
  OMNIBAL_ASSIGN_OR_RETURN(auto kernel, backend.createKernel(bound));
  OMNIBAL_ASSIGN_OR_RETURN(auto arena, backend.allocateArena(total, false));
  std::vector<TensorView> views;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto values = valuesOf(call.at("operands").at(i), operands[i], call);
    std::byte *place = arena->data() + operands[i].offset;
    OMNIBAL_RETURN_IF_ERROR(backend.write(place, operands[i].bytes, [&](std::byte *to) {
      std::copy(values.begin(), values.end(), to);
      return Status::ok();
    }));
    views.push_back(operands[i].view);
    views.back().data = place;
  }
  return time(backend, [&] { return kernel->run(views, SymbolValues(), pool); });
}

Result<std::vector<double>> timeUpdate(Backend &backend, int64_t elements) {
  OMNIBAL_ASSIGN_OR_RETURN(auto arena, backend.allocateArena(16 * elements, false));
  OMNIBAL_RETURN_IF_ERROR(backend.zero(arena->data(), 16 * elements));
  auto *data = reinterpret_cast<float *>(arena->data());
  UpdatedTensor tensor;
  tensor.param = data;
  tensor.grad = data + elements;
  tensor.moment1 = data + 2 * elements;
  tensor.moment2 = data + 3 * elements;
  tensor.elements = elements;
  return time(backend, [&] { return backend.update({&tensor, 1}, UpdateOptions()); });
}

Status run(const std::string &cases, const std::string &output, const std::string &target) {
  std::ifstream input(cases);
  if (!input)
    return Status(Code::NotFound, cases + " cannot be read");
  const json calls = json::parse(input);
  OMNIBAL_ASSIGN_OR_RETURN(BackendKind * kind, backendForTarget(target));
  ThreadPool pool(1);
  BackendOptions options;
  options.pool = &pool;
  OMNIBAL_ASSIGN_OR_RETURN(auto backend, kind->open(options));
  std::ofstream lines(output);
  for (const json &call : calls) {
    auto times = call.at("kernel") == "adamw" ? timeUpdate(*backend, call.at("elements"))
                                              : timeKernel(*backend, call, pool);
    json line = {{"name", call.at("name")}};
    if (times)
      line.update({{"min_us", times->front()}, {"median_us", (*times)[times->size() / 2]}});
    else
      line["error"] = times.status().message();
    lines << line.dump() << std::endl;
  }
  return lines ? Status::ok() : Status(Code::Unavailable, output + " cannot be written");
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: bench_device_kernels CASES.json OUT.jsonl [BACKEND]\n";
    return 2;
  }
  try {
    Status status = run(argv[1], argv[2], argc > 3 ? argv[3] : "cuda");
    if (status.isOk())
      return 0;
    std::cerr << "bench_device_kernels: " << status.message() << "\n";
  } catch (const std::exception &error) { // of the JSON library: a wrong case
    std::cerr << "bench_device_kernels: " << argv[1] << ": " << error.what() << "\n";
  }
  return 1;
}
